"""Descriptions, deletion of groups, and replay after a restart."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from kqueue.base import errors
from kqueue.base.coordinators import coordinator_partition
from kqueue.groups import errors as group_errors
from kqueue.groups.classic.group import GroupDescription
from kqueue.groups.classic.member import LeavingMember
from kqueue.groups.classic.state import ClassicGroupState
from kqueue.groups.coordinator import GroupListing
from kqueue.groups.group import GroupType
from kqueue.groups.log import records
from kqueue.groups.log.records import CommittedOffset
from kqueue.groups.log.schemas import GroupMetadataValue
from kqueue.groups.offsets.offset_manager import OffsetToCommit
from kqueue.tests.golden import data_folder
from kqueue.tests.groups.log.test_records import golden, partition_count
from kqueue.tests.groups.support import HeldLog, World, commit_simple, committed_offsets, group_ids
from kqueue.tests.tables import for_each

WEEK_MS = 7 * 24 * 3_600_000
DAY_MS = 24 * 3_600_000
CHECK_MS = 600_000


# --- looking


def test_only_a_stable_group_shows_protocol_and_metadata() -> None:
    world = World()
    promise = world.join()
    world.settle()
    joined = promise.result()
    described = world.groups.describe("g")
    assert described[:3] == (ClassicGroupState.COMPLETING_REBALANCE, "consumer", "")
    assert [(member.member_id, member.metadata) for member in described.members] == [(joined.member_id, b"")]
    world.sync(joined, {joined.member_id: b"mine"})
    described = world.groups.describe("g")
    assert described[:3] == (ClassicGroupState.STABLE, "consumer", "range")
    [member] = described.members
    assert member == (joined.member_id, None, "client", "/127.0.0.1", joined.members[0].metadata, b"mine")


def test_a_simple_group_has_no_protocol() -> None:
    world = World()
    commit_simple(world)
    assert world.groups.describe("g") == GroupDescription(ClassicGroupState.EMPTY, "", "", [])
    with pytest.raises(errors.GroupIdNotFound):
        world.groups.describe("other")


@for_each(
    "states, types, expected",
    [
        ((), (), {"s", "g"}),
        (("empty",), (), {"s"}),
        (("STABLE", "Dead"), (), {"g"}),
        (("bogus",), (), set()),
        ((), ("Classic",), {"s", "g"}),
        ((), ("consumer",), set()),
        (("Empty",), ("consumer", "classic"), {"s"}),
    ],
)
def test_groups_are_listed_by_state_and_type(
    states: tuple[str, ...], types: tuple[str, ...], expected: set[str]
) -> None:
    world = World()
    commit_simple(world, group_id="s")
    world.stable()
    listed = world.groups.groups(states, types)
    assert {group.group_id for group in listed} == expected
    assert set(listed) <= {
        GroupListing("s", "", "Empty", GroupType.CLASSIC),
        GroupListing("g", "consumer", "Stable", GroupType.CLASSIC),
    }


# --- deletion


def test_a_deleted_group_is_gone_for_good() -> None:
    world = World()
    commit_simple(world, 1)
    commit_simple(world, 2, "u", 5)
    commit_simple(world, 3, group_id="other")
    world.log.hold = True
    promise = world.groups.delete("g")
    assert not promise.done
    assert committed_offsets(world) == {("t", 0): 1, ("u", 5): 2}, "as long as it is not in the log, it may come back"
    world.log.release()
    assert promise.result() is None
    assert group_ids(world) == group_ids(world.restarted()) == {"other"}
    assert committed_offsets(world) == committed_offsets(world.restarted()) == {}


def test_deletion_writes_a_tombstone_for_every_record() -> None:
    world = World()
    [leader] = world.stable()
    world.groups.leave("g", [LeavingMember(leader.member_id)])
    commit_simple(world, 1)
    world.groups.delete("g")
    left = dict(world.log.records())
    assert left == {records.group_key("g"): None, records.offset_key("g", "t", 0): None}


@for_each("there_is", [False, True])
def test_a_group_is_deleted_once(there_is: bool) -> None:
    world = World()
    if there_is:
        commit_simple(world)
        world.groups.delete("g")
    with pytest.raises(errors.GroupIdNotFound):
        world.groups.delete("g")


def test_a_group_with_members_stays() -> None:
    world = World()
    promise = world.join()
    for _ in range(2):
        with pytest.raises(group_errors.NonEmptyGroup):
            world.groups.delete("g")
        world.settle()
    world.sync(promise.result())
    with pytest.raises(group_errors.NonEmptyGroup):
        world.groups.delete("g")


def test_a_group_under_deletion_serves_nobody() -> None:
    world = World()
    commit_simple(world)
    world.log.hold = True
    world.groups.delete("g")
    calls: list[Callable[[], object]] = [
        world.join,
        lambda: world.groups.sync("g", 0, "m", None, {}),
        lambda: world.groups.heartbeat("g", 0, "m", None),
        lambda: world.groups.leave("g", [LeavingMember("m")]),
        lambda: commit_simple(world),
    ]
    for call in calls:
        with pytest.raises(errors.CoordinatorNotAvailable):
            call()
    with pytest.raises(errors.GroupIdNotFound):
        world.groups.delete("g")
    assert world.state() == "Dead"
    world.log.release()
    world.log.hold = False
    commit_simple(world, 9)
    assert committed_offsets(world) == committed_offsets(world.restarted()) == {("t", 0): 9}


def test_a_deletion_that_can_not_be_written_is_undone() -> None:
    world = World()
    commit_simple(world, 5)
    world.log.hold = True
    promise = world.groups.delete("g")
    world.log.fail(errors.StorageFailed("disk"))
    assert isinstance(promise.error, errors.NotCoordinator)
    assert world.state() == "Empty"
    assert committed_offsets(world) == {("t", 0): 5}


def test_a_deletion_that_is_undone_does_not_prolong_the_offsets_life() -> None:
    world = World()
    [leader] = world.stable()
    world.groups.commit("g", 1, leader.member_id, None, [OffsetToCommit("t", 0, 5)])
    world.groups.leave("g", [LeavingMember(leader.member_id)])
    world.advance(DAY_MS)
    world.log.hold = True
    world.groups.delete("g")
    world.log.fail(errors.StorageFailed("disk"))
    world.log.hold = False
    world.advance(WEEK_MS - DAY_MS)
    assert group_ids(world) == set()


def test_deletion_takes_back_commits_that_are_being_written() -> None:
    world = World()
    commit_simple(world, 1)
    world.log.hold = True
    commit = commit_simple(world, 2, "u")
    world.groups.delete("g")
    world.log.release()
    assert commit.result() == [None]
    assert group_ids(world) == group_ids(world.restarted()) == set()
    assert committed_offsets(world.restarted()) == {}


def test_an_id_that_was_handed_out_dies_with_its_group() -> None:
    world = World()
    with pytest.raises(errors.MemberIdRequired) as refusal:
        world.join(id_required=True)
    world.groups.delete("g")
    with pytest.raises(errors.UnknownMember):
        world.join(member_id=refusal.value.member_id)
    world.advance(20_000)
    assert group_ids(world) == set()


# --- restarts


def test_a_stable_group_goes_on_after_a_restart() -> None:
    world = World()
    leader, other = world.stable(2, session_ms=10_000)
    before = world.groups.describe("g")
    world = world.restarted()
    assert world.groups.describe("g") == before
    world.groups.heartbeat("g", 1, leader.member_id, None)
    assert world.sync(other).result().assignment == b"1"
    world.advance(9_999)
    world.groups.heartbeat("g", 1, leader.member_id, None)
    world.advance(1)
    assert [member.member_id for member in world.groups.describe("g").members] == [leader.member_id]


def test_members_that_died_with_the_broker_fall_silent() -> None:
    world = World()
    world.stable(2, session_ms=10_000)
    world = world.restarted()
    world.advance(10_000)
    assert world.state() == "Empty"


def test_a_group_that_gathers_is_what_it_was_before() -> None:
    world = World()
    leader, _ = world.stable(2)
    world.join()
    world = world.restarted()
    assert world.state() == "Stable"
    world.groups.heartbeat("g", 1, leader.member_id, None)


def test_a_new_group_is_written_before_it_has_members() -> None:
    world = World()
    world.join()
    [(key, value)] = world.log.records()
    assert key == records.group_key("g")
    assert value is not None
    assert records.read_group(value) == GroupMetadataValue(current_state_timestamp=world.clock.wall_ms())
    assert world.restarted().groups.describe("g") == GroupDescription(ClassicGroupState.EMPTY, "", "", [])


def test_a_new_group_that_can_not_be_written_sends_its_members_away() -> None:
    world = World()
    world.log.hold = True
    promise = world.join()
    world.log.fail(errors.StorageFailed("disk"))
    assert isinstance(promise.error, errors.NotCoordinator)
    assert group_ids(world) == set()
    world.advance(1_000_000)


def test_static_members_and_their_places_survive() -> None:
    world = World()
    promise = world.join(instance_id="i")
    world.settle()
    member_id = promise.result().member_id
    world.groups.sync("g", 1, member_id, "i", {member_id: b"mine"})
    world = world.restarted()
    back = world.join(instance_id="i").result()
    assert back.member_id != member_id
    assert world.groups.sync("g", 1, back.member_id, "i", {}).result().assignment == b"mine"


def test_offsets_without_a_group_make_one() -> None:
    world = World()
    commit_simple(world, 5)
    [leader] = world.stable()
    world.log.partitions = [
        [(key, value) for key, value in entries if key != records.group_key("g")] for entries in world.log.partitions
    ]
    assert leader
    world = world.restarted()
    assert world.state() == "Empty"
    assert committed_offsets(world) == {("t", 0): 5}


def test_records_of_other_group_types_are_left_alone() -> None:
    log = HeldLog(1)
    log.partitions[0] = [
        (b"\x00\x63\x00\x01g", b"anything"),
        (records.offset_key("g", "t", 0), records.offset_value(_offset(3))),
    ]
    world = World(log)
    assert committed_offsets(world) == {("t", 0): 3}


def test_a_record_that_can_not_be_read_is_named() -> None:
    log = HeldLog(1)
    log.partitions[0] = [(records.offset_key("g", "t", 0), b"\x00\x04?")]
    with pytest.raises(errors.MalformedMessage, match="partition 0 of the offsets topic"):
        World(log)


@for_each("change", [{"member_id": "i2"}, {"group_instance_id": "i1"}])
def test_members_that_can_not_be_together_are_refused(change: dict[str, str]) -> None:
    world = World()
    world.stable(2)
    [*_, (key, value)] = world.log.partitions[coordinator_partition("g", 3)]
    assert value is not None
    saved = records.read_group(value)
    for member, name in zip(saved.members, ("1", "2"), strict=True):
        member.member_id, member.group_instance_id = f"i{name}", f"i{name}"
    changed = saved.members[0] if "member_id" in change else saved.members[1]
    for name, text in change.items():
        setattr(changed, name, text)
    log = HeldLog(1)
    log.partitions[0] = [(key, records.group_value(saved))]
    with pytest.raises(errors.MalformedMessage, match="twice"):
        World(log)


def test_the_oldest_keys_count_in_their_order() -> None:
    log = HeldLog(1)
    old_key = b"\x00\x00" + records.offset_key("g", "t", 0)[2:]
    log.partitions[0] = [
        (records.offset_key("g", "t", 0), records.offset_value(_offset(1))),
        (old_key, records.offset_value(_offset(2))),
        (records.offset_key("g", "t", 0), records.offset_value(_offset(3))),
    ]
    assert committed_offsets(World(log)) == {("t", 0): 3}
    log.partitions[0].reverse()
    assert committed_offsets(World(log)) == {("t", 0): 1}


@for_each("version", ["2.8", "4.3"])
def test_kafkas_own_offsets_topic_is_taken_over(version: str) -> None:
    assert data_folder(version).exists()
    log = HeldLog(partition_count(version))
    for partition, key, value in golden(version):
        log.partitions[partition].append((key, value))
    world = World(log)
    assert committed_offsets(world, "golden-v2-gzip") == {("v2-gzip", 0): 123}
    assert world.state("golden-v2-gzip") == "Empty"


# --- sizes


def test_a_thousand_members_cost_a_thousand_times_one() -> None:
    world = World()
    joined = world.stable(1000, session_ms=60_000)
    assert len(joined[0].members) == 1000
    again = [world.join(member_id=one.member_id, session_ms=60_000) for one in joined]
    assert {promise.result().generation for promise in again} == {2}
    world.groups.leave("g", [LeavingMember(one.member_id) for one in joined])
    assert world.state() == "Empty"


def _offset(number: int) -> CommittedOffset:
    return CommittedOffset(number, -1, "", 1000)


def test_the_configuration_is_the_given_one() -> None:
    assert dataclasses.asdict(World(group_max_size=7).groups.config)["members_max"] == 7
