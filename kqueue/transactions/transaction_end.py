"""EndTxn: the decision to commit or abort, of a producer or of the coordinator.

Which requests are valid, with transactions V2 (KIP-890; every end raises the epoch):

    state             epoch of the request      commit             abort
    ONGOING           current                   decided            decided
    EMPTY             current                   invalid state      decided, without partitions
    COMPLETE_*        current                   invalid state      decided, without partitions
    COMPLETE_COMMIT   the one before (a retry)  answered again     invalid state
    COMPLETE_ABORT    the one before (a retry)  invalid state      answered again
    PREPARE_*         the one before (a retry)  concurrent if the same decision, else invalid state
    all               any other                 fenced             fenced

With V1 the epoch stays: a retry has the current one, and only ONGOING accepts a decision.

`_end` may run twice. A producer whose epochs are used up needs another id: it is allocated first,
then all checks are made again, as the state may have changed meanwhile. Source: Kafka
TransactionCoordinator.endTransaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kqueue.base.clock import Clock
from kqueue.base.coordinators import coordinator_error
from kqueue.base.errors import (
    InvalidTransactionState,
    KqueueError,
)
from kqueue.base.promise import Promise
from kqueue.transactions.completion import TransactionCompleter
from kqueue.transactions.transaction_log import ProducerIdSource, Wake
from kqueue.transactions.transaction_metadata import (
    NO_PRODUCER_ID,
    VERSION_WITH_EPOCH_BUMP,
    ProducerIdAndEpoch,
    TransactionMetadata,
    is_last_epoch,
)
from kqueue.transactions.transaction_state import IDLE, PREPARED, TransactionState
from kqueue.transactions.transaction_store import Transaction, TransactionStore

_COMPLETE = {TransactionState.COMPLETE_COMMIT: True, TransactionState.COMPLETE_ABORT: False}
_PREPARE = {TransactionState.PREPARE_COMMIT: True, TransactionState.PREPARE_ABORT: False}


class EndRequest(NamedTuple):
    """A producer's request to end its transaction."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    commit: bool
    transaction_version: int


class EndCounts:
    """How transactions ended. `commits`, `aborts`: as their producers decided. `fences`: aborted
    because of a timeout, or of another producer of their id.
    """

    __slots__ = ("aborts", "commits", "fences")

    def __init__(self) -> None:
        self.commits = self.aborts = self.fences = 0


class TransactionEnder:
    """Ends transactions.

    Durability: the decision is in the log before the first marker is written, and before the
    client's promise is resolved.
    Thread: the owner thread.

    Attributes: counts: decisions since the start, of transactions that were ongoing.
    """

    def __init__(
        self,
        store: TransactionStore,
        completer: TransactionCompleter,
        producer_ids: ProducerIdSource,
        clock: Clock,
        transaction_version: Callable[[], int],
        wake: Wake,
    ) -> None:
        self._store = store
        self._completer = completer
        self._producer_ids = producer_ids
        self._clock = clock
        self._transaction_version = transaction_version
        self._wake = wake
        self.counts = EndCounts()

    def end(self, request: EndRequest) -> Promise[ProducerIdAndEpoch]:
        """Commit or abort; see `TransactionCoordinator.end`."""
        promise: Promise[ProducerIdAndEpoch] = Promise()
        self._end(request, promise, NO_PRODUCER_ID)
        return promise

    def _end(self, request: EndRequest, promise: Promise[ProducerIdAndEpoch], new_id: int) -> None:
        try:
            transaction = self._store.get(request.transactional_id)
            metadata = transaction.metadata
            if request.transaction_version < VERSION_WITH_EPOCH_BUMP:
                accepted = accepts_v1(transaction, request)
            else:
                accepted = accepts_v2(transaction, request)
                if accepted and metadata.epochs_exhausted and new_id == NO_PRODUCER_ID:
                    # The next epoch needs a new producer id, which may take a commit to the
                    # metadata store. All checks are made again after it.
                    self._allocate(request, promise)
                    return
        except KqueueError as error:
            self._fail(promise, error)
            return
        # The answer to the first request was lost: the same one again, with the producer that it
        # gave.
        if not accepted:
            self._resolve(promise, metadata.producer)
            return
        decided = metadata.ended(
            commit=request.commit,
            now_ms=self._clock.wall_ms(),
            client_version=request.transaction_version,
            next_producer_id=new_id if metadata.epochs_exhausted else NO_PRODUCER_ID,
        )

        def done(error: KqueueError | None) -> None:
            if error is None:
                self._resolve(promise, decided.completed(decided.updated_ms).producer)
            else:
                self._fail(promise, error)

        def count() -> None:
            # An abort of what never began (KIP-890) ends nothing.
            if metadata.state is TransactionState.ONGOING:
                self.counts.commits += request.commit
                self.counts.aborts += not request.commit

        self._decide(transaction, decided, count, done)

    def fence(self, transaction: Transaction, done: Callable[[KqueueError | None], None]) -> None:
        """Raise the epoch and abort. The transaction must be ongoing, with nothing pending.

        `done(None)` is called when the abort is complete, or later than usual; `done(error)` if
        nothing has changed.
        """
        now_ms = self._clock.wall_ms()

        def count() -> None:
            self.counts.fences += 1

        self._decide(transaction, transaction.metadata.fenced(now_ms, self._transaction_version()), count, done)

    def _decide(
        self,
        transaction: Transaction,
        decided: TransactionMetadata,
        count: Callable[[], None],
        done: Callable[[KqueueError | None], None],
    ) -> None:
        def appended(error: KqueueError | None) -> None:
            if error is not None:
                done(error)
            else:
                count()
                # From here on it can't be undone: the record is what a restart or another
                # coordinator completes.
                self._completer.complete(transaction, lambda: done(None))

        self._store.change(transaction, decided, appended)

    def _allocate(self, request: EndRequest, promise: Promise[ProducerIdAndEpoch]) -> None:
        def allocated(result: int | KqueueError) -> None:
            if isinstance(result, KqueueError):
                self._fail(promise, coordinator_error(result))
            else:
                self._end(request, promise, result)

        self._producer_ids.allocate(allocated)

    def _resolve(self, promise: Promise[ProducerIdAndEpoch], producer: ProducerIdAndEpoch) -> None:
        promise.resolve(producer)
        self._wake(promise)

    def _fail(self, promise: Promise[ProducerIdAndEpoch], error: KqueueError) -> None:
        promise.fail(error)
        self._wake(promise)


def accepts_v1(transaction: Transaction, request: EndRequest) -> bool:
    """Return whether a request of transactions V1 decides the transaction; False: it repeats a
    decision that is complete.

    Raises: InvalidProducerIdMapping, ProducerFenced, ConcurrentTransactions,
        InvalidTransactionState.
    """
    metadata = transaction.metadata
    metadata.check_producer(request.producer)
    transaction.check_settled()
    if metadata.state is TransactionState.ONGOING:
        return True
    if _COMPLETE.get(metadata.state) is request.commit:
        return False
    if _PREPARE.get(metadata.state) is request.commit:
        transaction.check_undecided()
    raise _invalid_state(request, metadata)


def accepts_v2(transaction: Transaction, request: EndRequest) -> bool:
    """Return whether a request of transactions V2 decides the transaction; False: it repeats a
    decision that is complete.

    Raises: as `accepts_v1`.
    """
    # first: a pending change may hold the producer's new id or epoch
    transaction.check_settled()
    metadata = transaction.metadata
    producer_id, epoch = request.producer
    # V1 does not raise the epoch at an end: there the epoch before is that of a fenced producer
    ended_by_v2 = metadata.client_version >= VERSION_WITH_EPOCH_BUMP
    is_retry_with_old_id = (
        ended_by_v2 and metadata.previous_producer_id == producer_id and is_last_epoch(epoch) and metadata.epoch == 0
    )
    if metadata.producer_id != producer_id and not is_retry_with_old_id:
        raise metadata.other_producer(request.producer)
    is_retry_with_old_epoch = ended_by_v2 and metadata.epoch == epoch + 1
    is_retry = is_retry_with_old_epoch or is_retry_with_old_id
    # V2 raises the epoch with the decision, so a request that is repeated has the epoch before.
    if metadata.state in PREPARED:
        valid = is_retry_with_old_epoch
    elif metadata.state in _COMPLETE:
        valid = is_retry or metadata.epoch == epoch
    else:
        valid = metadata.epoch == epoch
    if not valid:
        raise metadata.fenced_producer(epoch)
    if metadata.state is TransactionState.ONGOING:
        return True
    if metadata.state in _COMPLETE and is_retry:
        if _COMPLETE[metadata.state] is request.commit:
            return False
    # KIP-890: a producer aborts when it does not know whether its transaction began. The new epoch
    # fences what it has still on the way.
    elif metadata.state in IDLE and not request.commit:
        return True
    if _PREPARE.get(metadata.state) is request.commit:
        transaction.check_undecided()
    raise _invalid_state(request, metadata)


def _invalid_state(request: EndRequest, metadata: TransactionMetadata) -> KqueueError:
    what = "committed" if request.commit else "aborted"
    return InvalidTransactionState(
        f"the transaction of {metadata.transactional_id!r} is in {metadata.state.value}: it can't be {what}"
    )
