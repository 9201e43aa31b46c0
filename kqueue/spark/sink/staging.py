"""The first step of writing exactly once: batches on the shelves of the query's staging topic.
Knows no Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kqueue.client import Client, TopicPartition
from kqueue.records.arrow.encoder import ProducerArgs
from kqueue.spark.errors import StagingLost
from kqueue.spark.sink.batcher import ReadyBatch
from kqueue.spark.sink.journal import StagedBatch
from kqueue.spark.sink.producer_pipeline import Producer, ProducerPipeline

ALL_IN_SYNC = -1


class StagingPartitions(NamedTuple):
    """Which shelf of `topic` a task puts the batches of a partition on; those of one partition lie
    on one, in their order.
    """

    topic: str
    number: int
    task: int

    def of(self, topic_partition: TopicPartition) -> TopicPartition:
        return TopicPartition(self.topic, 1 + (self.task + topic_partition.partition) % self.number)


class StagingSequences:
    """The sequences that batches have while they are staged. See `SequenceAllocator`."""

    def __init__(self, producer: Producer, shelves: StagingPartitions) -> None:
        self._producer = producer
        self._shelves = shelves

    def next_of(self, topic_partition: TopicPartition) -> ProducerArgs:
        return self._producer.next_of(self._shelves.of(topic_partition))

    def took(self, topic_partition: TopicPartition, count: int) -> None:
        self._producer.took(self._shelves.of(topic_partition), count)


def stage(client: Client, shelves: StagingPartitions, batches: Iterator[ReadyBatch]) -> Iterator[StagedBatch]:
    """Put batches on the shelves; says where each lies. To be run to its end.

    Raises: ClientError. StagingLost: a broker has a batch, but does not know where any more.
    """

    def on_shelves() -> Iterator[ReadyBatch]:
        for ready in batches:
            yield ready._replace(topic_partition=shelves.of(ready.topic_partition), target=ready.topic_partition)

    for sent, produced in ProducerPipeline(client, ALL_IN_SYNC).send(on_shelves()):
        if produced.base_offset < 0:
            raise StagingLost(
                f"a batch was staged in {sent.topic_partition}, but its answer was lost, and the broker can't tell where; begin again"
            )
        assert sent.target is not None
        yield StagedBatch(sent.target, sent.topic_partition.partition, produced.base_offset, len(sent.batch), sent.rows)
