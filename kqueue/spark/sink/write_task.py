"""A write task: its rows to batches, and its report to the driver. No pyspark."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from kqueue.client import Client, ClientOptions
from kqueue.spark.sink.batcher import Batcher
from kqueue.spark.sink.journal import Journal, StagedBatch
from kqueue.spark.sink.options import ALL_IN_SYNC, SinkOptions
from kqueue.spark.sink.producer_pipeline import ProducerPipeline, borrowed_producer
from kqueue.spark.sink.row_partitioning import TargetTopics
from kqueue.spark.sink.staging import StagingPartitions, StagingSequences, stage
from kqueue.spark.sink.transaction_write import TaskTransaction, TransactionWriter

if TYPE_CHECKING:
    import pyarrow as pa


class BatchIdentity(NamedTuple):
    """The query, the batch and the task."""

    query_id: str
    batch_id: int
    task: int


class TaskOutcome(NamedTuple):
    """A task's report.

    `staged`: None: the batch was already decided, so nothing was staged. Empty: rows were sent
    directly. `transaction`: the open transaction that has the rows; None: there is none.
    """

    staged: tuple[StagedBatch, ...] | None
    transaction: TaskTransaction | None = None


def send_rows(options: SinkOptions, rows: Iterable[pa.RecordBatch]) -> TaskOutcome:
    """Send rows to their topics. Raises: RowRefused, ClientError: some rows may be written."""
    with closing(Client(options.client)) as client:
        targets = TargetTopics(client, options, random.Random())
        if options.acks != ALL_IN_SYNC:
            _drain(ProducerPipeline(client, options.acks).send(Batcher(targets, options, None).batches(rows)))
        else:
            with borrowed_producer(client) as producer:
                _drain(ProducerPipeline(client, options.acks).send(Batcher(targets, options, producer).batches(rows)))
    return TaskOutcome(())


def _drain(all_of: Iterable[object]) -> None:
    deque(all_of, maxlen=0)


def stage_rows(
    options: SinkOptions,
    identity: BatchIdentity,
    rows: Iterable[pa.RecordBatch],
    connect: Callable[[ClientOptions], Client] = Client,
) -> TaskOutcome:
    """Stage rows for `commit`, or write them in an open transaction, unless their batch is already
    decided.

    Raises: RowRefused, ClientError, StagingLost, TransactionLost: readers see nothing.
    """
    with closing(connect(options.client)) as client:
        journal = Journal(client, identity.query_id)
        count = journal.open(options["stagingPartitions"])
        if journal.read().has(identity.batch_id):
            _drain(rows)
            return TaskOutcome(None)
        if options.is_transactional:
            with TransactionWriter(journal, identity.batch_id, options["kafka.transaction.timeout.ms"]) as writer:
                writer.write(options, rows)
            return TaskOutcome((), writer.transaction)
        staging_partitions = StagingPartitions(journal.topic, count, identity.task)
        with borrowed_producer(client) as producer:
            batcher = Batcher(
                TargetTopics(client, options, random.Random()), options, StagingSequences(producer, staging_partitions)
            )
            return TaskOutcome(tuple(stage(client, staging_partitions, batcher.batches(rows))))
