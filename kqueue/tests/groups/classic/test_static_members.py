"""Static members that join again: who keeps the instance id, the assignment and the generation."""

from __future__ import annotations

import pytest

from kqueue.base import errors
from kqueue.tests.groups.support import World, beat, stable_static


def test_a_follower_that_comes_back_keeps_its_assignment_without_a_rebalance() -> None:
    world = World()
    leader, other = stable_static(world)
    back = world.join(instance_id="j").result()
    assert back.member_id != other.member_id
    assert (back.generation, back.leader, back.members, back.skip_assignment) == (1, leader.member_id, [], False)
    assert world.state() == "Stable"
    assert world.groups.sync("g", 1, back.member_id, "j", {}).result().assignment == b"j"
    assert [member.member_id for member in world.restarted().groups.describe("g").members] == [
        leader.member_id,
        back.member_id,
    ]


def test_a_leader_that_comes_back_leads_without_assigning() -> None:
    world = World()
    _, other = stable_static(world)
    back = world.join(instance_id="i").result()
    assert (back.leader, back.skip_assignment) == (back.member_id, True)
    assert {member.instance_id for member in back.members} == {"i", "j"}
    assert world.groups.sync("g", 1, back.member_id, "i", {other.member_id: b"ignored"}).result().assignment == b"i"
    assert world.groups.sync("g", 1, other.member_id, "j", {}).result().assignment == b"j"


def test_an_old_leader_that_comes_back_does_not_learn_that_it_leads() -> None:
    world = World()
    leader, _ = stable_static(world)
    back = world.join(instance_id="i", can_skip=False).result()
    assert (back.leader, back.members, back.skip_assignment) == (leader.member_id, [], False)
    assert world.groups.sync("g", 1, back.member_id, "i", {}).result().assignment == b"i"


def test_coming_back_begins_a_new_session() -> None:
    world = World()
    leader, _ = stable_static(world, session_ms=10_000)
    world.advance(9_000)
    beat(world, leader, instance_id="i")
    back = world.join(instance_id="j", session_ms=10_000).result()
    world.advance(9_000)
    beat(world, leader, instance_id="i")
    beat(world, back, instance_id="j")


def test_the_former_holder_of_an_instance_is_fenced() -> None:
    world = World()
    leader, _ = stable_static(world)
    world.join(instance_id="i")
    for call in (
        lambda: beat(world, leader, instance_id="i"),
        lambda: world.groups.sync("g", 1, leader.member_id, "i", {}),
        lambda: world.join(member_id=leader.member_id, instance_id="i"),
        lambda: world.groups.commit("g", 1, leader.member_id, "i", []),
    ):
        with pytest.raises(errors.FencedInstanceId):
            call()
    with pytest.raises(errors.UnknownMember):
        beat(world, leader)


def test_waiting_join_is_fenced_by_a_new_holder_of_the_instance_id() -> None:
    world = World()
    stable_static(world)
    waiting = world.join(instance_id="k")
    taking = world.join(instance_id="k")
    assert isinstance(waiting.error, errors.FencedInstanceId)
    assert not taking.done


def test_waiting_sync_is_fenced_by_a_new_holder_of_the_instance_id() -> None:
    world = World()
    promises = [world.join(instance_id=name) for name in "ij"]
    world.settle()
    leader, other = (promise.result() for promise in promises)
    waiting = world.groups.sync("g", 1, other.member_id, "j", {})
    back = world.join(instance_id="j")
    assert isinstance(waiting.error, errors.FencedInstanceId)
    assert not back.done, "the leader knows the old id only, so everybody has to join again"
    again = world.join(member_id=leader.member_id, instance_id="i")
    assert {member.member_id for member in again.result().members} == {leader.member_id, back.result().member_id}


def test_a_static_member_that_comes_back_with_another_protocol_rebalances_if_that_changes_the_groups() -> None:
    world = World()
    both = {"range": b"", "rr": b""}
    stable_static(world, protocols=both)
    assert world.join(instance_id="j", protocols={"range": b"new", "rr": b""}).done
    assert world.state() == "Stable"
    assert not world.join(instance_id="j", protocols={"rr": b""}).done
    assert world.state() == "PreparingRebalance"


def test_a_return_that_can_not_be_written_is_undone() -> None:
    world = World()
    leader, other = stable_static(world)
    world.log.hold = True
    back = world.join(instance_id="i", protocols={"range": b"new"}, session_ms=20_000)
    world.log.fail(errors.StorageFailed("disk"))
    assert isinstance(back.error, errors.NotCoordinator)
    beat(world, leader, instance_id="i")
    described = world.groups.describe("g")
    assert {member.member_id for member in described.members} == {leader.member_id, other.member_id}
    assert b"new" not in {member.metadata for member in described.members}


def test_a_return_that_is_written_too_late_is_what_a_restart_finds() -> None:
    world = World()
    _, other = stable_static(world)
    world.log.hold = True
    back = world.join(instance_id="i")
    world.advance(5_000)
    assert isinstance(back.error, errors.CoordinatorNotAvailable)
    world.log.release()
    world.log.hold = False
    members = {member.member_id for member in world.groups.describe("g").members}
    assert other.member_id in members
    assert {member.member_id for member in world.restarted().groups.describe("g").members} == members
    assert world.join(instance_id="i").result().generation == other.generation


def test_a_return_is_answered_by_the_rebalance_that_overtakes_it() -> None:
    world = World()
    leader, _ = stable_static(world)
    world.log.hold = True
    back = world.join(instance_id="j")
    new = world.join(instance_id="k")
    world.log.release()
    assert not back.done
    world.join(member_id=leader.member_id, instance_id="i")
    assert back.result().generation == new.result().generation == 2


def test_a_second_return_before_the_first_is_written_rebalances() -> None:
    world = World()
    leader, _ = stable_static(world)
    world.log.hold = True
    first, second = world.join(instance_id="j"), world.join(instance_id="j")
    assert isinstance(first.error, errors.FencedInstanceId)
    assert world.state() == "PreparingRebalance"
    world.log.release()
    assert not second.done
    world.join(member_id=leader.member_id, instance_id="i")
    assert second.result().generation == 2


def test_a_return_that_took_long_to_write_is_watched_again() -> None:
    world = World(offsets_commit_timeout_ms=60_000)
    leader, _ = stable_static(world, session_ms=10_000)
    world.log.hold = True
    back = world.join(instance_id="j", session_ms=10_000)
    for _ in range(3):
        world.advance(9_000)
        beat(world, leader, instance_id="i")
    world.log.release()
    assert back.result().generation == 1
    world.advance(9_000)
    beat(world, leader, instance_id="i")
    world.advance(1_000)
    assert [member.instance_id for member in world.groups.describe("g").members] == ["i"]
