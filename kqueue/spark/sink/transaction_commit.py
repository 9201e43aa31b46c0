"""Step 3 of a transactional write: commit the transactions of a decided batch. No pyspark."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable, Sequence

from kqueue.client import Client, TransactionalProducer
from kqueue.client.deadline import Deadline
from kqueue.client.errors import BrokerRefused, ClientError, IncompatibleBroker
from kqueue.spark.errors import TransactionLost
from kqueue.spark.sink.journal import DecidedBatch, Guard, Journal, JournalState, abandoned_entry
from kqueue.spark.sink.transaction_ids import LOST, pattern_of
from kqueue.spark.sink.transaction_write import TaskTransaction

ONGOING = "Ongoing"
RUNNING = {ONGOING, "PrepareCommit", "PrepareAbort", "PrepareEpochFence"}
ABORTED = {"PrepareAbort", "CompleteAbort", "PrepareEpochFence"}
PAUSE_S = 0.005
TIMEOUT = "kafka.transaction.timeout.ms, which brokers bound by transaction.max.timeout.ms"


def check_open(client: Client, state: JournalState, batch_id: int, transactions: Sequence[TaskTransaction]) -> None:
    """Check before a decision that all tasks' transactions are open, under the batch's guard.

    Raises: TransactionLost: begin the batch again. ClientError.
    """
    guard = None if state.guard is None or state.guard.batch_id != batch_id else state.guard.producer
    lost = [one for one in transactions if one.guard != guard or not _is_open(client, one.producer)]
    if guard is None or lost or not _is_open(client, guard):
        raise TransactionLost(
            f"batch {batch_id}: {len(lost) or 'the guard'} of {len(transactions)} transactions ended before all "
            f"tasks did, so none is committed; start the query again, with smaller batches or a longer {TIMEOUT}"
        )


def _is_open(client: Client, producer: TransactionalProducer) -> bool:
    try:
        transaction = client.transactions.describe(producer.transactional_id)
    except BrokerRefused as error:
        if error.code not in LOST:
            raise
        return False
    return (transaction.producer_id, transaction.producer_epoch, transaction.state) == (*producer[1:], ONGOING)


def _state_of(client: Client, producer: TransactionalProducer) -> str:
    """Return the state of a transactional id; "": its coordinator has forgotten it."""
    try:
        return client.transactions.describe(producer.transactional_id).state
    except BrokerRefused as error:
        if error.code not in LOST:
            raise
        return ""


def commit_transactions(journal: Journal, decided: DecidedBatch) -> bool:
    """Commit a decided batch, then abort its guard, which shows it to readers.

    Transactions are committed one after the other, so that if the first was aborted, none is
    committed, whoever tries.

    Returns: False: another driver has done this batch.
    Raises: TransactionLost, ClientError.
    """
    client = journal.client
    for number, producer in enumerate(decided.transactions):
        try:
            client.transactions.end(producer, committed=True)
        except BrokerRefused as error:
            if error.code not in LOST:
                raise
            if journal.read().done >= decided.batch_id:
                return False
            _explain_lost(journal, decided, number, error)
    left = _open_transactions(client, journal.query_id, decided.guard)
    if journal.read().done >= decided.batch_id:
        return False  # what is open may be of the next batch
    _abort(client, left)
    _wait_until_ended(client, [*decided.transactions, *left])
    assert decided.guard is not None
    _abort(client, [decided.guard])
    _wait_until_ended(client, [decided.guard])
    return True


def _explain_lost(journal: Journal, decided: DecidedBatch, number: int, error: BrokerRefused) -> None:
    """Raise TransactionLost; give the batch up if nothing of it is committed."""
    client = journal.client
    producer = decided.transactions[number]
    what = f"batch {decided.batch_id} was decided, but transaction {number + 1} of {len(decided.transactions)}"
    aborted = _state_of(client, producer) in ABORTED
    if number or not aborted:
        raise TransactionLost(
            f"{what} is lost, and {number or 'an unknown number'} of them are committed. Restarts have to come within "
            f"{TIMEOUT}. To write the whole batch again, what is committed twice: kqueue pipeline sweep, "
            f"and start the query again ({error})"
        )
    state = journal.read()
    _abort(client, decided.transactions[1:])
    assert decided.guard is not None
    _abort(client, [decided.guard])
    if state.guard is not None:
        journal.append(abandoned_entry(state.guard, decided.writer))
    raise TransactionLost(
        f"{what} took longer than {TIMEOUT}, so none is committed; start the query again, which writes the batch anew"
    )


def abort(client: Client, transactions: Sequence[TaskTransaction]) -> None:
    """Abort what tasks left open of a batch that another attempt has done. Raises: ClientError."""
    _abort(client, [one.producer for one in transactions])
    _abort(client, {one.guard for one in transactions})


def abandon(client: Client, query_id: str, batch_id: int) -> None:
    """Abort what a failed attempt of a batch left open, unless the batch is decided.

    Readers would wait for it until its timeout.

    Raises: ClientError, StagingLost.
    """
    journal = Journal(client, query_id)
    state = journal.read()
    if state.has(batch_id) or state.guard is None or state.guard.batch_id != batch_id or state.guard.producer is None:
        return
    left = _open_transactions(client, query_id, state.guard.producer)
    journal.append(abandoned_entry(state.guard))
    if journal.read().guard != Guard(batch_id, state.guard.number, None):
        return  # decided, or begun again
    _abort(client, left)
    _abort(client, [state.guard.producer])


def abort_all(client: Client, query_id: str) -> None:
    """Abort all open transactions of a query that does not run.

    Raises: ClientError.
    """
    with contextlib.suppress(IncompatibleBroker):  # Kafka before 3.0, to which none was written
        _abort(client, _open_transactions(client, query_id, None))


def _open_transactions(
    client: Client, query_id: str, guard: TransactionalProducer | None
) -> list[TransactionalProducer]:
    """Return the open transactions of a query, without its guard."""
    open_ids = []
    for listings in client.transactions.find([ONGOING], pattern=pattern_of(query_id)).values():
        for listing in listings:
            with contextlib.suppress(BrokerRefused):
                one = client.transactions.describe(listing.transactional_id)
                if one.state == ONGOING:
                    open_ids.append(TransactionalProducer(one.transactional_id, one.producer_id, one.producer_epoch))
    return [one for one in open_ids if one != guard]


def _abort(client: Client, producers: Iterable[TransactionalProducer]) -> None:
    """Abort those that are still open in this epoch."""
    for producer in producers:
        try:
            client.transactions.end(producer, committed=False)
        except BrokerRefused as error:
            if error.code not in LOST:
                raise


def _wait_until_ended(client: Client, producers: Collection[TransactionalProducer]) -> None:
    """Wait until all markers are written: readers see the end of a transaction only then."""
    deadline = Deadline(client.options.timeout_ms)
    for producer in producers:
        while True:
            try:
                transaction = client.transactions.describe(producer.transactional_id)
            except BrokerRefused as error:
                if error.code not in LOST:
                    raise
                break
            if (transaction.producer_id, transaction.producer_epoch) != producer[
                1:
            ] or transaction.state not in RUNNING:
                break
            if deadline.is_expired:
                raise ClientError(
                    f"the transaction of {producer.transactional_id!r} is ended, but after {deadline.timeout_ms:g} ms "
                    "not every partition has its marker; a partition may have no leader"
                )
            time.sleep(PAUSE_S)
