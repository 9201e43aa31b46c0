"""Each change of a share group can be taken back, and is what its records say."""

from __future__ import annotations

from kqueue.base.sliced_task import run_to_end
from kqueue.groups.log import share_records as records
from kqueue.groups.log.share_records import StatePartitions, StateTopic
from kqueue.groups.modern.changes import Changes
from kqueue.groups.share.group import ShareGroup, merged, readable, without
from kqueue.groups.share.member import ShareSubscription
from kqueue.groups.share.restore import ShareRecord, restore
from kqueue.tests.groups.support import unlimited

T, U = b"\1" * 16, b"\2" * 16


def changed(group: ShareGroup) -> Changes:
    changes = Changes()
    group.put_subscription(changes, "m", ShareSubscription(topics=("t",)))
    group.set_epoch(changes, 5, 6)
    group.put_target(changes, "m", {T: frozenset({0})})
    group.set_target_epoch(changes, 5, 7)
    group.put_current(changes, "m", 5, 4, {T: frozenset({0})})
    group.put_state(changes, StatePartitions({}, {T: StateTopic("t", frozenset({0}))}))
    return changes


def shown(group: ShareGroup) -> object:
    return (
        group.members,
        group.targets,
        group.epoch,
        group.metadata_hash,
        group.target_epoch,
        group.target_ms,
        group.state_partitions,
        group.member_bytes,
        group.state,
    )


def restored(changes: Changes) -> ShareGroup:
    read: list[ShareRecord] = []
    for key, value in changes.records():
        if value is not None:
            read.append((records.read_key(key[1], key[2:]), value))
    group = ShareGroup("g", unlimited())
    run_to_end(restore(group, reversed(read)))
    return group


def test_records_say_it_all_in_any_order() -> None:
    group = ShareGroup("g", unlimited())
    changes = changed(group)
    assert shown(restored(changes)) == shown(group)
    assert group.state.value == "Stable"
    assert group.reads_topic("t")
    assert not group.reads_topic("u")


def test_changes_are_taken_back() -> None:
    limits = unlimited()
    group = ShareGroup("g", limits)
    before = shown(group)
    changed(group).roll_back()
    assert shown(group) == before
    assert limits.member_bytes == 0
    changed(group)
    full = shown(group)
    changes = Changes()
    group.remove_member(changes, "m")
    assert group.is_empty
    assert limits.member_bytes == 0
    changes.roll_back()
    assert shown(group) == full
    group.release()
    assert limits.member_bytes == 0


def test_sets_of_partitions() -> None:
    one, two = {T: StateTopic("t", frozenset({0, 1}))}, {T: StateTopic("t", frozenset({1, 2}))}
    assert merged(one, two) == {T: StateTopic("t", frozenset({0, 1, 2}))}
    assert without(one, two) == {T: StateTopic("t", frozenset({0}))}
    assert without(one, one) == {}
    assert readable({T: frozenset({0}), U: frozenset({1})}, frozenset({U})) == {U: frozenset({1})}
    assert readable(None, frozenset({U})) == {}
