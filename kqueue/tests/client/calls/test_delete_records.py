from __future__ import annotations

from kqueue.client import TopicPartition
from kqueue.client.calls.delete_records import DeleteRecords
from kqueue.client.metadata import MetadataCache
from kqueue.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


def test_each_partition_has_its_error_and_its_log_start() -> None:
    rows = [
        DeleteRecordsPartitionResult(partition_index=0, low_watermark=7),
        DeleteRecordsPartitionResult(partition_index=1, low_watermark=-1, error_code=1),
    ]
    response = DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name="t", partitions=rows)])
    requested = {TopicPartition("t", 0): 7, TopicPartition("t", 1): 9}
    results = DeleteRecords().results(2, response, requested, MetadataCache())
    assert [tuple(result)[:3] for result in results] == [(("t", 0), 0, 7), (("t", 1), 1, -1)]
