"""Commits of offsets, and the deletion of a topic's offsets."""

from __future__ import annotations

from typing import Any

import pytest

from kqueue.base import errors
from kqueue.groups import errors as group_errors
from kqueue.groups.classic.member import LeavingMember
from kqueue.groups.log.records import CommittedOffset
from kqueue.groups.offsets.offset_manager import OffsetToCommit
from kqueue.tests.groups.support import World, commit_simple, committed_offsets, group_ids
from kqueue.tests.tables import for_each

WEEK_MS = 7 * 24 * 3_600_000
DAY_MS = 24 * 3_600_000
CHECK_MS = 600_000


def test_a_commit_is_answered_when_it_is_in_the_log() -> None:
    world = World()
    world.log.hold = True
    promise = commit_simple(world, 7)
    assert not promise.done
    assert committed_offsets(world) == {}
    assert group_ids(world) == set()
    world.log.release()
    assert promise.result() == [None]
    assert world.woken == [promise]
    assert committed_offsets(world) == {("t", 0): 7}
    assert world.state() == "Empty"


def test_a_commit_says_all_that_is_known() -> None:
    world = World()
    topic_id = bytes(range(16))
    world.groups.commit("g", -1, "", None, [OffsetToCommit("t", 3, 7, 5, "note", topic_id)])
    expected = CommittedOffset(7, 5, "note", world.clock.wall_ms(), None, topic_id)
    assert world.groups.offsets("g") == {"t": {3: expected}}
    assert world.restarted().groups.offsets("g") == {"t": {3: expected}}


def test_old_clients_say_when_they_committed_and_how_long_it_counts() -> None:
    world = World()
    now = world.clock.wall_ms()
    world.groups.commit("g", -1, "", None, [OffsetToCommit("t", 0, 7, committed_ms=now - 50)], 1000)
    expected = CommittedOffset(7, -1, "", now - 50, now + 1000)
    assert world.groups.offsets("g") == world.restarted().groups.offsets("g") == {"t": {0: expected}}


@for_each("retention_ms, lasts", [(2**63 - 1, True), (-(2**63), False), (0, False)])
def test_a_retention_may_be_any_number(retention_ms: int, lasts: bool) -> None:
    world = World()
    commit_simple(world, 1, retention_ms=retention_ms)
    assert committed_offsets(world) == committed_offsets(world.restarted()) == {("t", 0): 1}
    world.advance(WEEK_MS + CHECK_MS)
    assert committed_offsets(world) == ({("t", 0): 1} if lasts else {})


def test_a_commit_that_can_not_be_written_changes_nothing() -> None:
    world = World()
    commit_simple(world, 1)
    world.log.hold = True
    promises = [commit_simple(world, 2), commit_simple(world, 3, group_id="other")]
    world.log.fail(errors.StorageFailed("disk"))
    assert [type(promise.error) for promise in promises] == [errors.NotCoordinator] * 2
    assert committed_offsets(world) == {("t", 0): 1}
    assert group_ids(world) == {"g"}
    world.log.hold = False
    commit_simple(world, 4)
    assert committed_offsets(world) == committed_offsets(world.restarted()) == {("t", 0): 4}


def test_commits_take_effect_in_the_order_of_the_log() -> None:
    world = World()
    world.log.hold = True
    promises = [commit_simple(world, number) for number in range(5)]
    for number in range(5):
        world.log.release(1)
        assert committed_offsets(world) == {("t", 0): number}
        assert [promise.done for promise in promises] == [True] * (number + 1) + [False] * (4 - number)


def test_too_much_metadata_is_refused_for_its_partition_alone() -> None:
    world = World(offset_metadata_max_bytes=4)
    commits = [OffsetToCommit("t", 0, 1, metadata="12345"), OffsetToCommit("t", 1, 1, metadata="1234")]
    refused, accepted = world.groups.commit("g", -1, "", None, commits).result()
    assert isinstance(refused, group_errors.OffsetMetadataTooLarge)
    assert accepted is None
    assert committed_offsets(world) == {("t", 1): 1}


def test_nothing_to_write_writes_nothing() -> None:
    world = World(offset_metadata_max_bytes=4)
    assert world.groups.commit("g", -1, "", None, []).result() == []
    [refused] = world.groups.commit("g", -1, "", None, [OffsetToCommit("t", 0, 1, metadata="12345")]).result()
    assert isinstance(refused, group_errors.OffsetMetadataTooLarge)
    assert list(world.log.records()) == []
    assert group_ids(world) == set()


def test_a_member_commits_in_its_generation() -> None:
    world = World()
    [leader] = world.stable()
    world.groups.commit("g", 1, leader.member_id, None, [OffsetToCommit("t", 0, 5)])
    assert committed_offsets(world) == {("t", 0): 5}


def test_a_member_may_commit_while_the_others_gather() -> None:
    world = World()
    [leader] = world.stable()
    world.join()
    world.groups.commit("g", 1, leader.member_id, None, [OffsetToCommit("t", 0, 5)])
    assert committed_offsets(world) == {("t", 0): 5}


def test_a_commit_shows_that_a_member_is_alive() -> None:
    world = World()
    [leader] = world.stable(session_ms=10_000)
    for _ in range(5):
        world.advance(9_000)
        world.groups.commit("g", 1, leader.member_id, None, [OffsetToCommit("t", 0, 5)])
    assert world.state() == "Stable"


@for_each(
    "changes, refusal",
    [
        ({"generation": 2}, errors.IllegalGeneration),
        ({"generation": -1}, errors.IllegalGeneration),
        ({"member_id": "x"}, errors.UnknownMember),
        ({"member_id": "x", "generation": -1}, errors.UnknownMember),
        ({"member_id": "", "generation": -1}, errors.UnknownMember),
        ({"member_id": "", "generation": -1, "instance_id": "i"}, errors.UnknownMember),
        ({"group_id": "other"}, errors.GroupIdNotFound),
    ],
)
def test_commits_to_a_group_with_members_are_for_members(changes: dict[str, Any], refusal: type[Exception]) -> None:
    world = World()
    [leader] = world.stable()
    call = {
        "group_id": "g",
        "generation": 1,
        "member_id": leader.member_id,
        "instance_id": None,
        "offsets": [OffsetToCommit("t", 0, 5)],
    }
    with pytest.raises(refusal):
        world.groups.commit(**{**call, **changes})
    assert committed_offsets(world) == {}


def test_commit_between_join_and_assignment_is_refused() -> None:
    world = World()
    promise = world.join()
    world.settle()
    with pytest.raises(errors.RebalanceInProgress):
        world.groups.commit("g", 1, promise.result().member_id, None, [OffsetToCommit("t", 0, 5)])
    with pytest.raises(errors.UnknownMember):
        commit_simple(world)


def test_anyone_commits_to_a_group_without_members() -> None:
    world = World()
    [leader] = world.stable()
    world.groups.leave("g", [LeavingMember(leader.member_id)])
    commit_simple(world, 5)
    world.groups.commit("g", -1, "whoever", None, [OffsetToCommit("t", 1, 6)])
    assert committed_offsets(world) == {("t", 0): 5, ("t", 1): 6}
    with pytest.raises(errors.UnknownMember):
        world.groups.commit("g", 2, leader.member_id, None, [OffsetToCommit("t", 0, 9)])


def test_a_deleted_topic_takes_its_offsets_along() -> None:
    world = World()
    for number in range(10):
        commit_simple(world, 1, "t", number, group_id=f"g{number}")
        commit_simple(world, 2, "u", number, group_id=f"g{number}")
    world.log.hold = True
    under_way = commit_simple(world, 3, "t", 99)
    world.groups.delete_topic("t")
    world.log.release()
    assert under_way.result() == [None]
    for reborn in (world, world.restarted()):
        assert [committed_offsets(reborn, f"g{number}") for number in range(10)] == [
            {("u", number): 2} for number in range(10)
        ]
        assert committed_offsets(reborn) == {}
    world.groups.delete_topic("nobody's")
