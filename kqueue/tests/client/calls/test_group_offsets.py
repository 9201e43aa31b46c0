from __future__ import annotations

import pytest

from kqueue.client import OffsetAndMetadata, TopicPartition
from kqueue.client.calls.group_offsets import CommitOffsets, FetchCommitted, FindPending
from kqueue.client.errors import BadAnswer, BrokerRefused
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

COMMIT = CommitOffsets("g", {TopicPartition("t", 0): OffsetAndMetadata(1)})
FETCH = FetchCommitted("g", None, stable=True)


def test_responses_about_something_else_are_errors() -> None:
    with pytest.raises(BadAnswer, match=r"b:1: \w+: the answer leaves out"):
        COMMIT.result(8, OffsetCommitResponse(), "b:1")
    of_others = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="other")])
    with pytest.raises(BadAnswer, match=r"b:1: \w+: the answer is not about"):
        FETCH.result(8, of_others, "b:1")


def test_errors_of_partitions_and_of_groups_are_raised() -> None:
    rows = [OffsetCommitResponseTopic(name="t", partitions=[OffsetCommitResponsePartition(error_code=25)])]
    with pytest.raises(
        BrokerRefused, match=r"OffsetCommit of t-0, group 'g': UNKNOWN_MEMBER_ID \(the group has members"
    ):
        COMMIT.result(8, OffsetCommitResponse(topics=rows), "b:1")
    groups = [OffsetFetchResponseGroup(group_id="g", error_code=30)]
    with pytest.raises(BrokerRefused, match="OffsetFetch of group 'g': GROUP_AUTHORIZATION_FAILED"):
        FETCH.result(8, OffsetFetchResponse(groups=groups), "b:1")
    row = OffsetFetchResponsePartitions(error_code=88, committed_offset=-1)
    groups = [OffsetFetchResponseGroup(group_id="g", topics=[OffsetFetchResponseTopics(name="t", partitions=[row])])]
    with pytest.raises(BrokerRefused, match="OffsetFetch of t-0, group 'g': UNSTABLE_OFFSET_COMMIT"):
        FETCH.result(8, OffsetFetchResponse(groups=groups), "b:1")


def test_a_refused_commit_names_all_partitions_that_were_refused() -> None:
    rows = [OffsetCommitResponsePartition(partition_index=index, error_code=code) for index, code in enumerate((25, 0))]
    call = CommitOffsets("g", {TopicPartition("t", index): OffsetAndMetadata(1) for index in range(2)})
    response = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=rows)])
    with pytest.raises(BrokerRefused) as refused:
        call.result(8, response, "b:1")
    assert (set(refused.value.failed), set(refused.value.done)) == ({("t", 0)}, {("t", 1)})


def test_unstable_partitions_are_pending() -> None:
    rows = [
        OffsetFetchResponsePartitions(partition_index=index, error_code=code, committed_offset=-1)
        for index, code in enumerate((88, 0, 88))
    ]
    groups = [OffsetFetchResponseGroup(group_id="g", topics=[OffsetFetchResponseTopics(name="t", partitions=rows)])]
    call = FindPending("g", [TopicPartition("t", index) for index in range(3)])
    assert call.request(9).require_stable
    assert call.result(9, OffsetFetchResponse(groups=groups), "b:1") == {("t", 0), ("t", 2)}
    with pytest.raises(BadAnswer, match="is not about group 'g'"):
        call.result(9, OffsetFetchResponse(), "b:1")
