"""Produce: one finished batch per partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kqueue.client.calls.contract import PartitionResult
from kqueue.client.deadline import Deadline
from kqueue.client.metadata import MetadataCache
from kqueue.client.topic_partition import TopicPartition, by_topic
from kqueue.records.batch import read_header
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

VERSION_IDS = 13  # topics are named by their ids
VERSIONS = (3, 13)  # before 3 it carries other formats than batches
VERSION_TRANSACTIONAL_MAX = 11  # later ones end transactions with another epoch (KIP-890)
Buffer = bytes | bytearray | memoryview


class ProduceResult(NamedTuple):
    """The position of an appended batch.

    `base_offset`: offset of the first record; -1 where it is unknown: acks=0, or a duplicate batch
    that the broker no longer remembers. `log_append_time_ms`: -1 unless the topic uses
    LogAppendTime. `log_start_offset`: -1 where the broker is too old to report it.
    """

    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1


class Produce:
    """Takes the batch of each partition.

    `acks`: -1 all in-sync replicas, 1 the leader, 0 no response.
    `repeatable`: a duplicate append of a batch is acceptable.
    `transactional_id`: of transactional batches.
    """

    api = BY_MODULE["produce"]
    wait_ms = 0

    def __init__(self, acks: int, *, repeatable: bool = False, transactional_id: str | None = None) -> None:
        self.acks = acks
        self.repeatable = repeatable
        self.transactional_id = transactional_id
        self.is_answered = acks != 0

    def versions(self, cluster: MetadataCache, topics: Sequence[str]) -> tuple[int, int]:
        if self.transactional_id is not None:
            return VERSIONS[0], VERSION_TRANSACTIONAL_MAX
        return VERSIONS if cluster.have_ids(topics) else (VERSIONS[0], VERSION_IDS - 1)

    def is_repeatable(self, requested: Buffer) -> bool:
        """True also for a batch with a producer id and sequence: a broker appends it once."""
        return self.repeatable or read_header(requested).has_producer

    def request(
        self, version: int, requested: Mapping[TopicPartition, Buffer], cluster: MetadataCache, deadline: Deadline
    ) -> ProduceRequest:
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=self.acks,
            timeout_ms=deadline.broker_timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=topic,
                    topic_id=cluster.topic_id(topic),
                    partition_data=[
                        PartitionProduceData(index=index, records=memoryview(batch)) for index, batch in parts
                    ],
                )
                for topic, parts in by_topic(requested).items()
            ],
        )

    def results(
        self,
        version: int,
        response: ProduceResponse | None,
        requested: Mapping[TopicPartition, Buffer],
        cluster: MetadataCache,
    ) -> Iterator[PartitionResult[ProduceResult]]:
        if response is None:
            for topic_partition in requested:
                yield PartitionResult(topic_partition, 0, ProduceResult())
            return
        names = (
            {cluster.topic_id(topic_partition.topic): topic_partition.topic for topic_partition in requested}
            if version >= VERSION_IDS
            else {}
        )
        for topic in response.responses:
            name = names.get(topic.topic_id, topic.topic_id.hex()) if version >= VERSION_IDS else topic.name
            for partition in topic.partition_responses:
                # an old batch of an idempotent producer is there already
                code = 0 if partition.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER else partition.error_code
                result = ProduceResult(partition.base_offset, partition.log_append_time_ms, partition.log_start_offset)
                yield PartitionResult(TopicPartition(name, partition.index), code, result, partition.error_message)
