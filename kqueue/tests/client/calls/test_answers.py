"""Answers that are well formed and can't be meant, and what depends on topics having ids."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kqueue.client import ClusterMetadata, OffsetAndMetadata, PartitionMetadata, TopicMetadata, TopicPartition
from kqueue.client.calls.configs import DescribeTopics
from kqueue.client.calls.contract import LeaderCall
from kqueue.client.calls.fetch import Fetch
from kqueue.client.calls.find_coordinator import FindCoordinator
from kqueue.client.calls.group_offsets import CommitOffsets, FetchCommitted
from kqueue.client.calls.list_offsets import ListOffsets
from kqueue.client.calls.produce import Produce, ProduceResult
from kqueue.client.deadline import Deadline
from kqueue.client.errors import BadAnswer, BrokerRefused
from kqueue.client.metadata import MetadataCache
from kqueue.tests.client.serving import batch
from kqueue.wire.messages.describe_configs import DescribeConfigsResponse, DescribeConfigsResult
from kqueue.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from kqueue.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kqueue.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kqueue.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

PLACE = TopicPartition("t", 0)
ID = b"1" * 16
OF_OTHERS = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="other")])
COMMIT = CommitOffsets("g", {PLACE: OffsetAndMetadata(1)})


@pytest.mark.parametrize(
    "read",
    [
        lambda: FindCoordinator("g").result(4, FindCoordinatorResponse(coordinators=[Coordinator(key="other")]), "b:1"),
        lambda: FindCoordinator("g").result(6, FindCoordinatorResponse(), "b:1"),
        lambda: COMMIT.result(8, OffsetCommitResponse(), "b:1"),
        lambda: FetchCommitted("g", None, stable=True).result(8, OF_OTHERS, "b:1"),
        lambda: DescribeTopics(["t"], None).result(
            4, DescribeConfigsResponse(results=[DescribeConfigsResult(resource_name="u")]), "b:1"
        ),
    ],
)
def test_answers_about_something_else_are_none(read: Callable[[], object]) -> None:
    with pytest.raises(BadAnswer, match=r"b:1: \w+: the answer (is not about|leaves out)"):
        read()


def test_errors_wherever_they_stand_are_raised() -> None:
    with pytest.raises(BrokerRefused, match="FindCoordinator of group 'g': COORDINATOR_NOT_AVAILABLE"):
        FindCoordinator("g").result(3, FindCoordinatorResponse(error_code=15), "b:1")
    rows = [OffsetCommitResponseTopic(name="t", partitions=[OffsetCommitResponsePartition(error_code=25)])]
    with pytest.raises(
        BrokerRefused, match=r"OffsetCommit of t-0: UNKNOWN_MEMBER_ID \(group 'g'; the group has members"
    ):
        COMMIT.result(8, OffsetCommitResponse(topics=rows), "b:1")
    groups = [OffsetFetchResponseGroup(group_id="g", error_code=30)]
    with pytest.raises(BrokerRefused, match="OffsetFetch of group 'g': GROUP_AUTHORIZATION_FAILED"):
        FetchCommitted("g", None, stable=True).result(8, OffsetFetchResponse(groups=groups), "b:1")
    row = OffsetFetchResponsePartitions(error_code=88, committed_offset=-1)
    groups = [OffsetFetchResponseGroup(group_id="g", topics=[OffsetFetchResponseTopics(name="t", partitions=[row])])]
    with pytest.raises(BrokerRefused, match="OffsetFetch of t-0: UNSTABLE_OFFSET_COMMIT"):
        FetchCommitted("g", None, stable=True).result(8, OffsetFetchResponse(groups=groups), "b:1")


def cluster(*ids: bytes) -> MetadataCache:
    made = MetadataCache()
    topics = {
        f"t{number or ''}": TopicMetadata(f"t{number or ''}", id, {0: PartitionMetadata(0)})
        for number, id in enumerate(ids)
    }
    made.update(ClusterMetadata({}, topics), None)
    return made


@pytest.mark.parametrize(
    "call",
    [Fetch(isolation=0, max_bytes=1, partition_max_bytes=1, min_bytes=1, max_wait_ms=1), Produce(-1)],
    ids=["Fetch", "Produce"],
)
def test_topics_are_named_where_one_of_them_has_no_id(call: LeaderCall[object, object]) -> None:
    assert call.versions(cluster(ID, b"2" * 16), ["t", "t1"])[1] == call.api.versions[1]
    assert call.versions(cluster(ID, bytes(16)), ["t", "t1"])[1] == 12


def test_a_batch_that_the_broker_has_long_had_is_there() -> None:
    rows = [
        TopicProduceResponse(name="t", partition_responses=[PartitionProduceResponse(error_code=46, base_offset=-1)])
    ]
    (found,) = Produce(-1).results(9, ProduceResponse(responses=rows), {PLACE: b""}, cluster(bytes(16)))
    assert (found.code, found.value) == (0, ProduceResult(-1, -1, -1))


def test_an_id_that_nobody_asked_for_is_shown() -> None:
    rows = [TopicProduceResponse(topic_id=b"?" * 16, partition_responses=[PartitionProduceResponse()])]
    (found,) = Produce(-1).results(13, ProduceResponse(responses=rows), {PLACE: b""}, cluster(ID))
    assert found.topic_partition == ("3f" * 16, 0)


def test_a_broker_is_to_wait_less_long_than_we_do() -> None:
    fetch = Fetch(isolation=1, max_bytes=1, partition_max_bytes=1, min_bytes=1, max_wait_ms=60_000)
    assert 500 < fetch.request(12, {PLACE: 0}, cluster(ID), Deadline(1_000)).max_wait_ms <= 750
    assert Produce(-1).request(12, {PLACE: batch([b"a"])}, cluster(ID), Deadline(1_000)).timeout_ms <= 750


def test_the_isolation_is_said() -> None:
    for level in (0, 1):
        request = ListOffsets(level, by_greatest_time=False).request(11, {PLACE: -1}, cluster(ID), Deadline(1_000))
        assert request.isolation_level == level


def test_only_batches_with_a_producer_may_be_sent_again() -> None:
    call = Produce(-1)
    assert not call.is_repeatable(batch([b"a"]))
    assert call.is_repeatable(batch([b"a"], producer_id=5, epoch=0, base_sequence=0))
