from __future__ import annotations

import pytest

from kqueue.client.calls.describe_log_dirs import DescribeLogDirs, LogDir
from kqueue.client.errors import BadAnswer, BrokerRefused
from kqueue.client.topic_partition import TopicPartition
from kqueue.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


def row(index: int, size: int, *, is_future: bool = False) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(partition_index=index, partition_size=size, is_future_key=is_future)


def answer(*rows: DescribeLogDirsPartition, **folder: int) -> DescribeLogDirsResponse:
    topics = [DescribeLogDirsTopic(name="t", partitions=list(rows))] if rows else []
    return DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir="/d", topics=topics, **folder)])


def test_a_request_names_each_partition_once_and_none_asks_for_all() -> None:
    topics = DescribeLogDirs([ONE, TWO, ONE]).request(5).topics
    assert topics is not None
    assert [(topic.topic, topic.partitions) for topic in topics] == [("t", [0, 1])]
    assert DescribeLogDirs().request(5).topics is None


def test_sizes_are_returned_and_copies_on_their_way_apart() -> None:
    call = DescribeLogDirs()
    response = answer(row(0, 10), row(1, 5), row(1, 3, is_future=True), total_bytes=100, usable_bytes=40)
    (folder,) = call.result(5, response, "b:1")
    assert folder == LogDir("/d", 0, {ONE: 10, TWO: 5}, {TWO: 3}, 100, 40)
    assert folder.size == 18
    (older,) = call.result(3, answer(), "b:1")
    assert (older.total_bytes, older.usable_bytes, older.size) == (None, None, 0)
    (offline,) = call.result(5, answer(error_code=56), "b:1")
    assert offline.code == 56


def test_an_error_and_an_answer_without_folders_are_refusals() -> None:
    for response in (DescribeLogDirsResponse(error_code=31), DescribeLogDirsResponse()):
        with pytest.raises(BrokerRefused, match="CLUSTER_AUTHORIZATION_FAILED"):
            DescribeLogDirs().result(5, response, "b:1")


def test_a_size_below_zero_and_a_repeated_partition_are_bad_answers() -> None:
    for rows in ([row(0, -1)], [row(0, 1), row(0, 1)]):
        with pytest.raises(BadAnswer, match="t-0"):
            DescribeLogDirs().result(5, answer(*rows), "b:1")
