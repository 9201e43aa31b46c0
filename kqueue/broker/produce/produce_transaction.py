"""The transaction of one Produce request, and what the coordinator says of its partitions.

A transactional batch is appended only if its partition is part of the producer's transaction, so
that the coordinator ends it there. Where the log has the transaction open already, that is known.
Else the coordinator is asked: from Produce 12 on it adds the partition, below it verifies that the
client did. Source: KIP-890, Kafka's AddPartitionsToTxnManager, ReplicaManager.handleProduceAppend.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.base.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTransactionState,
    KqueueError,
    NotCoordinator,
    NotEnoughReplicas,
    ProducerFenced,
    RequestTimedOut,
    TransactionAbortable,
)
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.replicas.partition import Partition
from kqueue.log.transaction_verification import Verification
from kqueue.records.batch import BATCH_OVERHEAD, HEADER, TRANSACTIONAL, BatchHeader
from kqueue.transactions.marker_writer import TopicPartition

VERSION_ADDS = 12
"""From this version of Produce on, the broker adds partitions to the transaction itself."""
VERSION_ABORTABLE = 11
"""From this version of Produce on, clients know TRANSACTION_ABORTABLE."""
TRANSACTION_VERSION_ADDS = 2
TRANSACTION_VERSION_VERIFIED = 1
_RETRIABLE = (ConcurrentTransactions, CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator)


class PartitionAdder(Protocol):
    """The part of the transaction coordinator that a Produce request uses."""

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Collection[TopicPartition],
        *,
        verify_only: bool = False,
        transaction_version: int,
    ) -> Promise[None]:
        """Add the partitions to the ongoing transaction, or verify that they are part of it."""
        ...


class _Question(NamedTuple):
    """Partitions that the coordinator is asked about in one call."""

    partitions: Sequence[Partition]
    promise: Promise[None]


class ProduceTransaction:
    """The transaction of one Produce request: `add` its partitions, run `verify`, then `check` each
    batch when it is appended.
    """

    __slots__ = (
        "_clock", "_coordinator", "_errors", "_id", "_producer", "_retry_ms", "_retry_ms_max", "_verifications",
        "_verifies", "_version",
    )  # fmt: skip

    def __init__(
        self, config: Config, clock: Clock, coordinator: PartitionAdder, transactional_id: str, produce_version: int
    ) -> None:
        self._clock = clock
        self._coordinator = coordinator
        self._id = transactional_id
        self._version = produce_version
        adds = produce_version >= VERSION_ADDS
        self._verifies = adds or bool(config["transaction.partition.verification.enable"])
        self._retry_ms: int = config["add.partitions.to.txn.retry.backoff.ms"]
        self._retry_ms_max: int = config["add.partitions.to.txn.retry.backoff.max.ms"] if adds else 0
        self._producer: tuple[int, int] | None = None
        self._verifications: dict[Partition, Verification] = {}
        self._errors: dict[Partition, KqueueError] = {}

    def add(self, partition: Partition, records: memoryview | None) -> None:
        """Add a partition of the request and its batch, unchecked.

        Raises: InvalidProducerIdMapping: the request has batches of several producers.
        """
        header = _transactional_header(records)
        if header is None:
            return
        producer_id, epoch = header.producer_id, header.producer_epoch
        if self._producer is None:
            self._producer = producer_id, epoch
        elif self._producer != (producer_id, epoch):
            raise InvalidProducerIdMapping("transactional records contain more than one producer id")
        if not self._verifies:
            return
        try:
            verification = partition.log.producers.start_verification(
                producer_id,
                epoch,
                header.base_sequence,
                self._clock.wall_ms(),
                from_zero=self._version >= VERSION_ADDS,
            )
        except KqueueError as error:
            self._errors[partition] = error
        else:
            if verification is not None:
                self._verifications[partition] = verification

    @property
    def is_verified(self) -> bool:
        """Whether the logs know the transaction of all partitions that were added."""
        return not self._verifications

    def verify(self, keep: Callable[[], bool]) -> SlicedWork[None]:
        """Ask the coordinator about the partitions whose log has no such transaction open.

        From `VERSION_ADDS` on, a transaction that is being completed is waited for: the client's
        next transaction begins while the last one's markers are written.
        Args: keep: copies the request's records before a wait; False: there is no memory.
        Raises: RequestTimedOut: no memory; the client repeats the request.
        """
        end_ms = self._clock.monotonic_ms() + self._retry_ms_max
        remaining: Sequence[Partition] = list(self._verifications)
        while remaining:
            questions = self._ask(remaining)
            remaining = []
            for partitions, promise in questions:
                if not promise.done:
                    _keep(keep)
                    yield promise
                if isinstance(promise.error, ConcurrentTransactions) and self._clock.monotonic_ms() < end_ms:
                    # Only from `VERSION_ADDS` on, where one question covers all partitions; before,
                    # there is no time for a second one.
                    remaining = partitions
                elif promise.error is not None:
                    error = self._translated(promise.error)
                    self._errors.update(dict.fromkeys(partitions, error))
            if remaining:
                _keep(keep)
                yield self._retry_ms

    def _ask(self, partitions: Sequence[Partition]) -> list[_Question]:
        if self._version >= VERSION_ADDS:
            return [self._asked(partitions, TRANSACTION_VERSION_ADDS, verify_only=False)]
        # one by one: each has its own result
        return [self._asked([partition], TRANSACTION_VERSION_VERIFIED, verify_only=True) for partition in partitions]

    def _asked(self, partitions: Sequence[Partition], transaction_version: int, *, verify_only: bool) -> _Question:
        assert self._producer is not None, "a partition was added"
        names = [(partition.topic, partition.index) for partition in partitions]
        try:
            promise = self._coordinator.add_partitions(
                self._id, *self._producer, names, verify_only=verify_only, transaction_version=transaction_version
            )
        except KqueueError as error:
            promise = Promise()
            promise.fail(error)
        return _Question(partitions, promise)

    def _translated(self, error: KqueueError) -> KqueueError:
        """Return the error as clients of this version of Produce know it."""
        if isinstance(error, ProducerFenced):
            return InvalidProducerEpoch(str(error))
        if isinstance(error, TransactionAbortable) and self._version < VERSION_ABORTABLE:
            return InvalidTransactionState("the partition was not added to the transaction")
        if isinstance(error, _RETRIABLE):
            # clients retry this one without reading metadata again
            return NotEnoughReplicas(f"unable to verify the partition has been added to the transaction: {error}")
        return error

    def raise_error(self, partition: Partition) -> None:
        """Raises: what the coordinator refused for the partition."""
        error = self._errors.get(partition)
        if error is not None:
            raise error

    def check(self, partition: Partition, header: BatchHeader) -> None:
        """Check a transactional batch that is appended now.

        Raises: as `ProducerStateManager.check_verified`.
        """
        if self._verifies:
            partition.log.producers.check_verified(header, self._verifications.get(partition))


def _keep(keep: Callable[[], bool]) -> None:
    if not keep():
        raise RequestTimedOut("the records of too many requests wait for the transaction coordinator")


def _transactional_header(records: memoryview | None) -> BatchHeader | None:
    """Return the header of a transactional batch, unchecked; None: it is none."""
    if records is None or len(records) < BATCH_OVERHEAD:
        return None
    header: BatchHeader = tuple.__new__(BatchHeader, HEADER.unpack_from(records))
    if header.magic != 2 or not header.attributes & TRANSACTIONAL or header.producer_id < 0:
        return None
    return header
