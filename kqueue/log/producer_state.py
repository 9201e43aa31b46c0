"""State of a log's idempotent producers and their transactions. Kafka's ProducerStateManager.

Per producer id: the epoch, the last five batches (a client has at most five requests in flight, and
may repeat any of them), and the first offset of an open transaction. All of it can be replayed from
the log's batches; snapshots shorten the replay. Source: KIP-98, KIP-360, Kafka
ProducerStateManager, ProducerAppendInfo.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from kqueue.base.errors import (
    CorruptBatch,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    StorageUnavailable,
    TransactionCoordinatorFenced,
)
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.log.transaction_verification import Verification, Verifications
from kqueue.records.batch import ABORT, COMMIT, TRANSACTIONAL, BatchHeader, Record, decode_control

BATCHES_KEPT = 5
SEQUENCE_MAX = 2**31 - 1
EPOCH_MAX = 2**15 - 1
LOOKS_PER_REMOVAL = 10
RAISED_EPOCH_VERSION = 2
"""From this transaction version on, a marker's epoch is above that of its transaction (KIP-890)."""
NONE = -1
NO_OFFSET = 2**63 - 1
_COORDINATOR_EPOCH = struct.Struct(">hi")  # value of an end marker: version, coordinator epoch


class BatchMetadata(NamedTuple):
    """One of a producer's last batches. Kafka's BatchMetadata.

    offset_delta: of the last record. timestamp: the greatest of the batch, in ms.
    """

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """Offset of the first record."""
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        """Sequence of the first record; sequences wrap at 2**31."""
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MAX


class ProducerStateEntry:
    """State of one producer id. Kafka's ProducerStateEntry.

    Attributes:
        epoch: -1: unknown.
        transaction_offset: first offset of the open transaction; -1: none is open.
        last_timestamp: time of its last batch or marker, in ms, as the batch says.
        seen_ms: wall clock when that arrived, in ms; -1: before this start.
        refused_epoch: of its last batch, if there was no room for that; else -1.
        wrote_again: it wrote since its place among the others was last looked at by `forget_idle`.
    """

    __slots__ = (
        "batches", "coordinator_epoch", "epoch", "last_timestamp", "refused_epoch", "seen_ms", "transaction_offset",
        "wrote_again",
    )  # fmt: skip

    def __init__(self, epoch: int = NONE) -> None:
        self.epoch = epoch
        self.batches: tuple[BatchMetadata, ...] = ()  # oldest first; a deque would take ten times the memory
        self.last_timestamp = NONE
        self.seen_ms = NONE
        self.coordinator_epoch = NONE
        self.transaction_offset = NONE
        self.refused_epoch = NONE
        self.wrote_again = False

    def set_epoch(self, epoch: int) -> None:
        """Start a new epoch: its sequence restarts; batches of old epochs cannot be repeated."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches = ()

    def expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Whether it was idle for `expiration_ms` and has no open transaction."""
        return self.transaction_offset < 0 and now_ms - max(self.last_timestamp, self.seen_ms) >= expiration_ms


class EndTransactionMarker(NamedTuple):
    """The content of a control record that ends a transaction. kind: COMMIT or ABORT."""

    kind: int
    coordinator_epoch: int

    @classmethod
    def of(cls, record: Record) -> EndTransactionMarker | None:
        """Decode a control record; None: it is no end marker. Raises: CorruptBatch."""
        kind, _ = decode_control(record)
        if kind not in (COMMIT, ABORT):
            return None
        if record.value is None or len(record.value) < _COORDINATOR_EPOCH.size:
            raise CorruptBatch(f"an end marker's value has {_COORDINATOR_EPOCH.size} bytes, found {record.value!r}")
        return cls(kind, _COORDINATOR_EPOCH.unpack_from(record.value)[1])


class ProducerStateManager:
    """All producers of one log, as of `end_offset` (exclusive): the end of the batches applied so
    far.

    Attributes:
        ended: first and last offset of ended transactions that may lie above the high watermark.
            While it is empty, `forget_ended` has no work.
    """

    __slots__ = ("_open", "by_id", "end_offset", "ended", "on_change", "verifications")

    def __init__(self) -> None:
        self.by_id: dict[int, ProducerStateEntry] = {}
        self.on_change: Callable[[int], None] | None = None  # called with how many more there are
        self.end_offset = 0
        self.verifications = Verifications()
        self._open: dict[int, int] = {}  # first offset -> producer id, in order
        self.ended: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self.by_id)

    def check(self, header: BatchHeader, *, client: bool = True) -> BatchMetadata | None:
        """Check a batch against its producer's state.

        A producer without state may start with any sequence, as in Kafka since KIP-360.

        Args: client: False: a batch of the broker itself; only the epoch of its data is checked.
        Returns: the earlier batch that this one repeats; None: it is new.
        Raises: InvalidProducerEpoch: the epoch is older than the last. OutOfOrderSequence: a gap,
            or a repetition of something older than five batches. StorageUnavailable: a gap, because
            the batch before was refused. InvalidTransactionState: a batch outside of its producer's
            open transaction.
        """
        producer = self.by_id.get(header.producer_id)
        if producer is None or producer.epoch < 0:
            return None
        if not client:
            if header.producer_epoch < producer.epoch and not header.is_control:
                raise _old_epoch(header.producer_id, header.producer_epoch, producer.epoch)
            return None
        if header.producer_epoch != producer.epoch:
            self._check_new_epoch(header, producer)
        else:
            # Before the sequence: to the expected one a repetition is a gap backwards, and it must
            # be confirmed, not refused.
            repeated = _repeated(header, producer)
            if repeated is not None:
                return repeated
            # Sequences are int32 and go on at 0 after the greatest.
            expected = (producer.batches[-1].last_sequence + 1) & SEQUENCE_MAX if producer.batches else 0
            if header.base_sequence != expected:
                _check_not_refused(header, producer)
                raise OutOfOrderSequence(
                    f"producer {header.producer_id} (epoch {producer.epoch}): expected sequence {expected}, found "
                    f"{header.base_sequence}"
                )
        # It could be neither committed nor aborted: readers tell transactions apart by producer id
        # alone.
        if producer.transaction_offset >= 0 and not header.is_transactional:
            raise InvalidTransactionState(
                f"producer {header.producer_id} has an open transaction, the batch is none of it"
            )
        return None

    def _check_new_epoch(self, header: BatchHeader, producer: ProducerStateEntry) -> None:
        if header.producer_epoch < producer.epoch:
            raise _old_epoch(header.producer_id, header.producer_epoch, producer.epoch)
        if header.base_sequence != 0:
            _check_not_refused(header, producer)
            raise OutOfOrderSequence(
                f"producer {header.producer_id}: epoch {header.producer_epoch} has to begin with sequence 0, found "
                f"{header.base_sequence}"
            )

    def refuse(self, header: BatchHeader) -> None:
        """Note that there was no room for a batch, which passed `check`.

        Those that its producer has sent after it are refused for the same reason, until it has come
        again. As a gap in the sequence they would make librdkafka take a new epoch, and send again
        what it does not know to be stored, also to other partitions: each record twice.
        """
        producer = self.by_id.get(header.producer_id)
        if producer is not None:
            producer.refused_epoch = header.producer_epoch

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> None:
        """Check an end marker before it is appended.

        Raises: InvalidProducerEpoch: it is of an older transaction. From `RAISED_EPOCH_VERSION` on
            its epoch has to be above that of the open transaction; a repeated marker ends nothing
            and is appended once more. TransactionCoordinatorFenced: a newer coordinator wrote a
            marker before.
        Source: Kafka's ProducerAppendInfo.checkProducerEpoch, checkCoordinatorEpoch.
        """
        producer = self.by_id.get(producer_id)
        if producer is None:
            return
        # KIP-890: the epoch of a marker is above that of its transaction's batches. A delayed one
        # of the transaction before has the epoch of this one, and must not end it.
        is_raised = transaction_version >= RAISED_EPOCH_VERSION and producer.transaction_offset >= 0
        if producer_epoch < producer.epoch or (is_raised and producer_epoch == producer.epoch < EPOCH_MAX):
            raise _old_epoch(producer_id, producer_epoch, producer.epoch)
        if coordinator_epoch < producer.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"producer {producer_id}: the last marker has coordinator epoch {producer.coordinator_epoch}, "
                f"this one {coordinator_epoch}"
            )

    def coordinator_epoch_of(self, producer_id: int) -> int:
        """Return the coordinator epoch of the producer's last end marker; 0: there is none."""
        producer = self.by_id.get(producer_id)
        return 0 if producer is None else max(producer.coordinator_epoch, 0)

    def start_verification(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, from_zero: bool
    ) -> Verification | None:
        """Return the verification that a batch needs, before the coordinator is asked; None: none,
        its transaction is open here.

        Raises: InvalidProducerEpoch: the epoch is older than the last.
        """
        producer = self.by_id.get(producer_id)
        if producer is not None:
            if epoch < producer.epoch:
                raise _old_epoch(producer_id, epoch, producer.epoch)
            if producer.transaction_offset >= 0 and producer.epoch == epoch:
                return None
        return self.verifications.start(producer_id, epoch, sequence, now_ms, from_zero=from_zero)

    def check_verified(self, header: BatchHeader, verification: Verification | None) -> None:
        """Check that a transactional batch is part of a transaction that the coordinator knows.

        `check` reports old epochs and repeated batches, which pass here.
        Raises: as `Verifications.check`.
        """
        producer = self.by_id.get(header.producer_id)
        if producer is not None and producer.epoch >= header.producer_epoch:
            is_known = producer.epoch > header.producer_epoch or producer.transaction_offset >= 0
            if is_known or _repeated(header, producer) is not None:
                return
        has_batches = producer is not None and bool(producer.batches)
        self.verifications.check(header, verification, has_batches=has_batches)

    def apply(
        self, header: BatchHeader, marker: EndTransactionMarker | None, offset: int, seen_ms: int = NONE
    ) -> AbortedTxn | None:
        """Apply a batch that was appended at `offset`; `marker`: its end marker, if it is a control
        batch.

        Returns: the transaction that it aborted; None: none.
        """
        if header.attributes & TRANSACTIONAL and self.verifications:
            self.verifications.end(header.producer_id)
        if marker is not None:
            return self.end_transaction(header, marker, offset, seen_ms)
        if not header.is_control:
            self.update(header, offset, seen_ms)
        return None

    def update(self, header: BatchHeader, base_offset: int, seen_ms: int = NONE) -> None:
        """Apply a batch of records at `base_offset`, after `check` or in a replay."""
        producer = self.by_id.get(header.producer_id)
        is_new = producer is None
        if producer is None:
            producer = self.by_id[header.producer_id] = ProducerStateEntry(header.producer_epoch)
        else:
            producer.wrote_again = True
        producer.set_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        batch = BatchMetadata(header.last_sequence, base_offset + delta, delta, header.max_timestamp)
        producer.batches = (*producer.batches[1 - BATCHES_KEPT :], batch)
        producer.refused_epoch = NONE
        producer.last_timestamp = header.max_timestamp
        producer.seen_ms = seen_ms
        if producer.transaction_offset < 0 and header.is_transactional:
            producer.transaction_offset = base_offset
            self._open[base_offset] = header.producer_id
        self.end_offset = base_offset + delta + 1
        if is_new and self.on_change is not None:
            self.on_change(1)  # now that an open transaction keeps it

    def end_transaction(
        self, header: BatchHeader, marker: EndTransactionMarker, offset: int, seen_ms: int = NONE
    ) -> AbortedTxn | None:
        """Apply an end marker at `offset`.

        Returns: the transaction that it aborted, with the last stable offset of this moment; None:
            it committed, or ended nothing.
        """
        producer = self.by_id.get(header.producer_id)
        if producer is None:
            producer = self.by_id[header.producer_id] = ProducerStateEntry(header.producer_epoch)
            if self.on_change is not None:
                self.on_change(1)
        first = producer.transaction_offset
        aborted = self.aborted_by(header.producer_id, offset) if marker.kind == ABORT else None
        producer.set_epoch(header.producer_epoch)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = header.max_timestamp
        producer.seen_ms = seen_ms
        producer.transaction_offset = NONE
        self.end_offset = offset + 1
        if first >= 0:
            # No longer open, but not yet stable: consumers see it once its marker is committed
            # (`first_unstable`).
            self._open.pop(first, None)
            self.ended.append((first, offset))
        return aborted

    def aborted_by(self, producer_id: int, offset: int) -> AbortedTxn | None:
        """Return the transaction that a marker of this producer at `offset`, not applied yet, would
        abort, with the last stable offset after it; None: the producer has none open.
        """
        producer = self.by_id.get(producer_id)
        if producer is None or producer.transaction_offset < 0:
            return None
        first = producer.transaction_offset
        # The last stable offset at this marker. As in Kafka it is in the index: a search for
        # aborted transactions ends at the first entry whose value is beyond its bound.
        first_open = next((other for other in self._open if other != first), offset + 1)
        return AbortedTxn(producer_id, first, offset, min(first_open, offset + 1))

    def first_open(self) -> int:
        """Return the first offset of the oldest open transaction; 2**63 - 1: none is open."""
        return next(iter(self._open), NO_OFFSET)

    def first_unstable(self, high_watermark: int) -> int:
        """Return the first offset that read_committed consumers must not see; 2**63 - 1: none.

        A transaction counts as open until its end marker is below the high watermark.
        Args: high_watermark: must not decrease between calls.
        """
        if not (self._open or self.ended):  # mostly so
            return NO_OFFSET
        if self.ended:
            self.forget_ended(high_watermark)
        return min([self.first_open(), *(first for first, _ in self.ended)])

    def forget_ended(self, high_watermark: int) -> None:
        """Drop the ended transactions whose markers are below the high watermark. There must be
        some.
        """
        ended = self.ended
        if ended[0][1] < high_watermark:  # in order of the markers
            self.ended = [transaction for transaction in ended if transaction[1] >= high_watermark]

    def add(self, producer_id: int, producer: ProducerStateEntry) -> None:
        """Add a producer from a snapshot."""
        self.add_all([(producer_id, producer)])

    def add_all(self, producers: Iterable[tuple[int, ProducerStateEntry]]) -> None:
        """Add the producers of a snapshot."""
        for producer_id, producer in producers:
            self.by_id[producer_id] = producer
            if producer.transaction_offset >= 0:
                self._open[producer.transaction_offset] = producer_id
        self._open = dict(sorted(self._open.items()))

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Remove the producers that were idle for `expiration_ms`, except those with an open
        transaction.

        Returns: how many were removed.
        """
        self.verifications.expire(now_ms, expiration_ms)
        gone = [producer_id for producer_id, producer in self.by_id.items() if producer.expired(now_ms, expiration_ms)]
        return self._forget(gone)

    def forget_idle(self, count: int) -> int:
        """Remove `count` producers that have not written for long, except those with an open
        transaction.

        One that wrote since it was last looked at moves behind the others, so that those that write
        all the time outlive any number of others that write once. Looks at `LOOKS_PER_REMOVAL`
        producers for each to remove; beyond, it takes the first ones as they come. Source: the
        algorithm CLOCK of page replacement.
        Returns: how many were removed.
        """
        gone: list[int] = []
        kept: list[tuple[int, ProducerStateEntry]] = []
        for producer_id, producer in islice(self.by_id.items(), count * LOOKS_PER_REMOVAL):
            if producer.transaction_offset >= 0 or producer.wrote_again:
                kept.append((producer_id, producer))
            else:
                gone.append(producer_id)
                if len(gone) == count:
                    break
        for producer_id, producer in kept:
            producer.wrote_again = False
            del self.by_id[producer_id]
            self.by_id[producer_id] = producer
        if not gone:
            idle = (id for id, producer in self.by_id.items() if producer.transaction_offset < 0)
            gone = list(islice(idle, count))
        return self._forget(gone)

    def _forget(self, gone: list[int]) -> int:
        for producer_id in gone:
            del self.by_id[producer_id]
        if gone and self.on_change is not None:
            self.on_change(-len(gone))
        return len(gone)

    def sort_by_idleness(self) -> None:
        """Sort the producers, longest idle first, as `forget_idle` looks at them."""
        self.by_id = dict(sorted(self.by_id.items(), key=lambda item: max(item[1].last_timestamp, item[1].seen_ms)))

    def items(self) -> Iterator[tuple[int, ProducerStateEntry]]:
        """Iterate over (producer id, state)."""
        return iter(self.by_id.items())


def _check_not_refused(header: BatchHeader, producer: ProducerStateEntry) -> None:
    """Raises: StorageUnavailable: there was no room for an earlier batch of this epoch."""
    if header.producer_epoch == producer.refused_epoch:
        raise StorageUnavailable(
            f"producer {header.producer_id}: there was no room for a batch before the one with sequence "
            f"{header.base_sequence}; send that again first"
        )


def _repeated(header: BatchHeader, producer: ProducerStateEntry) -> BatchMetadata | None:
    last_sequence = header.last_sequence
    for batch in producer.batches:
        if batch.last_sequence == last_sequence and batch.first_sequence == header.base_sequence:
            return batch
    return None


def _old_epoch(producer_id: int, epoch: int, last_epoch: int) -> InvalidProducerEpoch:
    return InvalidProducerEpoch(f"producer {producer_id} wrote with epoch {last_epoch} before, now with {epoch}")
