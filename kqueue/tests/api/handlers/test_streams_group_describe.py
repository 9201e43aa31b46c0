from __future__ import annotations

from kqueue.tests.api.group_client import stable, world
from kqueue.tests.api.handlers.test_streams_group_heartbeat import AT_ONCE, join, word_count
from kqueue.tests.api.harness import versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.delete_groups import DeleteGroupsRequest
from kqueue.wire.messages.list_groups import ListGroupsRequest
from kqueue.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from kqueue.wire.messages.streams_group_heartbeat import Endpoint, KeyValue, TaskIds

VERSIONS = versions_of("streams_group_describe")


@for_each("version", VERSIONS)
def test_topology_members_and_tasks_are_described(version: int) -> None:
    client = world(**AT_ONCE)
    tags = [KeyValue(key="zone", value="a")]
    join(client, rack_id="r", user_endpoint=Endpoint(host="h", port=9), client_tags=tags)
    (group,) = client.ask(StreamsGroupDescribeRequest(group_ids=["g", "g"]), version).groups
    assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (0, "Stable", 2, 2)
    assert [one.source_topics for one in group.topology.subtopologies] == [["t"]]
    (member,) = group.members
    assert (member.member_id, member.rack_id, member.member_epoch, member.process_id) == ("m", "r", 2, "p")
    assert (member.user_endpoint, member.client_tags) == (Endpoint(host="h", port=9), tags)
    assert member.assignment == member.target_assignment
    assert member.assignment.active_tasks == [TaskIds(subtopology_id="0", partitions=[0, 1])]
    assert (member.assignment.standby_tasks, member.is_classic) == ([], False)


def test_internal_topics_are_described() -> None:
    client = world(**AT_ONCE)
    join(client, topology=word_count(cleanup_policy="delete"))
    (group,) = client.ask(StreamsGroupDescribeRequest(group_ids=["g"]), 0).groups
    assert group.group_state == "NotReady"
    first, second = group.topology.subtopologies
    assert first.repartition_sink_topics == ["app-words"]
    (words,) = second.repartition_source_topics
    assert (words.name, words.topic_configs) == ("app-words", [KeyValue(key="cleanup.policy", value="delete")])
    assert [topic.name for topic in second.state_changelog_topics] == ["app-counts"]


def test_a_group_that_is_none_is_an_error_of_its_own() -> None:
    client = world()
    stable(client, group_id="c")
    groups = client.ask(StreamsGroupDescribeRequest(group_ids=["x", "c"]), 0).groups
    assert [group.error_code for group in groups] == [ErrorCode.GROUP_ID_NOT_FOUND] * 2
    assert [group.error_message for group in groups] == ["Group x not found.", "Group c is not a streams group."]


def test_streams_groups_are_listed_and_deleted_as_others() -> None:
    client = world(**AT_ONCE)
    join(client)
    (listed,) = client.ask(ListGroupsRequest(types_filter=["streams"]), 5).groups
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
        "g",
        "streams",
        "Stable",
        "streams",
    )
    (result,) = client.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results
    assert result.error_code == ErrorCode.NON_EMPTY_GROUP
