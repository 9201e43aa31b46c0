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
    """`staged`: None where the batch had been decided before, and the rows were left; empty where
    they were sent.
    """

    staged: tuple[Staged, ...] | None


def send_rows(options: SinkOptions, rows: Iterable[pa.RecordBatch]) -> Outcome:
    """Send rows to where they go. Raises: RowRefused, ClientError: some of the rows may be there."""
    with closing(Client(options.client)) as client:
        targets = Targets(client, options, random.Random())
        if options.acks != ALL_IN_SYNC:
            _drain(Outbox(client, options.acks).send(Batcher(targets, options, None).batches(rows)))
        else:
            with lent_producer(client) as producer:
                _drain(Outbox(client, options.acks).send(Batcher(targets, options, producer).batches(rows)))
    return Outcome(())


def _drain(all_of: Iterable[object]) -> None:
    deque(all_of, maxlen=0)


def stage_rows(
    options: SinkOptions,
    identity: Identity,
    rows: Iterable[pa.RecordBatch],
    connect: Callable[[ClientOptions], Client] = Client,
) -> Outcome:
    """Stage rows for `commit`, unless their batch has been decided. Raises: RowRefused,
    ClientError, StagingLost: nothing can be seen.
    """
    with closing(connect(options.client)) as client:
        journal = Journal(client, identity.query_id)
        count = journal.open(options["stagingPartitions"])
        if journal.read().has(identity.batch_id):
            _drain(rows)
            return Outcome(None)
        shelves = Shelves(journal.topic, count, identity.task)
        with lent_producer(client) as producer:
            batcher = Batcher(Targets(client, options, random.Random()), options, ShelfSequences(producer, shelves))
            return Outcome(tuple(stage(client, shelves, batcher.batches(rows))))
