"""What one task does with its rows, and what it tells the driver. Knows no Spark."""

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

if TYPE_CHECKING:
    import pyarrow as pa


class BatchIdentity(NamedTuple):
    """Which batch of which query this is, and which task of it."""

    query_id: str
    batch_id: int
    task: int


class TaskOutcome(NamedTuple):
    """`staged`: None where the batch had been decided before, and the rows were left; empty where
    they were sent.
    """

    staged: tuple[StagedBatch, ...] | None


def send_rows(options: SinkOptions, rows: Iterable[pa.RecordBatch]) -> TaskOutcome:
    """Send rows to where they go. Raises: RowRefused, ClientError: some of the rows may be there."""
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
    """Stage rows for `commit`, unless their batch has been decided. Raises: RowRefused,
    ClientError, StagingLost: nothing can be seen.
    """
    with closing(connect(options.client)) as client:
        journal = Journal(client, identity.query_id)
        count = journal.open(options["stagingPartitions"])
        if journal.read().has(identity.batch_id):
            _drain(rows)
            return TaskOutcome(None)
        shelves = StagingPartitions(journal.topic, count, identity.task)
        with borrowed_producer(client) as producer:
            batcher = Batcher(
                TargetTopics(client, options, random.Random()), options, StagingSequences(producer, shelves)
            )
            return TaskOutcome(tuple(stage(client, shelves, batcher.batches(rows))))
