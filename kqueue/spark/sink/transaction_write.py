"""Step 1 of a transactional write: a task writes its rows in a transaction that it leaves open. No
pyspark.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from kqueue.base.clock import wall_ms
from kqueue.client import Client, ProducerIdAndEpoch, TopicPartition, TransactionalProducer
from kqueue.client.errors import BrokerRefused, ClientError
from kqueue.records.arrow.encoder import ProducerArgs
from kqueue.records.builder import BatchBuilder
from kqueue.spark.errors import StagingLost, TransactionLost
from kqueue.spark.sink.batcher import Batcher, ReadyBatch
from kqueue.spark.sink.journal import NONE, Guard, Journal, abandoned_entry, guard_entry, next_guard
from kqueue.spark.sink.options import ALL_IN_SYNC, SinkOptions
from kqueue.spark.sink.producer_pipeline import IdempotentProducer, ProducerPipeline
from kqueue.spark.sink.row_partitioning import TargetTopics
from kqueue.spark.sink.transaction_ids import LOST, begin_producer, borrowed_id

if TYPE_CHECKING:
    import pyarrow as pa

GUARD_KEY = b"_kqueue"
"""Compacted topics refuse records without a key."""
GUARD_HEADER = "kqueue.guard"
GUARDS_MAX = 3
"""Number of guards that a task tries: a timeout may have ended the first one long ago."""


class TaskTransaction(NamedTuple):
    """The open transaction of a task, and the guard that its rows are hidden by."""

    producer: TransactionalProducer
    guard: TransactionalProducer


class TransactionWriter:
    """Writes the rows of one task. `transaction`: None: nothing was written.

    Thread: one at a time. Close it in `with`: an error aborts the transaction.
    """

    def __init__(self, journal: Journal, batch_id: int, timeout_ms: int) -> None:
        self.transaction: TaskTransaction | None = None
        self._journal = journal
        self._client = journal.client
        self._batch_id = batch_id
        self._timeout_ms = timeout_ms
        self._done = NONE
        self._sequences: IdempotentProducer | None = None
        self._partitions: set[TopicPartition] = set()
        self._ids = ExitStack()

    def __enter__(self) -> TransactionWriter:
        self._ids.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and self.transaction is not None:
            with contextlib.suppress(ClientError):  # the driver aborts it with the next commit
                self._client.transactions.end(self.transaction.producer, committed=False)
        self._ids.__exit__(kind, error, trace)

    def write(self, options: SinkOptions, rows: Iterable[pa.RecordBatch]) -> None:
        """Write rows. Raises: RowRefused, OptionError, TransactionLost, ClientError: nobody sees
        them.
        """
        batcher = Batcher(TargetTopics(self._client, options, random.Random()), options, self, self._begin)
        with self._explained():
            for some in self._sent(batcher.batches(rows)):
                del some

    def next_args(self, topic_partition: TopicPartition) -> ProducerArgs:
        """Return the producer arguments of the partition's next batch."""
        assert self._sequences is not None, "a transaction begins before its batches"
        return self._sequences.next_args(topic_partition)

    def advance(self, topic_partition: TopicPartition, count: int) -> None:
        """Advance the partition's sequence."""
        assert self._sequences is not None
        self._sequences.advance(topic_partition, count)

    def _sent(self, batches: Iterator[ReadyBatch]) -> Iterator[object]:
        first = next(batches, None)
        if first is None:
            return
        assert self.transaction is not None
        pipeline = ProducerPipeline(self._client, ALL_IN_SYNC, self.transaction.producer.transactional_id)

        def all_batches() -> Iterator[ReadyBatch]:
            yield first
            yield from batches

        yield from pipeline.send(all_batches())

    def _begin(self, partitions: Collection[TopicPartition]) -> None:
        """Add partitions to the transaction, with their guards before them."""
        new = [one for one in partitions if one not in self._partitions]
        if not new:
            return
        if self.transaction is None:
            guard = self._covering_guard(new)
            producer = self._producer()
            self.transaction = TaskTransaction(producer, guard)
            self._sequences = IdempotentProducer(ProducerIdAndEpoch(producer.id, producer.epoch), transactional=True)
        else:
            cover(self._client, self.transaction.guard, new)
        self._client.transactions.add_partitions(self.transaction.producer, new)
        self._partitions.update(new)

    def _covering_guard(self, partitions: Collection[TopicPartition]) -> TransactionalProducer:
        """Return the batch's guard, which covers these partitions; the next one if it is lost."""
        tries = 0
        while True:
            tries += 1
            guard = self._agreed_guard()
            assert guard.producer is not None
            try:
                cover(self._client, guard.producer, partitions)
            except BrokerRefused as error:
                if error.code not in LOST or tries == GUARDS_MAX:
                    raise
                self._journal.append(abandoned_entry(guard))
            else:
                return guard.producer

    def _agreed_guard(self) -> Guard:
        while True:
            state = self._journal.read()
            self._done = state.done
            if state.has(self._batch_id):
                raise StagingLost(
                    f"batch {self._batch_id} was written by another attempt meanwhile; nothing of this one is kept"
                )
            number = next_guard(state, self._batch_id)
            if number < 0:
                assert state.guard is not None
                return state.guard
            own = self._producer()
            self._journal.append(guard_entry(self._batch_id, number, own))

    def _producer(self) -> TransactionalProducer:
        name = self._ids.enter_context(borrowed_id(self._client, self._journal.query_id, self._batch_id, self._done))
        return begin_producer(self._client, name, self._timeout_ms)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except BrokerRefused as error:
            if error.code not in LOST:
                raise
            raise TransactionLost(
                f"the transaction of a task of batch {self._batch_id} was ended before the task, as after "
                f"kafka.transaction.timeout.ms={self._timeout_ms}; nothing of it is seen. Make batches smaller, or "
                f"raise the timeout, up to the brokers' transaction.max.timeout.ms ({error})"
            ) from None


def cover(client: Client, guard: TransactionalProducer, partitions: Collection[TopicPartition]) -> None:
    """Begin the guard's transaction in these partitions, where it did not begin yet.

    All tasks send the same batch, which brokers append once.

    Raises: ClientError.
    """
    client.transactions.add_partitions(guard, partitions)
    builder = BatchBuilder(producer_id=guard.id, epoch=guard.epoch, base_sequence=0, transactional=True)
    builder.append(wall_ms(), GUARD_KEY, None, [(GUARD_HEADER, None)])
    batch = builder.build()
    client.produce(dict.fromkeys(partitions, batch), transactional_id=guard.transactional_id)
