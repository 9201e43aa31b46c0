"""DeleteRecords: delete all records before an offset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kqueue.client.calls.contract import PartitionResult
from kqueue.client.deadline import Deadline
from kqueue.client.metadata import MetadataCache
from kqueue.client.topic_partition import TopicPartition, by_topic
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)


class DeleteRecords:
    """Takes for each partition the first offset to keep; -1: the high watermark."""

    api = BY_MODULE["delete_records"]
    wait_ms = 0
    is_answered = True

    def versions(self, cluster: MetadataCache, topics: Sequence[str]) -> tuple[int, int]:
        return 0, 2

    def is_repeatable(self, requested: int) -> bool:
        return True

    def request(
        self, version: int, requested: Mapping[TopicPartition, int], cluster: MetadataCache, deadline: Deadline
    ) -> DeleteRecordsRequest:
        return DeleteRecordsRequest(
            timeout_ms=deadline.broker_timeout_ms,
            topics=[
                DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in parts
                    ],
                )
                for topic, parts in by_topic(requested).items()
            ],
        )

    def results(
        self,
        version: int,
        response: DeleteRecordsResponse,
        requested: Mapping[TopicPartition, int],
        cluster: MetadataCache,
    ) -> Iterator[PartitionResult[int]]:
        for topic in response.topics:
            for partition in topic.partitions:
                yield PartitionResult(
                    TopicPartition(topic.name, partition.partition_index), partition.error_code, partition.low_watermark
                )
