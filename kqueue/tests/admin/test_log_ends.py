from __future__ import annotations

import pytest

import kqueue
from kqueue.admin import log_ends as module
from kqueue.admin.log_ends import ends_of, log_ends
from kqueue.client import Client, PartitionMetadata, TopicMetadata, TopicPartition

MISSING = TopicPartition("missing", 0)


def test_log_ends_of_all_topics_are_read_in_bounded_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PARTITIONS_PER_CALL", 2)
    with kqueue.Broker() as broker, Client(broker.bootstrap) as client:
        broker.create_topic("a", 2)
        broker.create_topic("b")
        broker.topics["b"].produce_all(["x", "y"])
        read = log_ends(client, client.metadata().topics.values())
        assert read.ends == {("a", 0): 0, ("a", 1): 0, ("b", 0): 2}
        assert not read.failed
        assert log_ends(client, ()).ends == {}


def test_a_partition_that_fails_hides_no_other_and_one_without_a_leader_is_not_asked_for() -> None:
    with kqueue.Broker() as broker, Client(broker.bootstrap, missing_topic_ms=1) as client:
        broker.create_topic("a")
        read = ends_of(client, [TopicPartition("a", 0), MISSING], timeout_ms=2_000)
        assert (read.ends, list(read.failed)) == ({("a", 0): 0}, [MISSING])
        leaderless = TopicMetadata("missing", bytes(16), {0: PartitionMetadata(-1)})
        read = log_ends(client, [leaderless])
        assert (read.ends, read.failed) == ({}, {})


def test_an_unreachable_cluster_fails_every_partition() -> None:
    with Client("127.0.0.1:1", timeout_ms=50) as client:
        read = ends_of(client, [MISSING])
    assert (read.ends, list(read.failed)) == ({}, [MISSING])
