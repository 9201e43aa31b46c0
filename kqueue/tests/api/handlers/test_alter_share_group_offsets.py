"""An empty share group is moved; one with members is not."""

from __future__ import annotations

from kqueue.groups.offsets.offset_manager import OffsetToCommit
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.api.share_client import Member, acquired, alter_offset, beat, fill, group_offsets, share_group_at_2
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages import alter_share_group_offsets as messages
from kqueue.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kqueue.wire.messages.share_group_describe import ShareGroupDescribeRequest


def test_a_group_with_members_stays() -> None:
    assert alter_offset(share_group_at_2(), 1)[0] == ErrorCode.NON_EMPTY_GROUP


def test_an_empty_group_is_moved() -> None:
    client = share_group_at_2()
    beat(client, "m1", -1)
    assert alter_offset(client, 1) == (0, 0)
    assert group_offsets(client) == (0, 1, 4)
    assert acquired(Member(client).fetch()) == [(1, 4, 1)]


def test_refused() -> None:
    client = share_group_at_2()
    beat(client, "m1", -1)
    assert alter_offset(client, 1, "nowhere") == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert group_offsets(client) == (0, 2, 2)


def test_a_negative_offset_begins_by_the_setting() -> None:
    client = share_group_at_2()
    beat(client, "m1", -1)
    assert alter_offset(client, -5) == (0, 0)
    assert acquired(Member(client).fetch()) == [(0, 4, 1)]


def test_a_group_that_is_not_there_is_created() -> None:
    client = SimulatedClient()
    client.sim.topic("t")
    fill(client, 5)
    assert alter_offset(client, 3) == (0, 0)
    assert describe(client) == [(0, "g", "Empty")]
    assert group_offsets(client, named=False) == (0, 3, 2)
    beat(client, "m1", 0, ["t"])
    client.sim.advance(1000)
    assert acquired(Member(client, has_states=False).fetch()) == [(3, 4, 1)]


def test_a_group_without_a_known_topic_is_not_created() -> None:
    client = SimulatedClient()
    client.sim.topic("t")
    assert alter_offset(client, 1, "nowhere") == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert alter(client, "g") == (0, [])
    assert describe(client) == [(ErrorCode.GROUP_ID_NOT_FOUND, "g", "")]


def test_an_unknown_partition_of_a_known_topic_creates_the_group() -> None:
    client = SimulatedClient()
    client.sim.topic("t")
    assert alter(client, "g", (9, 0)) == (0, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
    assert describe(client) == [(0, "g", "Empty")]
    assert alter(client, "g", (0, 0), (0, 1)) == (0, [0, 0])
    for request, version in ((offset_delete("g"), 0), (offset_delete("absent"), 0)):
        assert client.ask(request, version).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_groups_without_a_name_or_of_another_type_are_refused() -> None:
    client = SimulatedClient()
    client.sim.topic("t")
    assert alter(client, "", (0, 0)) == (ErrorCode.INVALID_GROUP_ID, [])
    assert alter(client, "") == (ErrorCode.INVALID_GROUP_ID, [])
    client.sim.result(client.sim.broker.coordinators.groups.commit("c", -1, "", None, [OffsetToCommit("t", 0, 1)]))
    assert alter(client, "c", (0, 0)) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    assert describe(client, "") == [(ErrorCode.INVALID_GROUP_ID, "", "")]


def test_a_created_group_is_there_after_a_restart() -> None:
    client = SimulatedClient()
    client.sim.topic("t")
    assert alter_offset(client, 3) == (0, 0)
    client.sim.stop()
    client.sim = client.sim.restarted()
    client.sim.advance(1000)
    assert describe(client) == [(0, "g", "Empty")]
    assert group_offsets(client, named=False)[:2] == (0, 3)


def alter(client: SimulatedClient, group: str, *partitions: tuple[int, int]) -> tuple[int, list[int]]:
    """Error codes of the request and of the partitions of topic ``t``."""
    request = messages.AlterShareGroupOffsetsRequest(group_id=group)
    if partitions:
        named = [
            messages.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
            for index, offset in partitions
        ]
        request.topics = [messages.AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=named)]
    response = client.ask(request, 0)
    return response.error_code, [part.error_code for topic in response.responses for part in topic.partitions]


def offset_delete(group: str) -> OffsetDeleteRequest:
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    return OffsetDeleteRequest(group_id=group, topics=[OffsetDeleteRequestTopic(name="t", partitions=partitions)])


def describe(client: SimulatedClient, group: str = "g") -> list[tuple[int, str, str]]:
    response = client.ask(ShareGroupDescribeRequest(group_ids=[group]), 1)
    return [(one.error_code, one.group_id, one.group_state) for one in response.groups]
