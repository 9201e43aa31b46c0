from __future__ import annotations

from kqueue.groups.consumer.group import ConsumerGroup
from kqueue.groups.consumer.member import Subscription
from kqueue.groups.consumer.records import ResolvedRegex
from kqueue.groups.log.changes import Changes
from kqueue.groups.modern.assignment import CurrentAssignment
from kqueue.groups.modern.records import GroupEpoch
from kqueue.tests.groups.consumer.consumers import T
from kqueue.tests.groups.support import unlimited


def filled(changes: Changes) -> ConsumerGroup:
    group = ConsumerGroup("g", unlimited())
    group.put_metadata(changes, "m", Subscription(instance_id="i", topics=("t",), regex="u.*", assignor="range"))
    group.put_current(changes, "m", CurrentAssignment(2, 1, assigned={T: {0: 2}}, revoking={T: {1: 2}}))
    group.put_target(changes, "m", {T: frozenset({0})})
    group.put_regex(changes, "u.*", ResolvedRegex(frozenset({"u"}), 1, 0))
    group.set_epoch(changes, GroupEpoch(2, 7))
    group.set_target_epoch(changes, 2, 1000)
    return group


def test_indexes_follow_the_members() -> None:
    group = filled(Changes())
    assert group.subscribed_topics() == {"t", "u"}
    assert [group.owner(T, index) for index in range(3)] == ["m", "m", None]
    assert group.preferred_assignor(["uniform", "range"]) == "range"
    assert group.preferred_assignor(["uniform", "other"]) == "uniform"
    assert group.reads_topic("u")
    group.remove_member(Changes(), "m")
    assert not group.subscribed_topics()
    assert not group.is_owned(T, 0)
    assert not group.static_ids
