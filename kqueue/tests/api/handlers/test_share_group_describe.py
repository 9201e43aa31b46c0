"""Share groups as tools see them, beside groups of other types."""

from __future__ import annotations

from kqueue.tests.api.group_client import join_request
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.api.share_client import beat
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.delete_groups import DeleteGroupsRequest
from kqueue.wire.messages.list_groups import ListGroupsRequest
from kqueue.wire.messages.share_group_describe import ShareGroupDescribeRequest


def prepared() -> tuple[SimulatedClient, int]:
    client = SimulatedClient()
    client.sim.topic("t")
    epoch = 0
    for _ in range(3):
        epoch = beat(client, "m1", epoch, ["t"]).member_epoch
        client.sim.advance(1000)
    return client, epoch


def test_description() -> None:
    client, epoch = prepared()
    response = client.ask(ShareGroupDescribeRequest(group_ids=["g", "nobody"]), 1)
    group, unknown = response.groups
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (group.group_state, group.assignor_name, group.assignment_epoch) == ("Stable", "simple", epoch)
    [member] = group.members
    assert (member.member_id, member.member_epoch, member.subscribed_topic_names) == ("m1", epoch, ["t"])
    [topic] = member.assignment.topic_partitions
    assert (topic.topic_name, topic.partitions) == ("t", [0])


def test_list_and_deletion() -> None:
    client, _ = prepared()
    [listed] = client.ask(ListGroupsRequest(types_filter=["share"]), 5).groups
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
        "g",
        "share",
        "Stable",
        "share",
    )
    [result] = client.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results
    assert result.error_code == ErrorCode.NON_EMPTY_GROUP
    beat(client, "m1", -1)
    [result] = client.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results
    assert result.error_code == 0
    client.sim.settle()
    assert client.ask(ListGroupsRequest(), 5).groups == []
    assert len(client.sim.broker.share.coordinator) == 0


def test_consumers_can_not_join_a_share_group() -> None:
    client, _ = prepared()
    response = client.ask(join_request(5), 5)
    assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
