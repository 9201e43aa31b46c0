from __future__ import annotations

import pytest

from kqueue.base import errors
from kqueue.base.errors import KqueueError
from kqueue.groups import errors as group_errors
from kqueue.tests.groups.consumer.consumers import commit
from kqueue.tests.groups.support import World, commit_simple, committed_offsets


def test_an_empty_classic_group_becomes_a_consumer_group_with_its_offsets() -> None:
    world = World()
    commit_simple(world, 5)
    world.consume("m")
    assert [one.type.value for one in world.groups.groups()] == ["consumer"]
    assert committed_offsets(world) == {("t", 0): 5}
    again = world.restarted()
    assert [one.type.value for one in again.groups.groups()] == ["consumer"]
    assert committed_offsets(again) == {("t", 0): 5}


def test_an_empty_consumer_group_becomes_a_classic_group_with_its_offsets() -> None:
    world = World()
    world.consume("m")
    commit(world, "m", 2)
    with pytest.raises(errors.InconsistentGroupProtocol):
        world.join(protocol_type="connect").result()
    world.consume("m", -1)
    world.stable()
    for one in (world, world.restarted()):
        assert [(group.type.value, group.state) for group in one.groups.groups()] == [("classic", "Stable")]
        assert committed_offsets(one) == {("t", 0): 7}


def test_a_replacement_that_can_not_be_written_is_taken_back() -> None:
    world = World()
    commit_simple(world, 5)
    world.log.hold = True
    joined = world.beat_consumer("m")
    world.log.fail(KqueueError("EIO"))
    assert joined.error is not None
    assert [(one.type.value, one.state) for one in world.groups.groups()] == [("classic", "Empty")]


def test_a_group_is_deleted_when_it_is_empty() -> None:
    world = World()
    world.consume("m", regex="t.*", topics=["u"])
    commit(world, "m", 2)
    with pytest.raises(group_errors.NonEmptyGroup):
        world.groups.delete("g").result()
    world.consume("m", -1)
    world.groups.delete("g").result()
    for one in (world, world.restarted()):
        assert not one.groups.groups()
        assert not committed_offsets(one)
    assert world.groups.limits.member_bytes == 0


def test_an_unused_group_expires() -> None:
    world = World()
    world.consume("m")
    commit(world, "m", 2)
    world.consume("m", -1)
    world.advance(10080 * 60_000 + 600_000)
    assert not world.groups.groups()
    assert not world.restarted().groups.groups()
