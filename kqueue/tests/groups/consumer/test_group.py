from __future__ import annotations

from kqueue.groups.consumer.group import ConsumerGroup
from kqueue.groups.consumer.member import Subscription
from kqueue.groups.log.consumer_records import ResolvedRegex
from kqueue.groups.modern.assignment import CurrentAssignment
from kqueue.groups.modern.changes import Changes
from kqueue.tests.groups.consumer.consumers import T
from kqueue.tests.groups.support import unlimited


def filled() -> ConsumerGroup:
    group, changes = ConsumerGroup("g", unlimited()), Changes()
    group.put_subscription(changes, "m", Subscription(instance_id="i", topics=("t",), regex="u.*", assignor="range"))
    group.put_current(changes, "m", CurrentAssignment(2, 1, assigned={T: {0: 2}}, revoking={T: {1: 2}}))
    group.put_target(changes, "m", {T: frozenset({0})})
    group.put_regex(changes, "u.*", ResolvedRegex(frozenset({"u"}), 1, 0))
    group.set_epoch(changes, 2, 7)
    group.set_target_epoch(changes, 2, 1000)
    return group


def seen(group: ConsumerGroup) -> object:
    return (
        {**vars(group), "_limits": group._limits.member_bytes, "members": dict(group.members)}
        | {"targets": dict(group.targets), "regexes": dict(group.regexes), "static_ids": dict(group.static_ids)}
        | {"_owners": {topic: dict(owners) for topic, owners in group._owners.items()}}
        | {name: dict(getattr(group, name)) for name in ("_names", "_patterns", "_assignors", "_reconciled")}
    )


def test_indexes_follow_the_members() -> None:
    group = filled()
    assert group.subscribed_topics() == {"t", "u"}
    assert [group.owner(T, index) for index in range(3)] == ["m", "m", None]
    assert group.preferred_assignor(["uniform", "range"]) == "range"
    assert group.preferred_assignor(["uniform", "other"]) == "uniform"
    assert group.reads_topic("u")
    group.remove_member(Changes(), "m")
    assert not group.subscribed_topics()
    assert not group.is_owned(T, 0)
    assert not group.static_ids


def test_every_change_can_be_taken_back() -> None:
    group, changes = filled(), Changes()
    before = seen(group)
    group.put_subscription(changes, "m", Subscription(topics=("x",)))
    group.put_subscription(changes, "n", Subscription(instance_id="j", topics=("t",)))
    group.put_current(changes, "m", CurrentAssignment(3, 2))
    group.put_current(changes, "n", CurrentAssignment(3, 0, assigned={T: {0: 3, 1: 3}}))
    group.put_target(changes, "n", {T: frozenset({0, 1})})
    group.remove_regex(changes, "u.*")
    group.set_epoch(changes, 3, 8)
    group.set_target_epoch(changes, 3, 2000)
    group.remove_member(changes, "n")
    assert seen(group) != before
    changes.roll_back()
    assert seen(group) == before
