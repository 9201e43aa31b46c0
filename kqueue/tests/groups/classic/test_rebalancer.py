"""The join phase and the assignment: who is waited for, for how long, and what happens to those who
don't come.
"""

from __future__ import annotations

from typing import Any

import pytest

from kqueue.base import errors
from kqueue.base.promise import Promise
from kqueue.groups import errors as group_errors
from kqueue.groups.classic.member import JoinResult, LeavingMember
from kqueue.tests.groups.support import World
from kqueue.tests.tables import for_each


def rejoin(world: World, member: JoinResult, **options: Any) -> Promise[JoinResult]:
    return world.join("g", member.member_id, **options)


# --- the initial wait


def test_an_empty_group_waits_for_more_members() -> None:
    world = World(group_initial_rebalance_delay_ms=3000)
    first = world.join()
    world.advance(2999)
    assert not first.done
    world.advance(1)
    assert first.result().generation == 1
    assert world.woken == [first]


def test_each_newcomer_extends_the_initial_wait_once_more() -> None:
    world = World(group_initial_rebalance_delay_ms=3000)
    promises = [world.join()]
    for _ in range(3):
        world.advance(2500)
        promises.append(world.join())
        assert not any(promise.done for promise in promises)
    world.advance(5000)
    assert {promise.result().generation for promise in promises} == {1}
    assert len(promises[0].result().members) == 4


def test_the_initial_wait_ends_with_the_rebalance_timeout() -> None:
    world = World(group_initial_rebalance_delay_ms=3000)
    first = world.join(rebalance_ms=7000)
    for _ in range(6):
        world.advance(1000)
        world.join(rebalance_ms=7000)
        assert not first.done
    world.advance(1000)
    assert first.done
    assert world.clock.monotonic_ms() == 7000


def test_a_group_that_was_emptied_waits_anew() -> None:
    world = World(group_initial_rebalance_delay_ms=3000)
    first = world.join()
    world.advance(3000)
    world.sync(first.result())
    world.groups.leave("g", [LeavingMember(first.result().member_id)])
    assert world.state() == "Empty"
    second = world.join()
    world.advance(2999)
    assert not second.done
    world.advance(1)
    assert second.result().generation == 3


def test_everybody_may_leave_during_the_initial_wait() -> None:
    world = World(group_initial_rebalance_delay_ms=3000)
    member_id = world.enter()
    [outcome] = world.groups.leave("g", [LeavingMember(member_id)]).result()
    assert outcome is None
    assert world.state() == "PreparingRebalance"
    world.advance(3000)
    assert world.state() == "Empty"


# --- the join phase


def test_members_have_their_longest_rebalance_timeout_to_join_again() -> None:
    world = World()
    leader, other = world.stable(2, session_ms=1_000_000, rebalance_ms=30_000)
    new = world.join(rebalance_ms=40_000)
    again = rejoin(world, leader, rebalance_ms=20_000, session_ms=1_000_000)
    world.advance(39_999)
    assert not new.done
    world.advance(1)
    assert new.result().generation == 2
    assert [member.member_id for member in again.result().members] == [leader.member_id, new.result().member_id]
    with pytest.raises(errors.UnknownMember):
        world.groups.heartbeat("g", 2, other.member_id, None)


def test_the_phase_ends_as_soon_as_everybody_has_joined() -> None:
    world = World()
    leader, other = world.stable(2)
    promises = [world.join(), rejoin(world, leader)]
    assert not any(promise.done for promise in promises)
    promises.append(rejoin(world, other))
    assert {promise.result().generation for promise in promises} == {2}
    assert [bool(promise.result().members) for promise in promises] == [False, True, False]
    assert world.state() == "CompletingRebalance"


def test_only_the_leader_is_told_of_the_members() -> None:
    world = World()
    leader, *followers = world.stable(3)
    assert [member.member_id for member in leader.members] == [
        leader.member_id,
        *(other.member_id for other in followers),
    ]
    assert all(other.members == [] and other.leader == leader.member_id for other in followers)


def test_another_leads_if_the_leader_does_not_come_back() -> None:
    world = World()
    leader, other = world.stable(2, session_ms=1_000_000)
    world.groups.heartbeat("g", 1, leader.member_id, None)
    again = rejoin(world, other, protocols={"range": b"changed"})
    world.advance(60_000)
    assert again.result().leader == other.member_id
    assert len(again.result().members) == 1


def test_someone_who_was_given_an_id_is_waited_for() -> None:
    world = World()
    [leader] = world.stable()
    with pytest.raises(errors.MemberIdRequired) as refusal:
        world.join(id_required=True)
    again = rejoin(world, leader)
    assert not again.done
    pending = world.join(member_id=refusal.value.member_id)
    assert again.result().generation == pending.result().generation == 2


def test_someone_who_was_given_an_id_is_waited_for_no_longer_than_its_session() -> None:
    world = World()
    [leader] = world.stable(session_ms=60_000)
    with pytest.raises(errors.MemberIdRequired) as refusal:
        world.join(id_required=True, session_ms=8_000)
    again = rejoin(world, leader)
    world.advance(7_999)
    assert not again.done
    world.advance(1)
    assert again.result().generation == 2
    with pytest.raises(errors.UnknownMember):
        world.join(member_id=refusal.value.member_id)


def test_second_join_fails_the_first_one() -> None:
    world = World()
    leader, other = world.stable(2)
    first = rejoin(world, other, protocols={"range": b"x"})
    second = rejoin(world, other, protocols={"range": b"x"})
    assert isinstance(first.error, errors.RebalanceInProgress)
    rejoin(world, leader)
    assert second.result().generation == 2


def test_static_members_that_do_not_come_back_stay_until_their_session_ends() -> None:
    world = World()
    [joined] = world.stable(instance_id="i", session_ms=50_000, rebalance_ms=20_000)
    new = world.join(rebalance_ms=20_000)
    world.advance(20_000)
    assert [member.member_id for member in new.result().members] == [joined.member_id, new.result().member_id]
    assert new.result().leader == new.result().member_id


def test_a_group_of_absent_static_members_waits_for_their_sessions() -> None:
    world = World()
    static, gone = (
        world.stable(1, instance_id="i", session_ms=50_000, rebalance_ms=20_000)[0],
        world.join(session_ms=6_000),
    )
    gone_id = next(member.member_id for member in world.groups.describe("g").members if member.instance_id is None)
    world.groups.leave("g", [LeavingMember(gone_id)])
    assert isinstance(gone.error, errors.UnknownMember)
    world.advance(45_000)
    assert world.state() == "PreparingRebalance"
    with pytest.raises(errors.RebalanceInProgress):
        world.groups.heartbeat("g", 1, static.member_id, "i")
    world.advance(49_999)
    assert world.state() == "PreparingRebalance"
    world.advance(1)
    assert world.state() == "Empty"


# --- the assignment


def test_assignments_pass_through_untouched() -> None:
    world = World()
    promises = [world.join() for _ in range(3)]
    world.settle()
    first, second, third = (promise.result() for promise in promises)
    waiting = [world.sync(second), world.sync(third)]
    assert not any(promise.done for promise in waiting)
    lead = world.sync(first, {first.member_id: b"\x00\xff", second.member_id: b"", "stranger": b"x"})
    assert [promise.result().assignment for promise in (lead, *waiting)] == [b"\x00\xff", b"", b""]
    assert world.state() == "Stable"


def test_assignment_is_not_visible_before_it_is_in_the_log() -> None:
    world = World()
    world.log.hold = True
    promise = world.join()
    world.settle()
    sync = world.sync(promise.result(), {promise.result().member_id: b"a"})
    assert not sync.done
    assert world.state() == "CompletingRebalance"
    world.log.release()
    assert sync.result().assignment == b"a"
    assert world.state() == "Stable"


@for_each(
    "failure, outcome",
    [(errors.StorageFailed("disk"), errors.NotCoordinator), (errors.RecordTooLarge("big"), errors.KqueueError)],
)
def test_an_assignment_that_can_not_be_written_is_nobodys(
    failure: errors.KqueueError, outcome: type[errors.KqueueError]
) -> None:
    world = World()
    leader, other = world.stable(2)
    again = [rejoin(world, leader), rejoin(world, other)]
    world.log.hold = True
    promises = [world.sync(again[1].result()), world.sync(again[0].result(), {leader.member_id: b"new"})]
    world.log.fail(failure)
    assert [type(promise.error) for promise in promises] == [outcome, outcome]
    assert world.state() == "PreparingRebalance"
    world.log.hold = False
    again = [rejoin(world, other), rejoin(world, leader)]
    assert again[1].result().generation == 3
    world.sync(again[1].result(), {other.member_id: b"third"})
    assert world.sync(again[0].result()).result().assignment == b"third"


def test_an_assignment_written_too_late_is_dropped() -> None:
    world = World()
    leader, other = world.stable(2)
    again = [rejoin(world, leader), rejoin(world, other)]
    world.log.hold = True
    stale = world.sync(again[0].result(), {other.member_id: b"stale"})
    new = world.join()
    assert isinstance(stale.error, errors.RebalanceInProgress)
    rejoin(world, leader)
    rejoin(world, other)
    assert new.result().generation == 3
    world.log.release()
    assert world.state() == "CompletingRebalance"
    assert all(member.assignment == b"" for member in world.groups.describe("g").members)


def test_a_rebalance_sends_those_who_wait_for_their_assignment_back() -> None:
    world = World()
    leader, other = world.stable(2)
    again = [rejoin(world, leader), rejoin(world, other)]
    waiting = world.sync(again[1].result())
    world.join()
    assert isinstance(waiting.error, errors.RebalanceInProgress)
    with pytest.raises(errors.RebalanceInProgress):
        world.sync(again[0].result())


def test_a_stable_member_gets_its_assignment_as_often_as_it_asks() -> None:
    world = World()
    leader, other = world.stable(2)
    assert [world.sync(other).result().assignment for _ in range(2)] == [b"1", b"1"]
    assert world.sync(leader, {other.member_id: b"too late"}).result().assignment == b"0"
    assert world.sync(other).result().assignment == b"1"


def test_second_sync_fails_the_first_one() -> None:
    world = World()
    leader, other = world.stable(2)
    again = [rejoin(world, leader), rejoin(world, other)]
    first, second = world.sync(again[1].result()), world.sync(again[1].result())
    assert isinstance(first.error, errors.RebalanceInProgress)
    world.sync(again[0].result(), {other.member_id: b"x"})
    assert second.result().assignment == b"x"


def test_member_without_a_sync_in_time_is_removed() -> None:
    world = World()
    promises = [world.join(session_ms=1_000_000, rebalance_ms=30_000) for _ in range(3)]
    world.settle()
    leader, second, third = (promise.result() for promise in promises)
    world.sync(second)
    world.sync(leader)
    assert world.state() == "Stable"
    world.advance(29_999)
    assert len(world.groups.describe("g").members) == 3
    world.advance(1)
    assert world.state() == "PreparingRebalance"
    assert [member.member_id for member in world.groups.describe("g").members] == [leader.member_id, second.member_id]
    with pytest.raises(errors.UnknownMember):
        world.sync(third)


def test_a_leader_that_never_assigns_is_out() -> None:
    world = World()
    promises = [world.join(session_ms=1_000_000, rebalance_ms=30_000) for _ in range(2)]
    world.settle()
    leader, other = (promise.result() for promise in promises)
    waiting = world.sync(other)
    world.advance(30_000)
    assert isinstance(waiting.error, errors.RebalanceInProgress)
    again = rejoin(world, other)
    assert again.result().leader == other.member_id
    assert leader.member_id not in [member.member_id for member in again.result().members]


def test_sync_timeout_ends_once_all_have_synced() -> None:
    world = World()
    world.stable(3, session_ms=1_000_000, rebalance_ms=30_000)
    world.advance(500_000)
    assert world.state() == "Stable"


@for_each(
    "changes, refusal",
    [
        ({"generation": 2}, errors.IllegalGeneration),
        ({"generation": 0}, errors.IllegalGeneration),
        ({"member_id": "x"}, errors.UnknownMember),
        ({"instance_id": "i"}, errors.UnknownMember),
        ({"protocol_type": "connect"}, errors.InconsistentGroupProtocol),
        ({"protocol_name": "rr"}, errors.InconsistentGroupProtocol),
        ({"group_id": "other"}, errors.UnknownMember),
        ({"group_id": ""}, group_errors.InvalidGroupId),
    ],
)
def test_sync_is_refused(changes: dict[str, Any], refusal: type[Exception]) -> None:
    world = World()
    [leader] = world.stable()
    call = {"group_id": "g", "generation": 1, "member_id": leader.member_id, "instance_id": None, "assignments": {}}
    with pytest.raises(refusal):
        world.groups.sync(**{**call, **changes})
    world.groups.sync(**call, protocol_type="consumer", protocol_name="range")
