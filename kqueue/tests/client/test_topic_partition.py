from __future__ import annotations

from kqueue.client import TopicPartition
from kqueue.client.topic_partition import by_topic


def test_partitions_are_given_topic_by_topic() -> None:
    partitions = [TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("b", 0)]
    assert by_topic({topic_partition: number for number, topic_partition in enumerate(partitions)}) == {
        "b": [(1, 0), (0, 2)],
        "a": [(0, 1)],
    }
    assert by_topic((topic_partition, None) for topic_partition in partitions[:2]) == {
        "b": [(1, None)],
        "a": [(0, None)],
    }
    assert list(by_topic(dict.fromkeys(partitions))) == ["b", "a"], "the order that was asked for"


def test_a_plain_pair_is_the_same() -> None:
    assert {TopicPartition("a", 1): "found"}[("a", 1)] == "found"
    assert str(TopicPartition("a", 1)) == "a-1"
