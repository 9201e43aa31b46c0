"""ListOffsets: where partitions begin and end, and what is the first offset from a time on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kqueue.client.calls.contract import PartitionResult
from kqueue.client.deadline import Deadline
from kqueue.client.metadata import MetadataCache
from kqueue.client.topic_partition import TopicPartition, by_topic
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST = -1
"""The end: the high watermark, or in read_committed the last stable offset."""
EARLIEST = -2
"""The log's start."""
MAX_TIMESTAMP = -3
"""The first record of those with the greatest time; from Kafka 3.0 on."""
VERSION_MAX_TIMESTAMP = 7
NO_REPLICA = -1


class OffsetAndTimestamp(NamedTuple):
    """`offset`: None where no record is as late as was asked. `timestamp`: that record's, in ms; -1
    for EARLIEST and LATEST.

    `leader_epoch`: of the record there, -1 where it is not known.
    """

    offset: int | None
    timestamp: int
    leader_epoch: int


class ListOffsets:
    """What is asked of each partition: a time in ms since 1970, EARLIEST, LATEST or MAX_TIMESTAMP."""

    api = BY_MODULE["list_offsets"]
    wait_ms = 0
    is_answered = True

    def __init__(self, isolation: int, *, by_greatest_time: bool) -> None:
        self.isolation = isolation
        self._version_min = VERSION_MAX_TIMESTAMP if by_greatest_time else 2

    def versions(self, cluster: MetadataCache, topics: Sequence[str]) -> tuple[int, int]:
        return self._version_min, 11

    def is_repeatable(self, asked: int) -> bool:
        return True

    def request(
        self, version: int, asked: Mapping[TopicPartition, int], cluster: MetadataCache, deadline: Deadline
    ) -> ListOffsetsRequest:
        return ListOffsetsRequest(
            replica_id=NO_REPLICA,
            isolation_level=self.isolation,
            timeout_ms=deadline.broker_timeout_ms,
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsPartition(
                            partition_index=index,
                            current_leader_epoch=cluster.leader_epoch(TopicPartition(topic, index)),
                            timestamp=timestamp,
                        )
                        for index, timestamp in parts
                    ],
                )
                for topic, parts in by_topic(asked).items()
            ],
        )

    def answers(
        self, version: int, response: ListOffsetsResponse, asked: Mapping[TopicPartition, int], cluster: MetadataCache
    ) -> Iterator[PartitionResult[OffsetAndTimestamp]]:
        for topic in response.topics:
            for one in topic.partitions:
                found = OffsetAndTimestamp(one.offset if one.offset >= 0 else None, one.timestamp, one.leader_epoch)
                yield PartitionResult(TopicPartition(topic.name, one.partition_index), one.error_code, found)
