"""The common answers of the managers of all modern types, in Kafka's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kqueue.base.errors import (
    GroupIdNotFound,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    StaleMemberEpoch,
    UnknownMember,
)
from kqueue.base.promise import Promise
from kqueue.groups.share.member import ShareHeartbeat
from kqueue.tests.groups.streams.applications import start
from kqueue.tests.groups.support import World
from kqueue.tests.tables import for_each

Beat = Callable[..., Promise[Any]]


def consumer(world: World, member_id: str = "m", epoch: int = 0) -> Promise[Any]:
    return world.beat_consumer(member_id, epoch)


def share(world: World, member_id: str = "m", epoch: int = 0) -> Promise[Any]:
    topics = ["t"] if epoch == 0 else None
    return world.groups.share.heartbeat(ShareHeartbeat("g", member_id, epoch, topics=topics))


def streams(world: World, member_id: str = "m", epoch: int = 0) -> Promise[Any]:
    return start(world, member_id, epoch)


each_type = for_each("beat", [consumer, share, streams])


@each_type
def test_a_group_that_is_missing_is_not_found(beat: Beat) -> None:
    kind = beat.__name__
    world = World()
    with pytest.raises(GroupIdNotFound, match=f"{kind.capitalize()} group g not found."):
        beat(world, epoch=3).result()
    with pytest.raises(GroupIdNotFound, match="Group g not found."):
        beat(world, epoch=-1).result()
    with pytest.raises(GroupIdNotFound, match="Group g not found."):
        getattr(world.groups, kind).describe("g").result()


@each_type
def test_a_group_of_another_type_is_not_found(beat: Beat) -> None:
    kind = beat.__name__
    world = World()
    (share if beat is not share else consumer)(world).result()
    with pytest.raises(GroupIdNotFound, match=f"Group g is not a {kind} group."):
        beat(world).result()
    with pytest.raises(GroupIdNotFound, match=f"Group g is not a {kind} group."):
        getattr(world.groups, kind).describe("g").result()


@each_type
def test_a_full_group_takes_no_more_members(beat: Beat) -> None:
    kind = beat.__name__
    world = World(**{f"group_{kind}_max_size": 1})
    beat(world).result()
    beat(world).result()
    with pytest.raises(GroupMaxSizeReached, match=f"The {kind} group has reached its maximum capacity of 1 members."):
        beat(world, "n").result()


@each_type
def test_a_silent_member_is_removed_and_the_epoch_raised(beat: Beat) -> None:
    world = World()
    beat(world).result()
    group = getattr(world.groups, beat.__name__).find("g")
    epoch = group.epoch
    world.advance(45_000)
    assert (group.is_empty, group.epoch) == (True, epoch + 1)


@each_type
def test_classic_members_do_not_join_a_group_with_other_members(beat: Beat) -> None:
    world = World()
    beat(world).result()
    with pytest.raises(InconsistentGroupProtocol):
        world.join(protocol_type="connect").result()


@each_type
def test_second_deletion_in_one_append_is_refused(beat: Beat) -> None:
    world = World()
    beat(world).result()
    beat(world, epoch=-1).result()
    world.log.hold = True
    beat(world)
    left, first, second = beat(world, epoch=-1), world.groups.delete("g"), world.groups.delete("g")
    world.log.hold = False
    world.log.release()
    assert (left.error, first.error) == (None, None)
    assert isinstance(second.error, GroupIdNotFound)
    assert not world.groups.groups()


def test_a_member_fetches_in_its_epoch_and_others_without_one() -> None:
    world = World()
    world.consume("m")
    check = world.groups.consumer.check_offset_fetch
    check("g", None, -1)
    check("g", "m", 2)
    with pytest.raises(StaleMemberEpoch):
        check("g", "m", 1)
    with pytest.raises(UnknownMember):
        check("g", None, 2)
