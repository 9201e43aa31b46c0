from __future__ import annotations

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.groups.modern import target_assignment, write_queue
from kqueue.tests.groups.consumer.consumers import T, indexes
from kqueue.tests.groups.support import World


def test_a_large_group_is_assigned_beside_the_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_assignment, "INLINE_SIZE_MAX", 3)
    world = World()
    assert indexes(world.consume("m").assigned) == set()
    assert indexes(world.consume("m", 1).assigned) == {0, 1, 2, 3}


def test_a_large_assignment_is_computed_again_if_a_part_can_not_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_assignment, "INLINE_SIZE_MAX", 3)
    monkeypatch.setattr(target_assignment, "PART_MEMBERS", 1)
    monkeypatch.setattr(write_queue, "RECORDS_PER_APPEND", 1)
    world = World()
    world.consume("m")
    world.consume("m", 1)
    world.consume("n")
    world.advance(1000)
    world.log.hold = True
    world.beat_consumer("m", 2)
    world.log.release(1)
    world.log.fail(StorageFailed("EIO"))
    while world.log.held:
        world.log.release(1)
    group = world.consumer_group()
    assert (group.epoch, group.target_epoch) == (3, 2)
    assert described(world.restarted()) == described(world)
    world.log.hold = False
    world.consume("m", 2)
    assert (group.epoch, group.target_epoch) == (3, 3)
    assert [len(group.target_of(member_id)[T]) for member_id in "mn"] == [2, 2]


def described(world: World) -> object:
    group = world.consumer_group()
    return group.epoch, group.target_epoch, group.members, dict(group.targets)
