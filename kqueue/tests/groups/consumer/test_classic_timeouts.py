"""A classic member of a consumer group that goes on with heartbeats, but not with its rebalance."""

from __future__ import annotations

import pytest

from kqueue.base import errors
from kqueue.groups.classic.member import JoinResult, LeavingMember
from kqueue.tests.groups.consumer.test_group_conversion import must_rejoin, protocols
from kqueue.tests.groups.support import World

REBALANCE_MS = 20_000


def joined(world: World) -> JoinResult:
    """A classic member beside ``n``; its answer is the one to its last join."""
    world.consume("n")
    world.advance(1000)
    return world.join(protocols=protocols(), rebalance_ms=REBALANCE_MS).result()


def beats(world: World, member: JoinResult, ms: int) -> None:
    """Both send heartbeats for so long."""
    for _ in range(ms // 1000):
        world.advance(1000)
        current = world.consumer_group().members["n"].current
        owned = {topic: frozenset(indexes) for topic, indexes in current.assigned.items()}
        world.consume("n", current.epoch, owned=owned)
        must_rejoin(world, member)


def test_a_member_must_sync_in_time() -> None:
    world = World()
    member = joined(world)
    beats(world, member, REBALANCE_MS - 1000)
    with pytest.raises(errors.UnknownMember):
        beats(world, member, 1000)
    assert set(world.consumer_group().members) == {"n"}


def test_a_member_that_syncs_stays() -> None:
    world = World()
    member = joined(world)
    beats(world, member, REBALANCE_MS - 1000)
    world.sync(member).result()
    again = world.join(member_id=member.member_id, protocols=protocols(), rebalance_ms=REBALANCE_MS).result()
    world.sync(again).result()
    beats(world, again, 2 * REBALANCE_MS)


def test_a_member_must_join_again_in_time() -> None:
    world = World()
    member = joined(world)
    world.sync(member).result()
    world.consume("n", 2, topics=["t", "u"])
    assert must_rejoin(world, member)
    beats(world, member, REBALANCE_MS - 2000)
    again = world.join(member_id=member.member_id, protocols=protocols(), rebalance_ms=REBALANCE_MS).result()
    world.sync(again).result()
    beats(world, again, REBALANCE_MS)
    world.consume("n", world.consumer_group().members["n"].current.epoch, topics=["t"])
    assert must_rejoin(world, again)
    with pytest.raises(errors.UnknownMember):
        beats(world, again, REBALANCE_MS)


def test_a_sync_that_is_refused_starts_the_time_to_join() -> None:
    world = World()
    member = joined(world)
    world.sync(member).result()
    world.consume("n", 2, topics=["t", "u"])
    with pytest.raises(errors.RebalanceInProgress):
        world.sync(member).result()
    with pytest.raises(errors.UnknownMember):
        beats(world, member, REBALANCE_MS)


def test_a_member_that_left_is_not_missed() -> None:
    world = World()
    member = joined(world)
    group = world.consumer_group()
    assert set(group.sync_deadlines) == {member.member_id}
    world.groups.leave("g", [LeavingMember(member.member_id)])
    assert not group.sync_deadlines
