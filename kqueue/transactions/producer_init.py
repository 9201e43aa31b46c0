"""InitProducerId: the producer id and epoch of the producer that now owns a transactional id.

Every older producer of the id is fenced, by a higher epoch. A producer that names its own id and
epoch gets the next epoch (KIP-360).

`_init` may run twice. Where it needs a producer id, one is allocated first, then all checks are
made again, as the state may have changed meanwhile. Source: Kafka
TransactionCoordinator.handleInitProducerId.
"""

from __future__ import annotations

from typing import NamedTuple

from kqueue.base.clock import Clock
from kqueue.base.coordinators import coordinator_error
from kqueue.base.errors import ConcurrentTransactions, KqueueError, ProducerFenced
from kqueue.base.promise import Promise
from kqueue.transactions.transaction_end import TransactionEnder
from kqueue.transactions.transaction_log import ProducerIdSource, Wake
from kqueue.transactions.transaction_metadata import NO_EPOCH, ProducerIdAndEpoch, TransactionMetadata, is_last_epoch
from kqueue.transactions.transaction_state import TransactionState
from kqueue.transactions.transaction_store import Transaction, TransactionStore


class InitRequest(NamedTuple):
    """A producer's request of InitProducerId. `expected`: the id and epoch that it has, None for a
    new one.
    """

    transactional_id: str
    timeout_ms: int
    expected: ProducerIdAndEpoch | None


class ProducerInitializer:
    """Gives out producer ids and epochs.

    Durability: the new epoch is in the log before the producer gets it.
    Thread: the owner thread.
    """

    def __init__(
        self,
        store: TransactionStore,
        ender: TransactionEnder,
        producer_ids: ProducerIdSource,
        clock: Clock,
        wake: Wake,
    ) -> None:
        self._store = store
        self._ender = ender
        self._producer_ids = producer_ids
        self._clock = clock
        self._wake = wake

    def init(self, request: InitRequest) -> Promise[ProducerIdAndEpoch]:
        """Return a promise of the producer's id and epoch."""
        promise: Promise[ProducerIdAndEpoch] = Promise()
        self._init(request, promise, None)
        return promise

    def _init(self, request: InitRequest, promise: Promise[ProducerIdAndEpoch], new_id: int | None) -> None:
        """Serve the request. `new_id`: a producer id for it, None if it may need none."""
        try:
            transaction = self._store.find(request.transactional_id)
            if transaction is None:
                self._store.check_new_id(request.transactional_id)
                if new_id is None:
                    self._allocate(request, promise)
                    return
                transaction = self._store.add(TransactionMetadata(request.transactional_id, new_id))
            else:
                _check(transaction, request.expected)
                if transaction.metadata.state is TransactionState.ONGOING:
                    self._fence(transaction, promise)
                    return
                if new_id is None and _needs_new_id(transaction.metadata, request.expected):
                    self._allocate(request, promise)
                    return
            metadata = self._next(transaction.metadata, request, new_id)
        except KqueueError as error:
            self._fail(promise, error)
            return

        def done(error: KqueueError | None) -> None:
            if error is not None:
                self._fail(promise, error)
            else:
                promise.resolve(metadata.producer)
                self._wake(promise)

        self._store.change(transaction, metadata, done)

    def _next(self, metadata: TransactionMetadata, request: InitRequest, new_id: int | None) -> TransactionMetadata:
        now_ms = self._clock.wall_ms()
        if _needs_new_id(metadata, request.expected):
            assert new_id is not None
            return metadata.with_new_producer_id(
                new_id, request.timeout_ms, now_ms, same_producer=request.expected is not None
            )
        if metadata.epochs_exhausted:
            raise ProducerFenced(
                f"transactional id {metadata.transactional_id!r} is at its last epoch {metadata.epoch}"
            )
        expected_epoch = None if request.expected is None else request.expected.epoch
        return metadata.with_next_epoch(request.timeout_ms, expected_epoch, now_ms)

    def _fence(self, transaction: Transaction, promise: Promise[ProducerIdAndEpoch]) -> None:
        # Always an error, as in Kafka: the client asks again, and gets its epoch once the abort is
        # complete.
        def done(error: KqueueError | None) -> None:
            self._fail(
                promise,
                error
                or ConcurrentTransactions(
                    f"the transaction of {transaction.transactional_id!r} was aborted for its new producer: retry"
                ),
            )

        self._ender.fence(transaction, done)

    def _allocate(self, request: InitRequest, promise: Promise[ProducerIdAndEpoch]) -> None:
        def allocated(result: int | KqueueError) -> None:
            if isinstance(result, KqueueError):
                self._fail(promise, coordinator_error(result))
            else:
                self._init(request, promise, result)

        self._producer_ids.allocate(allocated)

    def _fail(self, promise: Promise[ProducerIdAndEpoch], error: KqueueError) -> None:
        promise.fail(error)
        self._wake(promise)


def _check(transaction: Transaction, expected: ProducerIdAndEpoch | None) -> None:
    """Raise ConcurrentTransactions, ProducerFenced."""
    transaction.check_settled()
    metadata = transaction.metadata
    if expected is not None and not _may_own(metadata, expected):
        raise ProducerFenced(str(metadata.other_producer(expected)))
    transaction.check_undecided()


def _may_own(metadata: TransactionMetadata, expected: ProducerIdAndEpoch) -> bool:
    return (
        metadata.epoch == NO_EPOCH
        or expected.producer_id == metadata.producer_id
        # a retry, whose first answer held a new id because the epochs were used up
        or (expected.producer_id == metadata.previous_producer_id and is_last_epoch(expected.epoch))
    )


def _needs_new_id(metadata: TransactionMetadata, expected: ProducerIdAndEpoch | None) -> bool:
    return metadata.epochs_exhausted and (expected is None or expected.epoch == metadata.epoch)
