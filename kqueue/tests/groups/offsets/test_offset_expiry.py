"""When committed offsets and empty groups expire."""

from __future__ import annotations

import pytest

from kqueue.base import errors
from kqueue.groups.classic.member import LeavingMember
from kqueue.groups.offsets.offset_manager import OffsetToCommit
from kqueue.tests.groups.support import World, commit_simple, committed_offsets, group_ids

WEEK_MS = 7 * 24 * 3_600_000
DAY_MS = 24 * 3_600_000
CHECK_MS = 600_000


def test_a_simple_consumers_offsets_expire_after_its_commit() -> None:
    world = World()
    commit_simple(world, 1)
    world.advance(DAY_MS)
    commit_simple(world, 2, "u")
    world.advance(WEEK_MS - DAY_MS - CHECK_MS)
    assert committed_offsets(world) == {("t", 0): 1, ("u", 0): 2}
    world.advance(CHECK_MS)
    assert committed_offsets(world) == {("u", 0): 2}
    world.advance(DAY_MS)
    assert group_ids(world) == group_ids(world.restarted()) == set()
    assert committed_offsets(world.restarted()) == {}


def test_a_groups_offsets_expire_after_its_last_member_left() -> None:
    world = World()
    [leader] = world.stable(session_ms=1_800_000)
    world.groups.commit("g", 1, leader.member_id, None, [OffsetToCommit("t", 0, 5)])
    for _ in range(1000):
        world.advance(1_000_000)
        world.groups.heartbeat("g", 1, leader.member_id, None)
    world.groups.leave("g", [LeavingMember(leader.member_id)])
    world.advance(WEEK_MS - CHECK_MS)
    assert committed_offsets(world) == {("t", 0): 5}
    world.advance(2 * CHECK_MS)
    assert group_ids(world) == set()


def test_a_topic_that_is_no_longer_read_expires_though_members_are_there() -> None:
    world = World()
    [leader] = world.stable(session_ms=1_800_000)
    world.groups.commit("g", 1, leader.member_id, None, [OffsetToCommit("t", 0, 5), OffsetToCommit("left", 0, 6)])
    for _ in range(WEEK_MS // 1_000_000 + 1):
        world.advance(1_000_000)
        world.groups.heartbeat("g", 1, leader.member_id, None)
    assert committed_offsets(world) == committed_offsets(world.restarted()) == {("t", 0): 5}


def test_members_that_are_no_consumers_keep_all_offsets_while_they_are_there() -> None:
    world = World()
    [leader] = world.stable(session_ms=1_800_000, protocol_type="connect", protocols={"x": b"?"})
    world.groups.commit("g", 1, leader.member_id, None, [OffsetToCommit("t", 0, 5)])
    for _ in range(WEEK_MS // 1_000_000 + 1):
        world.advance(1_000_000)
        world.groups.heartbeat("g", 1, leader.member_id, None)
    assert committed_offsets(world) == {("t", 0): 5}


def test_a_retention_of_the_clients_own_goes_before() -> None:
    world = World()
    commit_simple(world, 1, "short", retention_ms=CHECK_MS)
    commit_simple(world, 2, "long", retention_ms=2 * WEEK_MS)
    world.advance(CHECK_MS)
    assert committed_offsets(world) == {("long", 0): 2}
    world.advance(WEEK_MS + CHECK_MS)
    assert committed_offsets(world) == {("long", 0): 2}
    world.advance(WEEK_MS)
    assert group_ids(world) == set()


def test_expiry_that_can_not_be_written_is_tried_again() -> None:
    world = World(offsets_retention_minutes=1)
    commit_simple(world, 1)
    world.log.broken = errors.StorageFailed("disk")
    world.advance(CHECK_MS)
    assert committed_offsets(world) == {("t", 0): 1}
    assert world.state() == "Empty"
    world.log.broken = None
    world.advance(CHECK_MS)
    assert group_ids(world) == set()


def test_a_group_whose_offsets_are_being_committed_does_not_expire() -> None:
    world = World(offsets_retention_minutes=1)
    commit_simple(world, 1)
    world.log.hold = True
    commit = commit_simple(world, 2, "u")
    world.advance(CHECK_MS)
    world.log.release()
    assert commit.result() == [None]
    assert committed_offsets(world) == committed_offsets(world.restarted()) == {("u", 0): 2}


def test_empty_groups_without_offsets_go_at_the_next_check_unless_somebody_is_coming() -> None:
    world = World()
    [leader] = world.stable()
    world.groups.leave("g", [LeavingMember(leader.member_id)])
    with pytest.raises(errors.MemberIdRequired):
        world.join("h", id_required=True, session_ms=1_800_000)
    world.advance(CHECK_MS)
    assert group_ids(world) == {"h"}


def test_the_check_interval_is_a_setting() -> None:
    world = World(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1000)
    commit_simple(world, 1)
    world.advance(59_999)
    assert committed_offsets(world) == {("t", 0): 1}
    world.advance(1)
    assert committed_offsets(world) == {}
