"""Step 1 of an exactly-once write: append batches to staging partitions. No pyspark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kqueue.client import Client, TopicPartition
from kqueue.records.arrow.encoder import ProducerArgs
from kqueue.spark.errors import StagingLost
from kqueue.spark.sink.batcher import ReadyBatch
from kqueue.spark.sink.journal import StagedBatch
from kqueue.spark.sink.producer_pipeline import IdempotentProducer, ProducerPipeline

ALL_IN_SYNC = -1


class StagingPartitions(NamedTuple):
    """Maps target partitions to the staging partitions of one task.

    Batches of one target partition are in one staging partition, in order.
    """

    topic: str
    number: int
    task: int

    def of(self, topic_partition: TopicPartition) -> TopicPartition:
        """Return the staging partition of a target partition."""
        return TopicPartition(self.topic, 1 + (self.task + topic_partition.partition) % self.number)


class StagingSequences:
    """The sequences of batches while they are staged. See `SequenceAllocator`."""

    def __init__(self, producer: IdempotentProducer, staging_partitions: StagingPartitions) -> None:
        self._producer = producer
        self._staging_partitions = staging_partitions

    def next_args(self, topic_partition: TopicPartition) -> ProducerArgs:
        """Return the producer arguments of the partition's next batch."""
        return self._producer.next_args(self._staging_partitions.of(topic_partition))

    def advance(self, topic_partition: TopicPartition, count: int) -> None:
        """Advance the staging partition's sequence."""
        self._producer.advance(self._staging_partitions.of(topic_partition), count)


def stage(
    client: Client, staging_partitions: StagingPartitions, batches: Iterator[ReadyBatch]
) -> Iterator[StagedBatch]:
    """Append batches to staging partitions; yield the position of each. Must be run to its end.

    Raises: ClientError. StagingLost: a broker has a batch but cannot report its offset.
    """

    def staged_batches() -> Iterator[ReadyBatch]:
        for ready in batches:
            yield ready._replace(
                topic_partition=staging_partitions.of(ready.topic_partition), target=ready.topic_partition
            )

    for sent, produced in ProducerPipeline(client, ALL_IN_SYNC).send(staged_batches()):
        if produced.base_offset < 0:
            raise StagingLost(
                f"a batch was staged in {sent.topic_partition}, but its answer was lost, and the broker can't "
                "tell where; begin again"
            )
        assert sent.target is not None
        yield StagedBatch(sent.target, sent.topic_partition.partition, produced.base_offset, len(sent.batch), sent.rows)
