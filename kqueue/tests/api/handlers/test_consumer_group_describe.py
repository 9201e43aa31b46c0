from __future__ import annotations

from kqueue.tests.api.group_client import stable, world
from kqueue.tests.api.handlers.test_consumer_group_heartbeat import join
from kqueue.tests.api.harness import versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, TopicPartitions

VERSIONS = versions_of("consumer_group_describe")


@for_each("version", VERSIONS)
def test_members_and_assignments_are_described(version: int) -> None:
    client = world()
    join(client, instance_id="i", rack_id="r")
    (group,) = client.ask(ConsumerGroupDescribeRequest(group_ids=["g", "g"]), version).groups
    assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (0, "Stable", 2, 2)
    assert group.assignor_name == "uniform"
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.rack_id, member.member_epoch) == ("m", "i", "r", 2)
    assert member.subscribed_topic_names == ["t"]
    assert member.member_type == (1 if version >= 1 else -1)
    topic_id = client.sim.broker.topics.get("t").id
    expected = [TopicPartitions(topic_id=topic_id, topic_name="t", partitions=[0, 1])]
    assert member.assignment.topic_partitions == member.target_assignment.topic_partitions == expected


def test_a_group_that_is_none_is_an_error_of_its_own() -> None:
    client = world()
    stable(client, group_id="c")
    groups = client.ask(ConsumerGroupDescribeRequest(group_ids=["x", "c"]), 1).groups
    assert [group.error_code for group in groups] == [ErrorCode.GROUP_ID_NOT_FOUND] * 2
    assert [group.error_message for group in groups] == ["Group x not found.", "Group c is not a consumer group."]
