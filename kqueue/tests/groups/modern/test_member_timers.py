from __future__ import annotations

import pytest

from kqueue.base import errors
from kqueue.base.errors import KqueueError
from kqueue.tests.groups.consumer.consumers import two_members
from kqueue.tests.groups.support import World


def test_a_silent_member_is_removed() -> None:
    world = World()
    two_members(world)
    for _ in range(9):
        world.advance(5000)
        world.consume("m", world.consumer_group().members["m"].current.epoch)
    assert set(world.consumer_group().members) == {"m"}
    with pytest.raises(errors.UnknownMember):
        world.consume("n", 3)


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    world = World()
    world.consume("m", rebalance_timeout_ms=10_000)
    world.consume("n")
    world.advance(1000)
    world.consume("m", 2)
    world.advance(9999)
    world.consume("m", 2)
    assert "m" in world.consumer_group().members
    world.advance(1)
    assert "m" not in world.consumer_group().members


def test_a_removal_that_can_not_be_written_is_tried_again() -> None:
    world = World()
    world.consume("m")
    world.log.hold = True
    world.advance(45_000)
    world.log.fail(KqueueError("EIO"))
    assert "m" in world.consumer_group().members
    world.log.hold = False
    world.advance(45_000)
    assert world.consumer_group().is_empty


def test_a_static_member_that_stays_away_is_removed() -> None:
    world = World()
    world.consume("m", instance_id="i")
    world.consume("m", -2, instance_id="i")
    world.advance(45_000)
    assert world.consumer_group().is_empty
