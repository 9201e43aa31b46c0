"""DeleteRecords: drop what lies before an offset."""

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
    """What is asked of each partition: the offset before which all goes; -1: the high watermark."""

    api = BY_MODULE["delete_records"]
    wait_ms = 0
    is_answered = True

    def versions(self, cluster: MetadataCache, topics: Sequence[str]) -> tuple[int, int]:
        return 0, 2

    def is_repeatable(self, asked: int) -> bool:
        return True

    def request(
        self, version: int, asked: Mapping[TopicPartition, int], cluster: MetadataCache, deadline: Deadline
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
                for topic, parts in by_topic(asked).items()
            ],
        )

    def answers(
        self, version: int, response: DeleteRecordsResponse, asked: Mapping[TopicPartition, int], cluster: MetadataCache
    ) -> Iterator[PartitionResult[int]]:
        for topic in response.topics:
            for one in topic.partitions:
                yield PartitionResult(
                    TopicPartition(topic.name, one.partition_index), one.error_code, one.low_watermark
                )
