"""Steps 2 and 3 of an exactly-once or transactional write: decide the batch, and copy or commit it.
No pyspark.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace

from kqueue.base import events
from kqueue.client import Client, TopicPartition
from kqueue.client.errors import BrokerRefused, ClientError
from kqueue.spark.errors import OptionError, StagingLost, TransactionLost
from kqueue.spark.sink.batch_copy import copied_counts, copy
from kqueue.spark.sink.journal import (
    JOURNAL,
    DecidedBatch,
    Journal,
    JournalState,
    PartitionBatches,
    StagedBatch,
    bounds,
    decided_entry,
    done_entry,
)
from kqueue.spark.sink.producer_pipeline import sequence_after
from kqueue.spark.sink.transaction_commit import abandon, abort, check_open, commit_transactions
from kqueue.spark.sink.transaction_write import TaskTransaction
from kqueue.wire.error_codes import ErrorCode

logger = logging.getLogger("kqueue.spark")


def commit(
    client: Client,
    query_id: str,
    batch_id: int,
    staged: Sequence[StagedBatch] | None,
    transactions: Sequence[TaskTransaction] = (),
    topic: str | None = None,
) -> None:
    """Write a batch once, whatever earlier attempts did. Any process may repeat it.

    Args:
        staged: the batches that the tasks staged; None: a task found the batch already decided and
            staged nothing.
        transactions: those of the tasks.
        topic: of all rows; None: each names its own.
    Raises: ClientError: a retry of the call is safe. StagingLost, TransactionLost.
    """
    journal = Journal(client, query_id)
    state = journal.read()
    while state.decided is not None and state.decided.batch_id < batch_id:
        state = _finish(journal, state, resumed=True)
    if batch_id <= state.done:
        abort(client, transactions)
        return
    writer = ""
    if state.decided is None:
        if staged is None:
            raise StagingLost(
                f"a task found batch {batch_id} in the journal {journal.topic_partition}, where it is no more; "
                "start the query again"
            )
        if not transactions and state.guard is not None:
            abandon(client, query_id, state.guard.batch_id)  # of an attempt with the other delivery
        if not staged and not transactions:
            return
        writer = uuid.uuid4().hex
        if transactions:
            check_open(client, state, batch_id, transactions)
        decided = _decide(client, state, batch_id, writer, staged, transactions)
        journal.append(decided_entry(replace(decided, topic=topic)))
        state = journal.read()
        if state.decided is None and state.done < batch_id:
            raise TransactionLost(f"batch {batch_id} was given up by another attempt; start the query again")
    if state.decided is not None:
        _finish(journal, state, resumed=state.decided.writer != writer)
        if state.decided.writer != writer:
            abort(client, transactions)


def check_topic_of(client: Client, query_id: str, batch_id: int, topic: str | None) -> None:
    """Check that a write which would be left, as its batch is there, is no write to another topic.

    Raises: OptionError, StagingLost, ClientError.
    """
    journal = Journal(client, query_id)
    if not journal.exists():
        return
    state = journal.read()
    there = state.topic if state.decided is None or batch_id <= state.done else state.decided.topic
    if state.has(batch_id) and None not in (topic, there) and topic != there:
        raise OptionError(
            f"txnAppId={query_id} has written txnVersion={batch_id} or a later one to {there}, so this write to "
            f"{topic} would be left out: take a txnAppId for each topic"
        )


def _decide(
    client: Client,
    state: JournalState,
    batch_id: int,
    writer: str,
    staged: Iterable[StagedBatch],
    transactions: Sequence[TaskTransaction],
) -> DecidedBatch:
    by_place: dict[TopicPartition, list[StagedBatch]] = {}
    for one in sorted(staged, key=lambda one: (one.staging_partition, one.offset)):
        by_place.setdefault(TopicPartition(*one.topic_partition), []).append(one)
    producer = state.producer or client.init_producer()
    parts = (
        PartitionBatches(
            topic_partition, bounds(client, topic_partition)[1], state.sequences.get(topic_partition, 0), tuple(mine)
        )
        for topic_partition, mine in sorted(by_place.items())
    )
    guard = transactions[0].guard if transactions else None
    return DecidedBatch(batch_id, writer, producer, tuple(parts), tuple(one.producer for one in transactions), guard)


def _finish(journal: Journal, state: JournalState, *, resumed: bool) -> JournalState:
    """Copy or commit what was decided, mark it done, and delete its staged data.

    Args:
        resumed: part of it may already be copied.
    """
    decided = state.decided
    assert decided is not None
    if decided.guard is not None and not commit_transactions(journal, decided):
        return journal.read()
    try:
        _copy_all(journal, decided, copied_counts(journal.client, decided) if resumed else {})
    except StagingLost:
        now = journal.read()
        if now.done < decided.batch_id:
            raise
        return now  # another driver has copied it, and dropped what was staged
    sequences = {part.topic_partition: sequence_after(part.sequence, part.rows) for part in decided.parts}
    journal.append(done_entry(state, sequences))
    now = journal.read()
    _delete_staged(journal, decided, now)
    return now


def _copy_all(journal: Journal, decided: DecidedBatch, copied: dict[TopicPartition, int]) -> None:
    """Copy; continue after what another process has copied. Raises: as `commit`."""
    while True:
        try:
            copy(journal, decided, copied)
        except BrokerRefused as error:
            further = copied_counts(journal.client, decided)
            if error.code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or further == copied:
                raise
            copied = further
        else:
            return


def _delete_staged(journal: Journal, decided: DecidedBatch, now: JournalState) -> None:
    """Delete staged data, up to the state of the journal: another driver may be further."""
    before = {JOURNAL: now.done_at}
    for part in decided.parts:
        for one in part.batches:
            before[one.staging_partition] = max(before.get(one.staging_partition, 0), one.offset + one.rows)
    try:
        journal.drop(before)
    except ClientError as error:
        events.SPARK_STAGING_LEFT.log(
            logger, "what was staged in %s is done with, but could not be dropped: %s", topic=journal.topic, error=error
        )
