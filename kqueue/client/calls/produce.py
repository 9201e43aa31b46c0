"""Produce: batches that are ready, one for each partition."""

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
Buffer = bytes | bytearray | memoryview


class ProduceResult(NamedTuple):
    """`base_offset`: the first record's; -1 where nobody knows: acks=0, or a repeated batch that
    the broker has long had.

    `log_append_time_ms`: -1 unless the topic takes that as the records' time. `log_start_offset`:
    -1 where the broker is too old to tell.
    """

    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1


class Produce:
    """What is asked of each partition: to append a batch. `acks`: -1 all in-sync replicas, 1 the
    leader, 0 no answer at all.

    `repeatable`: appending one of them twice does no harm.
    """

    api = BY_MODULE["produce"]
    wait_ms = 0

    def __init__(self, acks: int, *, repeatable: bool = False) -> None:
        self.acks = acks
        self.repeatable = repeatable
        self.is_answered = acks != 0

    def versions(self, cluster: MetadataCache, topics: Sequence[str]) -> tuple[int, int]:
        return VERSIONS if cluster.have_ids(topics) else (VERSIONS[0], VERSION_IDS - 1)

    def is_repeatable(self, asked: Buffer) -> bool:
        """A batch with a producer's id and sequence is appended once, however often it is sent."""
        return self.repeatable or read_header(asked).has_producer

    def request(
        self, version: int, asked: Mapping[TopicPartition, Buffer], cluster: MetadataCache, deadline: Deadline
    ) -> ProduceRequest:
        return ProduceRequest(
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
                for topic, parts in by_topic(asked).items()
            ],
        )

    def answers(
        self,
        version: int,
        response: ProduceResponse | None,
        asked: Mapping[TopicPartition, Buffer],
        cluster: MetadataCache,
    ) -> Iterator[PartitionResult[ProduceResult]]:
        if response is None:
            for place in asked:
                yield PartitionResult(place, 0, ProduceResult())
            return
        names = {cluster.topic_id(place.topic): place.topic for place in asked} if version >= VERSION_IDS else {}
        for topic in response.responses:
            name = names.get(topic.topic_id, topic.topic_id.hex()) if version >= VERSION_IDS else topic.name
            for one in topic.partition_responses:
                # an old batch of an idempotent producer is there already
                code = 0 if one.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER else one.error_code
                found = ProduceResult(one.base_offset, one.log_append_time_ms, one.log_start_offset)
                yield PartitionResult(TopicPartition(name, one.index), code, found, one.error_message)
