"""What one task does with its rows, and what it tells the driver. Knows no Spark."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from kqueue.client import Client, ClientOptions
from kqueue.spark.sink.journal import Journal, Staged
from kqueue.spark.sink.options import ALL_IN_SYNC, SinkOptions
from kqueue.spark.sink.placing import Targets
from kqueue.spark.sink.rows import Batcher
from kqueue.spark.sink.sending import Outbox, lent_producer
from kqueue.spark.sink.staging import ShelfSequences, Shelves, stage

if TYPE_CHECKING:
    import pyarrow as pa


class Identity(NamedTuple):
    """Which batch of which query this is, and which task of it."""

    query_id: str
    batch_id: int
    task: int


class Outcome(NamedTuple):
    """`staged`: None where the batch had been decided before, and the rows were left; empty where they were sent."""

    staged: tuple[Staged, ...] | None


def send_rows(options: SinkOptions, rows: Iterable[pa.RecordBatch]) -> Outcome:
    """Send rows to where they go. Raises: RowRefused, ClientError: some of the rows may be there."""
    with closing(Client(options.client)) as client:
        targets = Targets(client, options, random.Random())
        if options.acks != ALL_IN_SYNC:
            _drain(Outbox(client, options.acks), Batcher(targets, options, None), rows)
        else:
            with lent_producer(client) as producer:
                _drain(Outbox(client, options.acks), Batcher(targets, options, producer), rows)
    return Outcome(())


def _drain(outbox: Outbox, batcher: Batcher, rows: Iterable[pa.RecordBatch]) -> None:
    for some in rows:
        deque(outbox.send(batcher.add(some)), maxlen=0)
    deque(outbox.send(batcher.flush()), maxlen=0)


def stage_rows(
    options: SinkOptions, identity: Identity, rows: Iterable[pa.RecordBatch], connect: Callable[[ClientOptions], Client] = Client
) -> Outcome:
    """Stage rows for `commit`, unless their batch has been decided. Raises: RowRefused, ClientError, StagingLost: nothing can be seen."""
    with closing(connect(options.client)) as client:
        journal = Journal(client, identity.query_id)
        count = journal.open(options["stagingPartitions"])
        if journal.read().has(identity.batch_id):
            deque(rows, maxlen=0)
            return Outcome(None)
        shelves = Shelves(journal.topic, count, identity.task)
        staged: list[Staged] = []
        with lent_producer(client) as producer:
            batcher = Batcher(Targets(client, options, random.Random()), options, ShelfSequences(producer, shelves))
            for some in rows:
                staged += stage(client, shelves, batcher.add(some))
            staged += stage(client, shelves, batcher.flush())
    return Outcome(tuple(staged))
