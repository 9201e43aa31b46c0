from __future__ import annotations

import pytest

from kqueue.client import TaskId, TopicPartition
from kqueue.client.calls.describe_groups import REQUESTS, DescribeGroup
from kqueue.client.errors import BadAnswer, BrokerRefused
from kqueue.tests.tables import for_each
from kqueue.wire.messages import consumer_group_describe as consumer
from kqueue.wire.messages import streams_group_describe as streams
from kqueue.wire.messages.streams_group_heartbeat import TaskIds, TopicInfo


def test_a_consumer_group_with_its_members() -> None:
    assigned = consumer.TopicPartitions(topic_id=bytes(16), topic_name="t", partitions=[2, 0])
    member = consumer.Member(
        member_id="m",
        instance_id="i",
        member_epoch=4,
        client_id="c",
        client_host="/h",
        assignment=consumer.Assignment(topic_partitions=[assigned]),
    )
    group = consumer.DescribedGroup(
        group_id="g", group_state="Stable", group_epoch=5, assignment_epoch=4, assignor_name="uniform", members=[member]
    )
    response = consumer.ConsumerGroupDescribeResponse(groups=[group])
    result = DescribeGroup("g", "consumer").result(1, response, "b:1")
    assert (result.state, result.epoch, result.assignment_epoch, result.assignor) == ("Stable", 5, 4, "uniform")
    (described,) = result.members
    assert (described.member_id, described.instance_id, described.epoch) == ("m", "i", 4)
    assert described.assigned == (TopicPartition("t", 0), TopicPartition("t", 2))


def test_tasks_read_the_source_and_repartition_topics_of_their_subtopology() -> None:
    subtopology = streams.DescribedSubtopology(
        subtopology_id="0", source_topics=["in"], repartition_source_topics=[TopicInfo(name="again")]
    )
    assignment = streams.Assignment(
        active_tasks=[TaskIds(subtopology_id="0", partitions=[1])],
        standby_tasks=[TaskIds(subtopology_id="0", partitions=[0])],
    )
    group = streams.DescribedGroup(
        group_id="g",
        topology=streams.DescribedTopology(subtopologies=[subtopology]),
        members=[streams.Member(member_id="m", assignment=assignment)],
    )
    response = streams.StreamsGroupDescribeResponse(groups=[group])
    (member,) = DescribeGroup("g", "streams").result(0, response, "b:1").members
    assert member.assigned == (TopicPartition("again", 1), TopicPartition("in", 1))
    assert (member.active, member.standby, member.warmup) == ((TaskId("0", 1),), (TaskId("0", 0),), ())
    assert str(member.active[0]) == "0_1"


@for_each("type", REQUESTS)
def test_an_error_or_another_group_is_raised(type: str) -> None:
    call = DescribeGroup("g", type)
    assert call.request(0).group_ids == ["g"]  # type: ignore[attr-defined]
    group = consumer.DescribedGroup(group_id="g", error_code=69, error_message="Group g not found.")
    with pytest.raises(BrokerRefused, match=r"GROUP_ID_NOT_FOUND \(Group g not found\.\)"):
        call.result(1, consumer.ConsumerGroupDescribeResponse(groups=[group]), "b:1")
    with pytest.raises(BadAnswer, match="is not about group 'g'"):
        call.result(1, consumer.ConsumerGroupDescribeResponse(), "b:1")
