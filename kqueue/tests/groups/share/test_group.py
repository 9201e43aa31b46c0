"""The behaviour that only share groups have; `modern/test_group.py` has the rest."""

from __future__ import annotations

from kqueue.groups.log.changes import Changes
from kqueue.groups.modern.records import GroupEpoch
from kqueue.groups.share.group import ShareGroup, merged, readable, without
from kqueue.groups.share.member import ShareSubscription, current_of
from kqueue.groups.share.records import StatePartitions, StateTopic
from kqueue.tests.groups.support import unlimited

T, U = b"\1" * 16, b"\2" * 16


def filled(changes: Changes) -> ShareGroup:
    group = ShareGroup("g", unlimited())
    group.put_metadata(changes, "m", ShareSubscription(topics=("t",)))
    group.set_epoch(changes, GroupEpoch(5, 6))
    group.put_target(changes, "m", {T: frozenset({0})})
    group.set_target_epoch(changes, 5, 7)
    group.put_current(changes, "m", current_of(5, 4, {T: frozenset({0})}))
    group.put_state(changes, StatePartitions({}, {T: StateTopic("t", frozenset({0}))}))
    return group


def test_a_topic_is_read_while_a_member_subscribes_to_it() -> None:
    group = filled(Changes())
    assert group.state.value == "Stable"
    assert [group.reads_topic(topic) for topic in "tu"] == [True, False]
    group.remove_member(Changes(), "m")
    assert group.state.value == "Empty"
    assert not group.reads_topic("t")


def test_sets_of_partitions() -> None:
    one, two = {T: StateTopic("t", frozenset({0, 1}))}, {T: StateTopic("t", frozenset({1, 2}))}
    assert merged(one, two) == {T: StateTopic("t", frozenset({0, 1, 2}))}
    assert without(one, two) == {T: StateTopic("t", frozenset({0}))}
    assert without(one, one) == {}
    assert readable({T: frozenset({0}), U: frozenset({1})}, frozenset({U})) == {U: frozenset({1})}
    assert readable(None, frozenset({U})) == {}
