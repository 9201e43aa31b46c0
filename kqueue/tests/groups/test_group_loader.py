from __future__ import annotations

from kqueue.tests.groups.consumer.consumers import commit, two_members
from kqueue.tests.groups.support import World, committed_offsets


def test_groups_of_both_types_are_loaded() -> None:
    world = World()
    two_members(world)
    commit(world, "m", 3)
    world.stable(group_id="c")
    again = world.restarted()
    assert {(one.group_id, one.type.value, one.state) for one in again.groups.groups()} == {
        ("g", "consumer", "Stable"),
        ("c", "classic", "Stable"),
    }
    assert committed_offsets(again) == {("t", 0): 7}
    assert again.consume("m", 3).member_epoch == 3
    again.advance(45_000)
    assert again.consumer_group().is_empty, "sessions go on"


def test_a_group_that_was_deleted_is_not_loaded() -> None:
    world = World()
    world.consume("m")
    world.consume("m", -1)
    world.groups.delete("g").result()
    assert not world.restarted().groups.groups()
