from __future__ import annotations

from kqueue.base.sliced_task import run_to_end
from kqueue.groups.streams.assignments import compute_target, work_size
from kqueue.tests.groups.streams.applications import A0, A1, COUNT, S1, beat, group_of, new_world


def test_only_what_changes_is_written() -> None:
    world = new_world(COUNT)
    beat(world, topology=COUNT)
    beat(world, "m", 2)
    group = group_of(world)
    assert work_size(group, 0) == 1 + 8
    assert run_to_end(compute_target(group, 0)).changed == {}
    group.targets.clear()
    target = run_to_end(compute_target(group, 0))
    assert target.epoch == 2
    assert target.changed["m"][0] == {A0: frozenset(range(4)), A1: frozenset(range(4))}


def test_copies_are_on_other_processes() -> None:
    world = new_world(COUNT, group_streams_num_standby_replicas=1)
    beat(world, "m", topology=COUNT)
    beat(world, "n", topology=COUNT)
    group = group_of(world)
    for member_id, other in (("m", "n"), ("n", "m")):
        assert group.target_of(member_id)[S1] == group.target_of(other)[A1]


def test_a_group_that_is_not_ready_has_no_tasks() -> None:
    world = new_world()
    beat(world, topology=COUNT)
    assert group_of(world).targets == {"m": {}}
