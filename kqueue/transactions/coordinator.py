"""The transaction coordinator: all transactional ids of this broker.

The invariant: memory holds what a replay of `__transaction_state` gives. A change is appended there
before a client sees it, and a decision before its first marker. The coordinator has no thread,
clock or randomness of its own; the layers above call it on the owner thread.

    coordinator        requests
    producer_init      InitProducerId: ids, epochs, fencing
    transaction_end    EndTxn: the decision
    completion         markers, and the record of the complete transaction
    TransactionUpkeep  timeouts and expiry (below)
    transaction_store  memory and log
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.base.errors import (
    CoordinatorLoadInProgress,
    InvalidRequest,
    InvalidTransactionTimeout,
    KqueueError,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    TransactionalIdNotFound,
    UnsupportedVersion,
)
from kqueue.base.issued_ids import ProducerEpochs
from kqueue.base.promise import Promise
from kqueue.base.slice_queue import SliceQueue
from kqueue.base.sliced_task import SlicedWork
from kqueue.base.timers import Timers
from kqueue.transactions.completion import TransactionCompleter
from kqueue.transactions.config import TransactionConfig
from kqueue.transactions.marker_writer import MarkerWriter, TopicPartition
from kqueue.transactions.producer_init import InitRequest, ProducerInitializer
from kqueue.transactions.transaction_end import EndCounts, EndRequest, TransactionEnder
from kqueue.transactions.transaction_log import Done, ProducerIdSource, TransactionLog, TransactionRecord, Wake
from kqueue.transactions.transaction_metadata import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    ProducerIdAndEpoch,
    TransactionMetadata,
)
from kqueue.transactions.transaction_state import IDLE, PREPARED, TransactionEvent, TransactionState, after
from kqueue.transactions.transaction_store import Transaction, TransactionStore

logger = logging.getLogger("kqueue.transactions")
TOMBSTONES_MAX = 500
"""Tombstones in one batch."""


class TransactionUpkeep:
    """Aborts and removes in slices, at intervals.

    Durability: an abort is as that of a client. Expired ids are forgotten once their tombstones are
    in the log.
    Thread: the owner thread.
    """

    def __init__(
        self, config: TransactionConfig, store: TransactionStore, ender: TransactionEnder, clock: Clock, timers: Timers
    ) -> None:
        self._config = config
        self._store = store
        self._ender = ender
        self._clock = clock
        slices = SliceQueue(timers, clock)
        timers.every(config.timeout_check_interval_ms, lambda: slices.add_once("time out", self.abort_timed_out()))
        timers.every(config.expiration_check_interval_ms, lambda: slices.add_once("expire", self.remove_expired()))

    def abort_timed_out(self) -> SlicedWork[None]:
        """Abort the transactions that are older than their timeout; their producers are fenced."""
        now_ms = self._clock.wall_ms()
        for transaction in self._store.ongoing():
            metadata = transaction.metadata
            # Another broker may coordinate it by now, and a change under way may end it.
            may_abort = self._store.serves(transaction) and transaction.pending is None
            is_ongoing = metadata.state is TransactionState.ONGOING
            is_over = metadata.has_timeout and metadata.start_ms + metadata.timeout_ms < now_ms
            if may_abort and is_ongoing and is_over:
                events.TRANSACTION_TIMED_OUT.log(
                    logger,
                    "aborting the transaction of %.100r (producer id %d): it is older than its timeout of %d ms",
                    transactional_id=metadata.transactional_id,
                    producer_id=metadata.producer_id,
                    timeout_ms=metadata.timeout_ms,
                )
                self._ender.fence(transaction, _log_failure(transaction))
            yield None

    def remove_expired(self) -> SlicedWork[None]:
        """Remove the ids that were not used for `transactional.id.expiration.ms`."""
        last_used_ms = self._clock.wall_ms() - self._config.expiration_ms
        # By partition of the log, as a batch of tombstones goes to one.
        by_partition: dict[int, list[Transaction]] = {}
        for transaction in list(self._store):
            metadata = transaction.metadata
            is_idle = transaction.pending is None and metadata.state in IDLE
            if is_idle and metadata.updated_ms <= last_used_ms and self._store.serves(transaction):
                partition = self._store.partitions.of(metadata.transactional_id)
                # Held until its tombstone is in the log: a producer that comes meanwhile has to
                # retry, and then begins with a new id.
                self._store.hold(transaction, metadata._replace(state=after(metadata.state, TransactionEvent.EXPIRE)))
                by_partition.setdefault(partition, []).append(transaction)
            yield None
        for partition, expired in by_partition.items():
            for start in range(0, len(expired), TOMBSTONES_MAX):
                batch = expired[start : start + TOMBSTONES_MAX]
                self._store.remove(batch, partition, _log_removal(partition, len(batch)))
                yield None


def _log_failure(transaction: Transaction) -> Done:
    def done(error: KqueueError | None) -> None:
        if error is not None:
            events.TRANSACTION_NOT_ABORTED.log(
                logger,
                "the transaction of %.100r can't be aborted: %s",
                transactional_id=transaction.transactional_id,
                error=error,
            )

    return done


def _log_removal(partition: int, count: int) -> Done:
    def done(error: KqueueError | None) -> None:
        if error is not None:
            events.TRANSACTIONAL_IDS_NOT_REMOVED.log(
                logger,
                "%d expired transactional ids of partition %d can't be removed: %s",
                count=count,
                partition=partition,
                error=error,
            )

    return done


class Surroundings(NamedTuple):
    """The part of the layer above that the coordinator uses.

    Attributes:
        transaction_version: returns the finalized level of the feature `transaction.version`.
        coordinator_epoch: returns the leader epoch of a partition of the coordinator's log; None:
            as of `TransactionMarker`.
        wake: called with a promise that is resolved or fails later.
        producer_epochs: the epochs that this process has issued, also from data that are gone.
    """

    log: TransactionLog
    markers: MarkerWriter
    producer_ids: ProducerIdSource
    transaction_version: Callable[[], int]
    coordinator_epoch: Callable[[int], int | None]
    wake: Wake
    producer_epochs: ProducerEpochs


class TransactionCoordinator:
    """All transactional ids of one broker.

    Methods that change something return a promise, which may be settled already; it fails with the
    error for the client.

    Durability: when a promise is resolved, its change is committed in the log.
    Thread: the owner thread.
    """

    def __init__(self, config: Config, clock: Clock, timers: Timers, surroundings: Surroundings) -> None:
        self.config = TransactionConfig.of(config)
        self._clock = clock
        self._timers = timers
        self._wake = surroundings.wake
        version, wake = surroundings.transaction_version, surroundings.wake
        self._store = TransactionStore(self.config, surroundings.log, version, surroundings.producer_epochs)
        self._completer = TransactionCompleter(
            self._store, surroundings.markers, clock, timers, surroundings.coordinator_epoch
        )
        self._ender = TransactionEnder(self._store, self._completer, surroundings.producer_ids, clock, version, wake)
        self._initializer = ProducerInitializer(self._store, self._ender, surroundings.producer_ids, clock, wake)
        self._upkeep = TransactionUpkeep(self.config, self._store, self._ender, clock, timers)
        self._slices = SliceQueue(timers, clock)

    # --- requests

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_EPOCH,
        *,
        two_phase: bool = False,
        keep_prepared: bool = False,
    ) -> Promise[ProducerIdAndEpoch]:
        """Make the caller the producer of a transactional id; fence the one before.

        Args:
            timeout_ms: after this time the coordinator aborts a transaction.
            producer_id, producer_epoch: what the caller has, to get its next epoch (KIP-360).
            two_phase, keep_prepared: an external coordinator decides (KIP-939).
        Returns: a promise. It fails with ConcurrentTransactions (retry: a transaction is being
            ended), ProducerFenced, InvalidTransactionTimeout, InvalidRequest, PolicyViolation (too
            many ids), UnsupportedVersion,
            TransactionalIdAuthorizationFailed, CoordinatorNotAvailable, NotCoordinator.
        """
        try:
            self._check_init(transactional_id, timeout_ms, two_phase=two_phase, keep_prepared=keep_prepared)
        except KqueueError as error:
            return _failed(error)
        expected = None if producer_id == NO_PRODUCER_ID else ProducerIdAndEpoch(producer_id, producer_epoch)
        return self._initializer.init(
            InitRequest(transactional_id, NO_TIMEOUT_MS if two_phase else timeout_ms, expected)
        )

    def write_timeout_ms(self, transactional_id: str) -> int:
        """Return how long a client waits for what this coordinator writes: as in Kafka the timeout
        of its transactions; of an unknown id the longest.
        """
        try:
            transaction = self._store.find(transactional_id)
        except KqueueError:
            transaction = None
        timeout_ms = NO_TIMEOUT_MS if transaction is None else transaction.metadata.timeout_ms
        return self.config.timeout_max_ms if timeout_ms == NO_TIMEOUT_MS else timeout_ms

    def _check_init(self, transactional_id: str, timeout_ms: int, *, two_phase: bool, keep_prepared: bool) -> None:
        _check_id(transactional_id)
        if two_phase and not self.config.two_phase_enabled:
            raise TransactionalIdAuthorizationFailed(
                "transactions without a timeout are not allowed: transaction.two.phase.commit.enable is false"
            )
        if keep_prepared:
            raise UnsupportedVersion("a prepared transaction can't be kept")
        if not two_phase and not 0 < timeout_ms <= self.config.timeout_max_ms:
            raise InvalidTransactionTimeout(
                f"a transaction timeout is from 1 to {self.config.timeout_max_ms} ms (transaction.max.timeout.ms), "
                f"found {timeout_ms}"
            )

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
        """Add partitions to the producer's transaction, all or none; the first begin it.

        Nothing is written if the transaction has them already.

        Args:
            verify_only: change nothing; check that the transaction has them.
            transaction_version: of the client: 2 if each end raises its epoch (KIP-890), else 0.
        Returns: a promise. It fails with InvalidProducerIdMapping, ProducerFenced,
            ConcurrentTransactions (retry), TransactionAbortable (`verify_only`: one is missing),
            InvalidRequest, PolicyViolation (too many partitions), CoordinatorNotAvailable,
            NotCoordinator.
        """
        promise: Promise[None] = Promise()
        try:
            _check_id(transactional_id)
            transaction = self._store.get(transactional_id)
            # A verification asks what is in the log; a change under way does not matter to it, as
            # in Kafka.
            if not verify_only:
                transaction.check_settled()
            metadata = transaction.metadata
            metadata.check_producer(ProducerIdAndEpoch(producer_id, epoch))
            transaction.check_undecided()
            added = frozenset(partitions) - metadata.partitions
            if verify_only:
                _check_complete(metadata, added)
            if verify_only or (metadata.state is TransactionState.ONGOING and not added):
                promise.resolve(None)
                return promise
            self._store.check_partitions(transaction, len(added))
        except KqueueError as error:
            promise.fail(error)
            return promise

        def done(error: KqueueError | None) -> None:
            if error is None:
                promise.resolve(None)
            else:
                promise.fail(error)
            self._wake(promise)

        self._store.change(
            transaction, metadata.with_partitions(added, self._clock.wall_ms(), transaction_version), done
        )
        return promise

    def end(
        self, transactional_id: str, producer_id: int, epoch: int, commit: bool, *, transaction_version: int
    ) -> Promise[ProducerIdAndEpoch]:
        """Commit or abort the producer's transaction.

        Args:
            transaction_version: as for `add_partitions`.
        Returns: a promise of the producer id and epoch for the next transaction. It resolves once
            the decision is in the log, and normally once every partition has its marker. It fails
            with InvalidProducerIdMapping, ProducerFenced, ConcurrentTransactions (retry),
            InvalidTransactionState, InvalidRequest, CoordinatorNotAvailable, NotCoordinator.
        """
        try:
            _check_id(transactional_id)
        except KqueueError as error:
            return _failed(error)
        return self._ender.end(
            EndRequest(transactional_id, ProducerIdAndEpoch(producer_id, epoch), commit, transaction_version)
        )

    # --- descriptions

    @property
    def ended(self) -> EndCounts:
        """How transactions ended since the start."""
        return self._ender.counts

    def describe(self, transactional_id: str) -> TransactionMetadata:
        """Return what is known of a transactional id. Raises: TransactionalIdNotFound,
        InvalidRequest: empty. NotCoordinator.
        """
        _check_id(transactional_id)
        transaction = self._store.find(transactional_id)
        if transaction is None or _is_dying(transaction):
            raise TransactionalIdNotFound(f"there is no transactional id {transactional_id!r}")
        return transaction.metadata

    def all(self) -> Iterator[TransactionMetadata]:
        """Return what is known of every transactional id, each as it is when it is yielded.

        Raises: CoordinatorLoadInProgress: not all are read yet.
        """
        if self._store.partitions.is_loading:
            raise CoordinatorLoadInProgress("the transactional ids are still being read")
        # a copy: ids may come and go while the caller pauses
        return (transaction.metadata for transaction in list(self._store) if not _is_dying(transaction))

    def partition_of(self, transactional_id: str) -> int:
        """Return the partition of `__transaction_state` that keeps this transactional id."""
        return self._store.partitions.of(transactional_id)

    # --- the log

    def require_load(self) -> None:
        """Answer NotCoordinator for each id until its partition was loaded."""
        self._store.partitions.require_load()

    def begin_loading(self, partition: int) -> None:
        """Answer CoordinatorLoadInProgress for the ids of a partition until `load` or `refuse` has
        ended.
        """
        self._store.partitions.mark_loading(partition)

    def load(self, partition: int, log_records: Iterable[TransactionRecord]) -> SlicedWork[None]:
        """Replay one partition of the log in steps, before its ids are used. A load that is broken
        off has no effect after `unload`.

        Decided transactions are completed from the next turn of the timers on.

        Args:
            log_records: keys and values, oldest first.
        Raises: MalformedMessage: a record can't be read.
        """
        loaded = yield from self._store.load(partition, log_records)
        decided = [transaction for transaction in loaded if transaction.metadata.state in PREPARED]
        if decided:
            self._timers.at(self._clock.monotonic_ms(), lambda: self._slices.add(self._resume(decided)))

    def _resume(self, transactions: Iterable[Transaction]) -> SlicedWork[None]:
        for transaction in transactions:
            if self._store.serves(transaction):  # else it was unloaded meanwhile
                self._completer.complete(transaction, lambda: None)
            yield None

    def unload(self, partition: int) -> SlicedWork[None]:
        """Answer NotCoordinator for the ids of a partition, which another broker coordinates now;
        promises that wait fail with it, unless their decision is in the log.

        Returns: the work that removes them from memory, to be run to its end before the next
            `load`. Nothing is written; no marker is written any more.
        """
        self._completer.stop(partition)
        return self._store.unload(partition)

    def refuse(self, partition: int, reason: str) -> None:
        """Answer NotCoordinator for the ids of a partition of the log that could not be read.

        Without their state, two producers of one id could both be active.
        """
        self._store.partitions.mark_unreadable(partition, reason)


def _is_dying(transaction: Transaction) -> bool:
    """Whether the id expires now, or its first record is not in the log yet."""
    pending = transaction.pending
    is_new = transaction.metadata.epoch == NO_EPOCH
    return is_new or (pending is not None and pending.state is TransactionState.DEAD)


def _check_id(transactional_id: str) -> None:
    if not transactional_id:
        raise InvalidRequest("a transactional id must not be empty")


def _check_complete(metadata: TransactionMetadata, missing: Collection[TopicPartition]) -> None:
    if missing:
        topic, index = min(missing)
        raise TransactionAbortable(f"{topic}-{index} was not added to the transaction of {metadata.transactional_id!r}")


def _failed(error: KqueueError) -> Promise[ProducerIdAndEpoch]:
    promise: Promise[ProducerIdAndEpoch] = Promise()
    promise.fail(error)
    return promise
