"""The promises of every assignor."""

from __future__ import annotations

import pytest
from hypothesis import given

from kqueue.base.errors import PluginError
from kqueue.groups.assignors import AssignorMember, AssignorTopic, assignor_names
from kqueue.tests.groups.assignors.drawn_groups import assign, groups
from kqueue.tests.groups.support import World
from kqueue.tests.tables import for_each


@for_each("name", ["range", "uniform"])
@given(group=groups())
def test_each_partition_has_one_subscriber(
    name: str, group: tuple[list[AssignorMember], dict[bytes, AssignorTopic]]
) -> None:
    members, topics = group
    assignment = assign(name, members, topics)
    wanted = {
        (topic, index)
        for topic in topics
        if any(topic in member.topics for member in members)
        for index in range(topics[topic].partition_count)
    }
    given_out = [
        (topic, index)
        for member in members
        for topic, indexes in assignment.get(member.member_id, {}).items()
        for index in indexes
    ]
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == wanted
    assert all(assignment.get(member.member_id, {}).keys() <= member.topics for member in members)


@for_each("name", ["range", "uniform"])
@given(group=groups())
def test_an_assignment_is_kept(name: str, group: tuple[list[AssignorMember], dict[bytes, AssignorTopic]]) -> None:
    members, topics = group
    first = assign(name, members, topics)
    again = [
        member._replace(
            current={topic: frozenset(indexes) for topic, indexes in first.get(member.member_id, {}).items()}
        )
        for member in members
    ]
    second = assign(name, again, topics)
    for member in members:
        one, two = first.get(member.member_id, {}), second.get(member.member_id, {})
        assert {topic: set(indexes) for topic, indexes in one.items()} == {
            topic: set(indexes) for topic, indexes in two.items()
        }


def test_kafkas_classes_have_the_names_of_their_assignors() -> None:
    package = "org.apache.kafka.coordinator.group.assignor"
    names = ["range", f"{package}.UniformAssignor", f"{package}.RangeAssignor"]
    assert assignor_names(names) == ("range", "uniform", "range")
    with pytest.raises(PluginError, match="unifrom"):
        World(group_consumer_assignors="unifrom")
