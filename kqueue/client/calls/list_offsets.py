"""ListOffsets: the earliest and latest offset, and the first offset at or after a timestamp."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
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
"""The log end: the high watermark, or with read_committed the last stable offset."""
EARLIEST = -2
"""The log start offset."""
MAX_TIMESTAMP = -3
"""The first record with the greatest timestamp; needs Kafka 3.0."""
EARLIEST_LOCAL = -4
"""The first offset on the leader's disk; earlier ones are in the tier. Needs Kafka 3.4."""
LATEST_TIERED = -5
"""The last offset in the tier; none: -1 (KIP-1005). Needs Kafka 3.8."""
VERSION_MIN = 2
NEEDED_VERSIONS = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
NO_REPLICA = -1


class OffsetAndTimestamp(NamedTuple):
    """The offset that a ListOffsets query selects.

    `offset`: None where no record is as recent as the query, or nothing is in the tier.
    `timestamp`: of that record, in ms; -1 for EARLIEST and LATEST. `leader_epoch`: of that record;
    -1 where unknown.
    """

    offset: int | None
    timestamp: int
    leader_epoch: int


class ListOffsets:
    """Takes for each partition a timestamp in ms since 1970, or one of the constants above.

    Args: queries: all of them; newer ones need newer versions.
    """

    api = BY_MODULE["list_offsets"]
    wait_ms = 0
    is_answered = True

    def __init__(self, isolation: int, queries: Collection[int]) -> None:
        self.isolation = isolation
        self._version_min = max((NEEDED_VERSIONS.get(query, VERSION_MIN) for query in queries), default=VERSION_MIN)

    def versions(self, cluster: MetadataCache, topics: Sequence[str]) -> tuple[int, int]:
        return self._version_min, 11

    def is_repeatable(self, requested: int) -> bool:
        return True

    def request(
        self, version: int, requested: Mapping[TopicPartition, int], cluster: MetadataCache, deadline: Deadline
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
                for topic, parts in by_topic(requested).items()
            ],
        )

    def results(
        self,
        version: int,
        response: ListOffsetsResponse,
        requested: Mapping[TopicPartition, int],
        cluster: MetadataCache,
    ) -> Iterator[PartitionResult[OffsetAndTimestamp]]:
        for topic in response.topics:
            for partition in topic.partitions:
                offset = OffsetAndTimestamp(
                    partition.offset if partition.offset >= 0 else None, partition.timestamp, partition.leader_epoch
                )
                yield PartitionResult(
                    TopicPartition(topic.name, partition.partition_index), partition.error_code, offset
                )
