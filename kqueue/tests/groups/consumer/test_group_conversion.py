"""Groups with members of both protocols: upgrade, life together, downgrade."""

from __future__ import annotations

from typing import Any

import pytest

from kqueue.base import errors
from kqueue.base.errors import KqueueError
from kqueue.groups import errors as group_errors
from kqueue.groups.classic.member import JoinResult, LeavingMember
from kqueue.groups.consumer.embedded_protocol import assignment_bytes, read_assignment
from kqueue.groups.log.schemas import VERSION, ConsumerProtocolSubscription, TopicPartitions
from kqueue.groups.offsets.offset_manager import OffsetToCommit
from kqueue.schema import encode
from kqueue.tests.groups.consumer.consumers import T, indexes
from kqueue.tests.groups.support import World, committed_offsets
from kqueue.tests.tables import for_each


def protocols(owned: set[int] = frozenset(), generation: int = -1) -> dict[str, bytes]:  # type: ignore[assignment]
    sent = ConsumerProtocolSubscription(topics=["t"], generation_id=generation)
    sent.owned_partitions = [TopicPartitions(topic="t", partitions=sorted(owned))] if owned else []
    return {"range": VERSION.pack(2) + encode(sent, 2)}


def classic_pair(world: World) -> list[JoinResult]:
    """Two classic members: the leader has 0 and 1 of ``t``, the other one 2 and 3."""
    promises = [world.join(protocols=protocols()) for _ in range(2)]
    world.settle()
    joined = [promise.result() for promise in promises]
    leader = next(one for one in joined if one.members)
    other = next(one for one in joined if not one.members)
    shares = [(leader, {0, 1}), (other, {2, 3})]
    made = {one.member_id: assignment_bytes(0, {T: dict.fromkeys(share, 0)}, world.topics) for one, share in shares}
    world.sync(other)
    world.sync(leader, made)
    return [leader, other]


def rejoin(world: World, member: JoinResult, owned: set[int], generation: int) -> JoinResult:
    """A classic member joins as it does when it is told to; its answer comes at once."""
    return world.join(member_id=member.member_id, protocols=protocols(owned, generation)).result()


def held(world: World, joined: JoinResult) -> set[int] | None:
    assigned = world.sync(joined).result().assignment
    return set(read_assignment(assigned, world.topics).get(T, ()))


def must_rejoin(world: World, joined: JoinResult) -> bool:
    try:
        world.groups.heartbeat("g", joined.generation, joined.member_id, None)
    except errors.RebalanceInProgress:
        return True
    return False


def together(world: World) -> tuple[list[JoinResult], int]:
    """Two classic members and ``n``: each has what the new assignment gives it."""
    leader, other = classic_pair(world)
    epoch = world.consume("n").member_epoch
    classic = []
    for member, owned in ((leader, {0, 1}), (other, {2, 3})):
        assert must_rejoin(world, member)
        joined = rejoin(world, member, owned, member.generation)
        now = held(world, joined)
        if must_rejoin(world, joined):
            joined = rejoin(world, joined, now or set(), joined.generation)
        classic.append(joined)
    assert len(indexes(world.consume("n", epoch).assigned) or ()) == 1
    return classic, world.consumer_group().members["n"].current.epoch


def test_a_member_of_the_new_protocol_upgrades_the_group() -> None:
    world = World()
    leader, other = classic_pair(world)
    world.groups.commit("g", 1, leader.member_id, None, [OffsetToCommit("t", 0, 5)])
    answer = world.consume("n")
    group = world.consumer_group()
    assert set(group.members) == {leader.member_id, other.member_id, "n"}
    assert (group.epoch, indexes(answer.assigned)) == (2, set())
    assert committed_offsets(world) == {("t", 0): 5}
    assert set(group.members[leader.member_id].current.assigned[T]) == {0, 1}, "they keep what they had"
    assert [one.type.value for one in world.restarted().groups.groups()] == ["consumer"]


def test_members_of_both_protocols_share_the_partitions() -> None:
    world = World()
    classic, _ = together(world)
    shares = [held(world, one) or set() for one in classic]
    shares.append(set(world.consumer_group().members["n"].current.assigned[T]))
    assert sorted(map(len, shares)) == [1, 1, 2]
    assert set().union(*shares) == {0, 1, 2, 3}
    assert not any(must_rejoin(world, one) for one in classic)
    assert world.consumer_group().state.value == "Stable"


def test_a_classic_member_may_join_a_consumer_group() -> None:
    world = World()
    world.consume("n")
    with pytest.raises(errors.MemberIdRequired) as refusal:
        world.join(protocols=protocols(), id_required=True)
    world.advance(1000)
    joined = world.join(member_id=refusal.value.member_id, protocols=protocols(), id_required=True).result()
    assert held(world, joined) == set(), "n still has all"
    world.consume("n", 2)
    world.consume("n", 2, owned={T: frozenset({0, 1})})
    assert must_rejoin(world, joined)
    joined = rejoin(world, joined, set(), joined.generation)
    assert held(world, joined) == {2, 3}
    offsets = [OffsetToCommit("t", 2, 1)]
    assert world.groups.commit("g", joined.generation, joined.member_id, None, offsets).result() == [None]
    with pytest.raises(errors.IllegalGeneration):
        world.groups.commit("g", 1, joined.member_id, None, offsets)


def test_the_last_member_of_the_new_protocol_downgrades_the_group() -> None:
    world = World()
    classic, epoch = together(world)
    world.consume("n", -1)
    for one in (world, world.restarted()):
        (listed,) = one.groups.groups()
        assert listed.type.value == "classic"
        assert len(one.groups.describe("g").members) == 2
    assert must_rejoin(world, classic[0]), "they share what n had"
    promises = [world.join(member_id=one.member_id, protocols=protocols()) for one in classic]
    world.settle()
    assert [promise.result().generation for promise in promises] == [epoch + 1] * 2
    assert world.groups.limits.member_bytes == sum(
        len("client") + len("range") + len(protocols()["range"]) for _ in range(2)
    )


def test_a_silent_member_of_the_new_protocol_downgrades_the_group_too() -> None:
    world = World()
    classic, _ = together(world)
    for _ in range(10):
        for one in classic:
            if world.groups.groups()[0].type.value == "consumer":
                must_rejoin(world, one)
        world.advance(5000)
    assert world.groups.groups()[0].type.value == "classic"


def test_classic_members_leave_and_fall_silent() -> None:
    world = World()
    (first, second), epoch = together(world)
    assert world.groups.leave("g", [LeavingMember(first.member_id)]).result() == [None]
    for _ in range(3):
        world.advance(5000)
        world.consume("n", epoch)
        epoch = world.consumer_group().members["n"].current.epoch
    assert set(world.consumer_group().members) == {"n"}, "a classic session has its own length"
    with pytest.raises(errors.UnknownMember):
        must_rejoin(world, second)


@for_each(
    "policy, upgrades, downgrades",
    [("disabled", False, False), ("Upgrade", True, False), ("downgrade", False, True)],
)
def test_the_policy_decides(policy: str, upgrades: bool, downgrades: bool) -> None:
    world = World(group_consumer_migration_policy=policy)
    classic_pair(world)
    if not upgrades:
        with pytest.raises(errors.GroupIdNotFound, match="is not a consumer group"):
            world.consume("n")
        assert world.groups.groups()[0].type.value == "classic"
    world = World(group_consumer_migration_policy=policy)
    world.consume("n")
    world.join(protocols=protocols()).result()
    world.consume("n", -1)
    assert world.groups.groups()[0].type.value == ("classic" if downgrades else "consumer")


def test_only_groups_of_consumers_are_converted() -> None:
    world = World()
    for group_id, options in (
        ("a", {"protocol_type": "connect"}),
        ("b", {"protocols": {"range": b"what is this"}}),
    ):
        world.join(group_id, **options)
        world.settle()
        with pytest.raises(errors.GroupIdNotFound):
            world.consume("n", group_id=group_id)
    world.consume("n")
    for options in ({"protocol_type": "connect"}, {"protocols": {"range": b"what is this"}}, {"protocols": {}}):
        with pytest.raises(errors.InconsistentGroupProtocol):
            world.join(**options).result()


def failing(world: World, step: Any) -> None:
    world.log.hold = True
    promise = step()
    world.log.fail(KqueueError("EIO"))
    world.log.hold = False
    assert promise.error is not None


def test_a_conversion_that_can_not_be_written_is_taken_back() -> None:
    world = World()
    classic_pair(world)
    size = world.groups.limits.member_bytes
    failing(world, lambda: world.beat_consumer("n"))
    assert world.groups.describe("g").state.value == "Stable"
    assert world.groups.limits.member_bytes == size
    world = World()
    together(world)
    size = world.groups.limits.member_bytes
    failing(world, lambda: world.beat_consumer("n", -1))
    assert len(world.consumer_group().members) == 3
    assert world.groups.limits.member_bytes == size


def test_a_static_classic_member_is_replaced() -> None:
    world = World()
    world.consume("n")
    world.advance(1000)
    first = world.join(instance_id="i", protocols=protocols()).result()
    again = world.join(instance_id="i", protocols=protocols()).result()
    assert again.member_id != first.member_id
    assert set(world.consumer_group().members) == {"n", again.member_id}
    with pytest.raises(errors.FencedInstanceId):
        world.groups.heartbeat("g", first.generation, first.member_id, "i")


def test_a_refused_member_leaves_the_classic_group_as_it_is() -> None:
    world = World()
    joined = world.join(instance_id="i", protocols=protocols())
    world.settle()
    with pytest.raises(group_errors.UnreleasedInstanceId):
        world.consume("n", instance_id="i")
    assert world.state() == "CompletingRebalance"
    world.groups.heartbeat("g", 1, joined.result().member_id, "i")


def test_a_group_that_is_being_converted_is_not_written_as_a_classic_one() -> None:
    world = World()
    world.join(protocols=protocols(), rebalance_ms=5000)
    world.settle()
    world.log.hold = True
    world.beat_consumer("n")
    world.advance(5000)
    world.log.hold = False
    world.log.release()
    assert [one.type.value for one in world.restarted().groups.groups()] == ["consumer"]


def test_an_upgrade_within_a_rebalance_assigns_again() -> None:
    world = World()
    world.join(protocols=protocols())
    world.settle()
    world.consume("n", topics=[])
    (classic,) = [member_id for member_id in world.consumer_group().members if member_id != "n"]
    world.advance(1000)
    world.consume("n", world.consumer_group().members["n"].current.epoch)
    assert world.consumer_group().target_of(classic) == {T: frozenset({0, 1, 2, 3})}


def test_a_classic_member_that_takes_over_the_last_static_id_downgrades_the_group() -> None:
    world = World()
    first = world.consume("n", instance_id="i")
    taken = world.join(instance_id="i", protocols=protocols()).result()
    for one in (world, world.restarted()):
        (listed,) = one.groups.groups()
        assert (listed.type.value, listed.state) == ("classic", "Stable")
        assert set(one.classic_groups()["g"].members) == {taken.member_id}
    assert taken.generation == first.member_epoch
    answer = world.groups.sync("g", taken.generation, taken.member_id, "i", {}).result()
    assert set(read_assignment(answer.assignment, world.topics)[T]) == {0, 1, 2, 3}, "it has what the other one had"
    world.groups.heartbeat("g", taken.generation, taken.member_id, "i")


def test_a_group_that_was_taken_over_within_a_rebalance_rebalances() -> None:
    world = World()
    world.consume("n", instance_id="i")
    world.advance(1000)
    other = world.join(instance_id="j", protocols=protocols()).result()
    taken = world.join(instance_id="i", protocols=protocols()).result()
    assert world.groups.groups()[0].type.value == "classic"
    assert world.state() == "PreparingRebalance"
    assert {taken.member_id, other.member_id} == set(world.classic_groups()["g"].members)


def test_a_takeover_that_can_not_be_written_leaves_the_group() -> None:
    world = World()
    world.consume("n", instance_id="i")
    failing(world, lambda: world.join(instance_id="i", protocols=protocols()))
    assert set(world.consumer_group().members) == {"n"}
    assert world.consume("n", 2, instance_id="i").member_epoch == 2
