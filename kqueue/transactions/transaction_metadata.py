"""The coordinator's knowledge of one transactional id, and the change by each event.

A `TransactionMetadata` is a value: an event returns the next one, which is appended to the log
before it takes effect. Source: Kafka TransactionMetadata; KIP-98, KIP-360, KIP-890.
"""

from __future__ import annotations

from typing import NamedTuple

from kqueue.base.errors import InvalidProducerIdMapping, ProducerFenced
from kqueue.transactions.marker_writer import TopicPartition
from kqueue.transactions.transaction_state import IDLE, TransactionEvent, TransactionState, after

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_TIME = -1
EPOCH_MAX = 2**15 - 1
"""Never given to a producer, so that any producer can be fenced."""
NO_TIMEOUT_MS = 2**31 - 1
"""Timeout of a transaction that an external coordinator ends (KIP-939)."""
VERSION_WITH_EPOCH_BUMP = 2
"""The transaction version from which on each end raises the epoch (KIP-890)."""


class ProducerIdAndEpoch(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    epoch: int


class TransactionMetadata(NamedTuple):
    """One transactional id.

    Attributes:
        previous_producer_id: the id before the last change.
        next_producer_id: the id after the end of the transaction, if its epochs are used up.
        epoch: -1 before the first InitProducerId is complete.
        last_epoch: the epoch before `epoch`, if the same producer had both; not in the log.
        start_ms, updated_ms: wall clock; `start_ms` is -1 before the first transaction.
        client_version: the transaction version of the last request.
    """

    transactional_id: str
    producer_id: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIME
    updated_ms: int = NO_TIME
    client_version: int = 0

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """The producer id and epoch."""
        return ProducerIdAndEpoch(self.producer_id, self.epoch)

    @property
    def epochs_exhausted(self) -> bool:
        """Whether the producer id has no further epoch for a producer."""
        return is_last_epoch(self.epoch)

    @property
    def has_timeout(self) -> bool:
        """Whether the transaction is aborted after `timeout_ms`."""
        return self.timeout_ms != NO_TIMEOUT_MS

    def check_producer(self, producer: ProducerIdAndEpoch) -> None:
        """Raise InvalidProducerIdMapping or ProducerFenced if `producer` is not the current one."""
        if self.producer_id != producer.producer_id:
            raise self.other_producer(producer)
        if self.epoch != producer.epoch:
            raise self.fenced_producer(producer.epoch)

    def other_producer(self, producer: ProducerIdAndEpoch) -> InvalidProducerIdMapping:
        """Return the error for a request that names another producer id."""
        return InvalidProducerIdMapping(
            f"transactional id {self.transactional_id!r} has producer id {self.producer_id}, "
            f"the request names {producer.producer_id}"
        )

    def fenced_producer(self, epoch: int) -> ProducerFenced:
        """Return the error for a request that names another epoch."""
        return ProducerFenced(
            f"transactional id {self.transactional_id!r} is at epoch {self.epoch}, the request names {epoch}"
        )

    def with_next_epoch(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> TransactionMetadata:
        """Return the metadata after InitProducerId.

        Args:
            expected_epoch: the epoch that the producer has, None for a new producer.
        Raises: ProducerFenced: it has neither the current epoch nor the last.
        """
        if expected_epoch is None:
            epoch, last_epoch = self.epoch + 1, NO_EPOCH
        elif expected_epoch == self.epoch or self.epoch == NO_EPOCH:
            epoch, last_epoch = self.epoch + 1, self.epoch
        elif expected_epoch == self.last_epoch:  # a retry: no other producer came in between
            epoch, last_epoch = self.epoch, self.last_epoch
        else:
            raise self.fenced_producer(expected_epoch)
        assert epoch < EPOCH_MAX, "the producer id has no further epoch"
        return self._initialized(self.producer_id, epoch, last_epoch, timeout_ms, now_ms)

    def with_raised_epoch(self, epoch: int) -> TransactionMetadata:
        """Return the same with a higher epoch, which fences the producer that has the old one."""
        return self._replace(epoch=min(epoch, EPOCH_MAX), last_epoch=NO_EPOCH)

    def with_new_producer_id(
        self, producer_id: int, timeout_ms: int, now_ms: int, *, same_producer: bool
    ) -> TransactionMetadata:
        """Return the metadata after InitProducerId where the epochs are used up.

        Args:
            same_producer: the producer named its id and epoch, and may retry with them.
        """
        return self._initialized(producer_id, 0, self.epoch if same_producer else NO_EPOCH, timeout_ms, now_ms)

    def _initialized(
        self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> TransactionMetadata:
        return self._after(TransactionEvent.INIT, now_ms)._replace(
            producer_id=producer_id,
            epoch=epoch,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_TIME,
        )

    def with_partitions(
        self, partitions: frozenset[TopicPartition], now_ms: int, client_version: int
    ) -> TransactionMetadata:
        """Return the metadata with more partitions; the first ones begin a transaction."""
        return self._after(TransactionEvent.ADD, now_ms)._replace(
            partitions=self.partitions | partitions,
            start_ms=now_ms if self.state in IDLE else self.start_ms,
            client_version=client_version,
        )

    def fenced(self, now_ms: int, client_version: int) -> TransactionMetadata:
        """Return the metadata after the abort that the coordinator decides: the epoch is raised, so
        that the producer can't go on.
        """
        # an epoch at its maximum can't be in use; the abort goes through without raising it
        epoch = min(self.epoch + 1, EPOCH_MAX)
        bumps = client_version >= VERSION_WITH_EPOCH_BUMP
        fence = self._replace(state=after(self.state, TransactionEvent.FENCE))
        return fence._after(TransactionEvent.ABORT, now_ms)._replace(
            epoch=epoch,
            last_epoch=self.epoch if bumps else NO_EPOCH,
            next_producer_id=NO_PRODUCER_ID,
            client_version=client_version,
        )

    def ended(
        self, *, commit: bool, now_ms: int, client_version: int, next_producer_id: int = NO_PRODUCER_ID
    ) -> TransactionMetadata:
        """Return the metadata after the decision to commit or abort.

        Args:
            next_producer_id: if the client's version raises the epoch, and there is no further one.
        """
        event = TransactionEvent.COMMIT if commit else TransactionEvent.ABORT
        metadata = self._after(event, now_ms)._replace(
            start_ms=now_ms if self.state in IDLE else self.start_ms,
            next_producer_id=next_producer_id,
            client_version=client_version,
        )
        if client_version < VERSION_WITH_EPOCH_BUMP:
            return metadata
        return metadata._replace(epoch=min(self.epoch + 1, EPOCH_MAX), last_epoch=self.epoch)

    def completed(self, now_ms: int) -> TransactionMetadata:
        """Return the metadata after the last end marker."""
        metadata = self._after(TransactionEvent.WRITTEN, now_ms)._replace(
            partitions=frozenset(), next_producer_id=NO_PRODUCER_ID
        )
        if self.next_producer_id == NO_PRODUCER_ID or self.client_version < VERSION_WITH_EPOCH_BUMP:
            return metadata
        # `last_epoch` stays: the client saw it last, with the old producer id
        return metadata._replace(producer_id=self.next_producer_id, epoch=0)

    def _after(self, event: TransactionEvent, now_ms: int) -> TransactionMetadata:
        return self._replace(
            state=after(self.state, event),
            previous_producer_id=self.producer_id,
            updated_ms=now_ms,
        )


def is_last_epoch(epoch: int) -> bool:
    """Return whether `epoch` is the last that a producer may have."""
    return epoch >= EPOCH_MAX - 1
