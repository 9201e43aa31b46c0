"""Which records and batches stay.

- A record stays if it is the latest of its key, and all beyond the offset map's end do.
- A tombstone (no value) stays until its batch's delete horizon is over, which is set when it is first cleaned. Batches of old
  formats have no place for a horizon: their tombstones go once they were cleaned before and their time is `delete.retention.ms` ago
  (magic 0, which has no time: at once).
- Data of aborted transactions goes. An end marker stays while a batch of its transaction is met; from the cleaning that meets none on, it
  has a delete horizon, and goes when that is over.
- The last batch of each producer that is known stays, without records if need be, since it carries sequence and epoch; of a producer whose
  epoch only a marker tells, the marker.
- Records without a key go, as those below the log start do.

Source: Kafka Cleaner, CleanedTransactionMetadata, MemoryRecords.filterTo; KIP-98, KIP-534.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kqueue.log.compaction.engine import CompactionEngine
from kqueue.log.compaction.model import RecordFilter
from kqueue.log.compaction.offset_map import OffsetMap
from kqueue.log.compaction.python_engine import NOTHING, RetainedRecords, pick
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.records.batch import ABORT, COMMIT, BatchHeader, Record, decode_control
from kqueue.records.record import decode_records


class EndedTransaction(NamedTuple):
    """An end marker. `is_needed`: batches of its transaction were met before it; `aborted`: the
    transaction, if it was and they were.
    """

    is_needed: bool
    aborted: AbortedTxn | None = None


class TransactionTracker:
    """Follows the transactions of a log's batches, which have to be shown in order.

    Args: aborted: all aborted transactions that reach into these batches.
    """

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._waiting = deque(sorted(aborted, key=lambda one: one.first_offset))
        self._aborted: dict[int, AbortedTxn] = {}
        self._met: set[int] = set()  # producer ids that have batches in the transaction under way

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch of data is part of an aborted transaction."""
        if not header.is_transactional:
            return False
        self._met.add(header.producer_id)
        aborted = self._at(header)
        return aborted is not None and header.base_offset >= aborted.first_offset

    def end(self, header: BatchHeader, kind: int | None) -> EndedTransaction:
        """An end marker was met; `kind` None: its record is gone. Markers of other kinds are needed
        always.
        """
        if kind is None:
            return EndedTransaction(False)
        if kind not in (ABORT, COMMIT):
            return EndedTransaction(True)
        aborted = self._at(header)
        is_needed = header.producer_id in self._met
        self._met.discard(header.producer_id)
        return EndedTransaction(is_needed, aborted if is_needed and kind == ABORT else None)

    def _at(self, header: BatchHeader) -> AbortedTxn | None:
        while self._waiting and self._waiting[0].first_offset <= header.last_offset:
            begun = self._waiting.popleft()
            self._aborted[begun.producer_id] = begun
        aborted = self._aborted.get(header.producer_id)
        return aborted if aborted is not None and aborted.last_offset >= header.base_offset else None


class BatchRetentionResult(NamedTuple):
    """What becomes of a batch: `kept` of its records; `horizon_ms`: the delete horizon that it gets
    now, None: none, or it has one.

    `aborted`: an entry for the index of aborted transactions.
    """

    kept: RetainedRecords
    horizon_ms: int | None = None
    aborted: AbortedTxn | None = None


DROPPED = BatchRetentionResult(NOTHING)


@dataclass(slots=True)
class RetentionRules:
    """The rules, for one cleaning; batches have to be shown in order. See `CompactionTask` for what is
    not said here.

    `offset_map` None: `keep` decides. `clean_to`: all from there on is not cleaned yet, and its
    records stay.
    """

    engine: CompactionEngine
    offset_map: OffsetMap | None
    keep: RecordFilter | None
    transactions: TransactionTracker
    last_batches: Mapping[int, int]
    marked_epochs: Mapping[int, int]
    first_dirty: int
    clean_to: int
    start_offset: int
    now_ms: int
    delete_retention_ms: int

    def of_batch(self, header: BatchHeader, records: Callable[[], bytes]) -> BatchRetentionResult:
        """What becomes of a batch of magic 2; `records` gives its records, decompressed. Raises
        CorruptBatch.
        """
        if header.is_control:
            return self._of_marker(header, records)
        is_aborted = self.transactions.is_aborted(header)
        if is_aborted or header.record_count == 0 or header.last_offset < self.start_offset:
            return DROPPED
        horizon_ms = header.delete_horizon_ms
        kept = self._kept(header, records, horizon_ms is None or self.now_ms < horizon_ms)
        if kept.has_tombstones and horizon_ms is None and header.last_offset < self.clean_to:
            return BatchRetentionResult(kept, self.now_ms + self.delete_retention_ms)
        return BatchRetentionResult(kept)

    def _kept(self, header: BatchHeader, records: Callable[[], bytes], keep_tombstones: bool) -> RetainedRecords:
        if self.offset_map is None:
            return self._filtered(header, records())
        if header.codec_id:
            marks = self.offset_map.latest_in(header.base_offset, header.next_offset)
            if marks is not None and 1 not in marks:
                return NOTHING  # and need not be decompressed
        return self.engine.kept(self.offset_map, records(), header, self.start_offset, keep_tombstones)

    def _filtered(self, header: BatchHeader, data: bytes) -> RetainedRecords:
        assert self.keep is not None
        stay = [record.offset >= self.start_offset and self.keep(record) for record in decode_records(data, header)]
        return pick(data, header, stay)._replace(has_tombstones=False)

    def _of_marker(self, header: BatchHeader, records: Callable[[], bytes]) -> BatchRetentionResult:
        kind = None
        if header.record_count:
            kind, _ = decode_control(next(decode_records(records(), header)))
        ended = self.transactions.end(header, kind)
        is_needed = ended.is_needed or self.marked_epochs.get(header.producer_id) == header.producer_epoch
        horizon_ms = header.delete_horizon_ms
        is_over = horizon_ms is not None and horizon_ms <= self.now_ms
        if kind is None or header.last_offset < self.start_offset or (is_over and not is_needed):
            return DROPPED
        kept = RetainedRecords(header.record_count, records(), header.max_timestamp, False)
        if horizon_ms is None and not is_needed:
            return BatchRetentionResult(kept, self.now_ms + self.delete_retention_ms)
        return BatchRetentionResult(kept, aborted=ended.aborted)

    def of_messages(self, records: list[Record], magic: int) -> list[Record]:
        """Those records of a message of magic 0 or 1 that stay."""
        records = [record for record in records if record.offset >= self.start_offset]
        if self.keep is not None:
            return [record for record in records if self.keep(record)]
        assert self.offset_map is not None
        latest = self.offset_map.get_all([record.key for record in records])
        return [record for record, offset in zip(records, latest, strict=True) if self._stays(record, offset, magic)]

    def _stays(self, record: Record, latest: int, magic: int) -> bool:
        if record.offset >= self.clean_to:
            return True
        if record.key is None or record.offset < latest:
            return False
        if record.value is not None or record.offset >= self.first_dirty:
            return True
        return magic == 1 and record.timestamp + self.delete_retention_ms > self.now_ms

    def must_stay(self, header: BatchHeader) -> bool:
        """Whether the batch stays even without records: it is the last one of a producer that is
        known.
        """
        return header.producer_id >= 0 and self.last_batches.get(header.producer_id) == header.last_offset
