"""Who may come, how long silence is borne, how static members come back, and how members go."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kqueue.base import errors
from kqueue.base.promise import Promise
from kqueue.groups import errors as group_errors
from kqueue.groups.classic.member import JoinResult, LeavingMember
from kqueue.tests.groups.support import World, beat, stable_static
from kqueue.tests.tables import for_each

ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")


# --- coming


def test_a_dynamic_newcomer_gets_an_id_to_come_back_with() -> None:
    world = World()
    with pytest.raises(errors.MemberIdRequired) as refusal:
        world.join(id_required=True)
    member_id = refusal.value.member_id
    assert member_id.startswith("client-")
    assert ID.match(member_id.removeprefix("client-"))
    assert world.state() == "Empty"
    promise = world.join(member_id=member_id, id_required=True)
    world.settle()
    assert promise.result().member_id == member_id


def test_old_clients_are_taken_in_at_once() -> None:
    world = World()
    promise = world.join(id_required=False)
    world.settle()
    assert ID.match(promise.result().member_id.removeprefix("client-"))


def test_a_static_newcomer_needs_no_second_request_and_is_named_after_its_instance() -> None:
    world = World()
    promise = world.join(instance_id="i", id_required=True)
    world.settle()
    assert ID.match(promise.result().member_id.removeprefix("i-"))


def test_ids_come_from_the_given_randomness() -> None:
    assert World(seed=5).enter() == World(seed=5).enter()
    assert World(seed=5).enter() != World(seed=6).enter()


@for_each("session_ms", [5_999, 1_800_001, 0, -1, 2**31 - 1])
def test_session_timeouts_have_bounds(session_ms: int) -> None:
    with pytest.raises(group_errors.InvalidSessionTimeout):
        World().join(session_ms=session_ms)


@for_each("session_ms", [6_000, 1_800_000])
def test_the_bounds_themselves_are_allowed(session_ms: int) -> None:
    World().join(session_ms=session_ms)


def test_a_group_needs_a_name() -> None:
    with pytest.raises(group_errors.InvalidGroupId):
        World().join("")


@for_each("options", [{"protocols": {}}, {"protocol_type": ""}])
def test_a_first_member_without_protocol_is_refused_and_leaves_no_group(options: dict[str, Any]) -> None:
    world = World()
    with pytest.raises(errors.InconsistentGroupProtocol):
        world.join(**options)
    with pytest.raises(errors.GroupIdNotFound):
        world.groups.describe("g")
    assert list(world.log.records()) == []


@for_each("options", [{"protocols": {"rr": b""}}, {"protocol_type": "connect"}, {"protocols": {}}])
def test_a_member_that_fits_nobody_is_refused(options: dict[str, Any]) -> None:
    world = World()
    world.stable()
    with pytest.raises(errors.InconsistentGroupProtocol):
        world.join(**options)
    assert world.state() == "Stable"


def test_strangers_with_an_id_are_refused() -> None:
    world = World()
    with pytest.raises(errors.UnknownMember):
        world.join(member_id="x")
    world.stable()
    with pytest.raises(errors.UnknownMember):
        world.join(member_id="x")
    with pytest.raises(errors.UnknownMember):
        world.join(member_id="x", instance_id="i")


def test_an_id_handed_out_to_a_dynamic_member_makes_no_static_one() -> None:
    world = World()
    with pytest.raises(errors.MemberIdRequired) as refusal:
        world.join(id_required=True)
    with pytest.raises(errors.UnknownMember):
        world.join(member_id=refusal.value.member_id, instance_id="i")


# --- joining again


def test_a_follower_that_joins_again_unchanged_is_told_where_it_stands() -> None:
    world = World()
    _, other = world.stable(2)
    assert world.join(member_id=other.member_id).result() == other
    assert world.state() == "Stable"


def test_a_lost_answer_is_given_again_while_the_assignment_is_made() -> None:
    world = World()
    promise = world.join()
    world.settle()
    assert world.join(member_id=promise.result().member_id).result() == promise.result()


def test_a_follower_with_other_metadata_rebalances() -> None:
    world = World()
    _, other = world.stable(2)
    assert not world.join(member_id=other.member_id, protocols={"range": b"other"}).done
    assert world.state() == "PreparingRebalance"


def test_a_leader_that_joins_again_wants_a_new_assignment() -> None:
    world = World()
    [leader] = world.stable()
    assert world.join(member_id=leader.member_id).result().generation == 2
    assert world.state() == "CompletingRebalance"


def test_new_timeouts_are_taken_over() -> None:
    world = World()
    [leader] = world.stable(session_ms=10_000)
    again = world.join(member_id=leader.member_id, session_ms=50_000)
    world.sync(again.result())
    world.advance(49_999)
    beat(world, again.result())


# --- room


def test_a_full_group_takes_nobody_new() -> None:
    world = World(group_max_size=2)
    _, other = world.stable(2)
    with pytest.raises(errors.GroupMaxSizeReached):
        world.join()
    with pytest.raises(errors.GroupMaxSizeReached):
        world.join(id_required=True)
    assert world.join(member_id=other.member_id).result() == other
    world.groups.leave("g", [LeavingMember(other.member_id)])
    world.join()


def test_room_is_counted_by_those_who_have_joined() -> None:
    world = World(group_max_size=2)
    promises = [world.join(), world.join()]
    with pytest.raises(errors.GroupMaxSizeReached):
        world.join()
    world.settle()
    assert len(promises[0].result().members) == 2


def test_someone_with_an_id_who_comes_too_late_is_not_waited_for() -> None:
    world = World(group_max_size=2)
    with pytest.raises(errors.MemberIdRequired) as refusal:
        world.join(id_required=True)
    leader, other = (world.join() for _ in range(2))
    world.settle()
    assert leader.result().members
    with pytest.raises(errors.GroupMaxSizeReached):
        world.join(member_id=refusal.value.member_id)
    again = [world.join(member_id=leader.result().member_id), world.join(member_id=other.result().member_id)]
    world.sync(again[0].result())
    assert world.state() == "Stable"


def test_a_group_too_big_for_new_limits_gathers_anew_and_the_last_lose_their_place() -> None:
    world = World()
    members = world.stable(3)
    world = world.restarted(group_max_size=2)
    assert world.state() == "PreparingRebalance"
    promises = [world.join(member_id=member.member_id) for member in members[:2]]
    assert not any(promise.done for promise in promises)
    with pytest.raises(errors.GroupMaxSizeReached):
        world.join(member_id=members[2].member_id)
    assert {promise.result().generation for promise in promises} == {2}


# --- staying


def test_silence_ends_a_session() -> None:
    world = World()
    leader, _ = world.stable(2, session_ms=10_000)
    world.advance(9_999)
    beat(world, leader)
    world.advance(1)
    with pytest.raises(errors.RebalanceInProgress):
        beat(world, leader)
    assert [member.member_id for member in world.groups.describe("g").members] == [leader.member_id]
    for _ in range(5):
        world.advance(9_999)
        with pytest.raises(errors.RebalanceInProgress):
            beat(world, leader)


def test_the_last_member_that_falls_silent_leaves_the_group_empty() -> None:
    world = World()
    world.stable(session_ms=10_000)
    world.advance(9_999)
    assert world.state() == "Stable"
    world.advance(1)
    assert world.state() == "Empty"
    assert world.restarted().state() == "Empty"


def test_waiting_for_an_answer_is_no_silence() -> None:
    world = World()
    leader, other = world.stable(2, session_ms=10_000, rebalance_ms=300_000)
    again = world.join(member_id=other.member_id, protocols={"range": b"x"})
    for _ in range(20):
        world.advance(9_000)
        with pytest.raises(errors.RebalanceInProgress):
            beat(world, leader)
    world.join(member_id=leader.member_id)
    assert again.result().generation == 2
    world.advance(9_999)
    beat(world, again.result())


def test_a_newcomer_that_never_hears_its_id_is_forgotten_in_time() -> None:
    world = World()
    [leader] = world.stable(session_ms=10_000, rebalance_ms=1_000_000)
    promise = world.join(rebalance_ms=1_000_000)
    for _ in range(33):
        world.advance(9_000)
        with pytest.raises(errors.RebalanceInProgress):
            beat(world, leader)
    assert not promise.done
    world.advance(3_000)
    assert isinstance(promise.error, errors.UnknownMember)


def test_waiting_for_the_assignment_is_no_silence_either() -> None:
    world = World()
    promises = [world.join(session_ms=10_000, rebalance_ms=300_000) for _ in range(2)]
    world.settle()
    leader, other = (promise.result() for promise in promises)
    waiting = world.sync(other)
    for _ in range(10):
        world.advance(9_000)
        beat(world, leader)
    world.sync(leader, {other.member_id: b"x"})
    assert waiting.result().assignment == b"x"
    world.advance(9_999)
    beat(world, other)


@for_each(
    "changes, refusal",
    [
        ({"generation": 2}, errors.IllegalGeneration),
        ({"generation": -1}, errors.IllegalGeneration),
        ({"member_id": "x"}, errors.UnknownMember),
        ({"member_id": "x", "generation": 7}, errors.UnknownMember),
        ({"instance_id": "i"}, errors.UnknownMember),
        ({"group_id": "x"}, errors.UnknownMember),
        ({"group_id": ""}, group_errors.InvalidGroupId),
    ],
)
def test_heartbeats_of_strangers_are_refused(changes: dict[str, Any], refusal: type[Exception]) -> None:
    world = World()
    [leader] = world.stable()
    with pytest.raises(refusal):
        world.groups.heartbeat(
            **{"group_id": "g", "generation": 1, "member_id": leader.member_id, "instance_id": None, **changes}
        )


def test_an_id_that_was_only_handed_out_has_no_heart_yet() -> None:
    world = World()
    with pytest.raises(errors.MemberIdRequired) as refusal:
        world.join(id_required=True)
    with pytest.raises(errors.UnknownMember):
        world.groups.heartbeat("g", 0, refusal.value.member_id, None)


# --- going


def test_leaving_member_is_removed_at_once() -> None:
    world = World()
    leader, other = world.stable(2)
    assert world.groups.leave("g", [LeavingMember(leader.member_id)]).result() == [None]
    assert world.state() == "PreparingRebalance"
    again: Promise[JoinResult] = world.join(member_id=other.member_id)
    assert (again.result().generation, again.result().leader) == (2, other.member_id)


def test_several_leave_each_with_an_answer() -> None:
    world = World()
    leader, other = stable_static(world)
    outcomes = world.groups.leave(
        "g",
        [
            LeavingMember("x"),
            LeavingMember("", "i"),
            LeavingMember("", "nobody"),
            LeavingMember(""),
            LeavingMember(leader.member_id, "j"),
            LeavingMember(other.member_id, "j"),
            LeavingMember(other.member_id, "j"),
        ],
    ).result()
    unknown = errors.UnknownMember
    assert [type(outcome) for outcome in outcomes] == [
        unknown,
        type(None),
        unknown,
        unknown,
        errors.FencedInstanceId,
        type(None),
        unknown,
    ]
    assert world.state() == "Empty"
    assert world.groups.describe("g").protocol_type == "consumer"


def test_leaving_an_unknown_group_is_an_error() -> None:
    world = World()
    assert [
        type(outcome) for outcome in world.groups.leave("g", [LeavingMember("x"), LeavingMember("y", "i")]).result()
    ] == [errors.UnknownMember] * 2
    with pytest.raises(group_errors.InvalidGroupId):
        world.groups.leave("", [LeavingMember("x")])


def test_pending_member_leaves_without_a_rebalance() -> None:
    world = World()
    world.stable()
    with pytest.raises(errors.MemberIdRequired) as refusal:
        world.join(id_required=True)
    assert world.groups.leave("g", [LeavingMember(refusal.value.member_id)]).result() == [None]
    assert world.state() == "Stable"
    with pytest.raises(errors.UnknownMember):
        world.join(member_id=refusal.value.member_id)


def test_leaving_pending_member_completes_the_join_phase() -> None:
    world = World()
    [leader] = world.stable()
    with pytest.raises(errors.MemberIdRequired) as refusal:
        world.join(id_required=True)
    again = world.join(member_id=leader.member_id)
    assert not again.done
    world.groups.leave("g", [LeavingMember(refusal.value.member_id)])
    assert again.result().generation == 2


def test_leave_fails_the_members_waiting_join() -> None:
    world = World()
    leader, other = world.stable(2)
    joining = world.join(member_id=other.member_id, protocols={"range": b"x"})
    world.groups.leave("g", [LeavingMember(other.member_id)])
    assert isinstance(joining.error, errors.UnknownMember)
    again = world.join(member_id=leader.member_id)
    new = world.join()
    again = world.join(member_id=leader.member_id)
    syncing = world.sync(new.result())
    world.groups.leave("g", [LeavingMember(new.result().member_id)])
    assert isinstance(syncing.error, errors.UnknownMember)
    assert again.done
