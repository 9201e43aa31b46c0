"""Offsets committed in transactions: pending until the marker, then committed or gone."""

from __future__ import annotations

from typing import Any

import pytest

from kqueue.base import errors
from kqueue.base.coordinators import coordinator_partition
from kqueue.groups import errors as group_errors
from kqueue.groups.classic.member import LeavingMember
from kqueue.groups.limits import GroupLimits
from kqueue.groups.log.group_log import EndMarker, TransactionalProducer
from kqueue.groups.log.records import CommittedOffset
from kqueue.groups.offsets.offset_manager import OffsetToCommit
from kqueue.groups.offsets.pending_offsets import PendingOffsets
from kqueue.tests.groups import support
from kqueue.tests.groups.support import (
    PARTITIONS,
    World,
    commit_simple,
    commit_transactional,
    committed_offsets,
    end_transaction,
    group_ids,
    unlimited,
)
from kqueue.tests.tables import for_each

WEEK_MS = 7 * 24 * 3_600_000
CHECK_MS = 600_000
OFFSET = CommittedOffset(5, -1, "", 0)
PRODUCER = TransactionalProducer(7, 0)


def is_pending(world: World, topic: str = "t", partition: int = 0, group_id: str = "g") -> bool:
    return support.is_pending(world.groups, group_id, topic, partition)


def test_an_offset_is_committed_by_the_marker() -> None:
    world = World()
    assert commit_transactional(world, 5).result() == [None]
    for seen in (world, world.restarted()):
        assert committed_offsets(seen) == {}
        assert is_pending(seen)
        assert seen.state() == "Empty", "the group exists from its first pending offset on"
    end_transaction(world)
    for seen in (world, world.restarted()):
        assert committed_offsets(seen) == {("t", 0): 5}
        assert not is_pending(seen)


def test_an_aborted_offset_leaves_nothing() -> None:
    world = World()
    commit_simple(world, 4)
    commit_transactional(world, 5)
    end_transaction(world, committed=False)
    for seen in (world, world.restarted()):
        assert committed_offsets(seen) == {("t", 0): 4}
        assert not is_pending(seen)
    assert world.groups.limits.offset_bytes == world.restarted().groups.limits.offset_bytes == 200


def test_a_restart_with_an_open_transaction_waits_for_its_marker() -> None:
    world = World()
    commit_transactional(world, 5)
    commit_transactional(world, 6, partition=1)
    commit_simple(world, 4, partition=1)
    world = world.restarted()
    assert committed_offsets(world) == {("t", 1): 4}
    assert is_pending(world, partition=1)
    end_transaction(world)
    assert committed_offsets(world) == committed_offsets(world.restarted()) == {("t", 0): 5, ("t", 1): 4}


def test_a_marker_completes_only_the_partition_of_the_log_that_it_is_in() -> None:
    world = World()
    for group_id in ("g", "h"):
        commit_transactional(world, 5, group_id=group_id)
    end_transaction(world, group_id="h")
    assert not is_pending(world, group_id="h")
    assert committed_offsets(world, "h") == {("t", 0): 5}
    assert is_pending(world)
    assert committed_offsets(world) == {}


def test_a_later_plain_commit_is_not_taken_back_by_the_marker() -> None:
    world = World()
    commit_transactional(world, 5)
    commit_simple(world, 9)
    assert is_pending(world), "until the marker a consumer that asks for stable offsets does not get it"
    end_transaction(world)
    assert committed_offsets(world) == committed_offsets(world.restarted()) == {("t", 0): 9}


def test_the_commit_is_pending_when_it_is_in_the_log() -> None:
    world = World()
    world.log.hold = True
    promise = commit_transactional(world, 5)
    assert not promise.done
    assert not is_pending(world)
    world.log.release()
    assert promise.result() == [None]
    assert world.woken == [promise]
    assert is_pending(world)


@for_each(
    "failure, expected",
    [
        (errors.InvalidProducerEpoch("fenced"), errors.InvalidProducerEpoch),
        (errors.InvalidTransactionState("none"), errors.InvalidTransactionState),
        (errors.StorageFailed("disk"), errors.NotCoordinator),
        (errors.RecordTooLarge("big"), group_errors.InvalidCommitOffsetSize),
    ],
)
def test_a_commit_that_can_not_be_written_changes_nothing(
    failure: errors.KqueueError, expected: type[Exception]
) -> None:
    world = World()
    world.log.broken = failure
    promise = commit_transactional(world, 5)
    assert isinstance(promise.error, expected)
    assert not is_pending(world)
    assert world.groups.limits.offset_bytes == 0


# --- who may commit


def commit_as(world: World, generation: int, member_id: str, instance_id: str | None = None) -> Any:
    offsets = [OffsetToCommit("t", 0, 5)]
    return world.groups.commit_in_transaction("g", PRODUCER, generation, member_id, instance_id, offsets)


def test_a_member_commits_with_its_generation() -> None:
    world = World()
    [leader] = world.stable()
    assert commit_as(world, 1, leader.member_id).result() == [None]
    with pytest.raises(errors.IllegalGeneration):
        commit_as(world, 2, leader.member_id)
    with pytest.raises(errors.IllegalGeneration):
        commit_as(world, -1, leader.member_id)
    with pytest.raises(errors.UnknownMember):
        commit_as(world, 1, "who")
    with pytest.raises(errors.UnknownMember):
        commit_as(world, 1, "")


def test_a_producer_that_names_no_member_may_commit_for_a_group_with_members() -> None:
    world = World()
    world.stable()
    assert commit_as(world, -1, "").result() == [None]


def test_a_static_member_that_was_replaced_is_fenced() -> None:
    world = World()
    first = world.join(instance_id="i")
    world.settle()
    world.sync(first.result(), {first.result().member_id: b"1"})
    world.join(instance_id="i")
    world.settle()
    with pytest.raises(errors.FencedInstanceId):
        commit_as(world, 1, first.result().member_id, "i")


def test_a_group_that_is_missing_has_no_generation() -> None:
    world = World()
    with pytest.raises(errors.IllegalGeneration):
        commit_as(world, 3, "m")
    with pytest.raises(group_errors.InvalidGroupId):
        world.groups.commit_in_transaction("", PRODUCER, -1, "", None, [])
    assert group_ids(world) == set()


def test_a_commit_is_taken_while_the_assignment_is_missing_and_extends_no_session() -> None:
    world = World()
    joining = world.join(session_ms=10_000)
    world.settle()
    member_id = joining.result().member_id
    assert commit_as(world, 1, member_id).result() == [None]
    world.sync(joining.result(), {member_id: b"1"})
    world.advance(9_000)
    commit_as(world, 1, member_id)
    world.advance(1_500)
    with pytest.raises(errors.UnknownMember):
        world.groups.heartbeat("g", 1, member_id, None)


# --- deletion and expiry


def test_a_deleted_group_takes_its_pending_offsets_along() -> None:
    world = World()
    commit_simple(world, 4, partition=1)
    commit_transactional(world, 5)
    assert world.groups.delete("g").result() is None
    assert group_ids(world) == group_ids(world.restarted()) == set()
    assert not is_pending(world)
    commit_transactional(world, 6, partition=2)  # the transaction goes on
    end_transaction(world)
    assert committed_offsets(world) == committed_offsets(world.restarted()) == {("t", 2): 6}


def test_offset_delete_removes_what_is_pending() -> None:
    world = World()
    commit_transactional(world, 5)
    assert world.groups.delete_offsets("g", [("t", 0), ("t", 1)]).result() == [None, None]
    end_transaction(world)
    assert committed_offsets(world) == committed_offsets(world.restarted()) == {}
    assert world.groups.limits.offset_bytes == 0


def test_a_deleted_topic_takes_its_pending_offsets_along() -> None:
    world = World()
    commit_transactional(world, 5)
    commit_transactional(world, 6, topic="u")
    world.groups.delete_topic("t")
    end_transaction(world)
    assert committed_offsets(world) == committed_offsets(world.restarted()) == {("u", 0): 6}


def test_neither_the_offset_nor_the_group_expires_while_a_transaction_is_open() -> None:
    world = World()
    commit_simple(world, 4)
    commit_simple(world, 3, "other")
    commit_transactional(world, 5)
    world.advance(WEEK_MS + CHECK_MS)
    assert committed_offsets(world) == {("t", 0): 4}
    assert group_ids(world) == {"g"}
    end_transaction(world, committed=False)
    world.advance(CHECK_MS)
    assert group_ids(world) == group_ids(world.restarted()) == set()


def test_a_group_of_pending_offsets_alone_outlives_its_members() -> None:
    world = World()
    [leader] = world.stable()
    commit_as(world, 1, leader.member_id)
    world.groups.leave("g", [LeavingMember(leader.member_id)])
    world.advance(2 * CHECK_MS)
    assert group_ids(world) == {"g"}
    end_transaction(world, committed=False)
    world.advance(CHECK_MS)
    assert group_ids(world) == set()


# --- bounds


def test_pending_offsets_count_as_memory() -> None:
    world = World(kqueue_max_offsets_bytes=400)
    assert commit_transactional(world, 1).result() == [None]
    assert commit_transactional(world, 1, partition=1).result() == [None]
    [refusal] = commit_transactional(world, 1, partition=2).result()
    assert isinstance(refusal, group_errors.InvalidCommitOffsetSize)
    assert commit_transactional(world, 2).result() == [None], "the same transaction may commit it again"
    end_transaction(world)
    assert world.groups.limits.offset_bytes == 400
    assert commit_simple(world, 3).result() == [None]


def test_many_offsets_are_completed_in_slices() -> None:
    world = World()
    count = 3000
    offsets = [OffsetToCommit("t", index, index) for index in range(count)]
    world.groups.commit_in_transaction("g", PRODUCER, -1, "", None, offsets)
    work = world.groups._offsets.complete_transaction(coordinator_partition("g", PARTITIONS), 7, committed=True)
    for _ in range(100):
        next(work)
    assert len(committed_offsets(world)) == 100
    assert sum(is_pending(world, partition=index) for index in range(count)) == count - 100
    for _ in work:
        pass
    assert len(committed_offsets(world)) == count


def test_all_is_given_back() -> None:
    limits: GroupLimits = unlimited()
    pending = PendingOffsets(limits)
    pending.add(0, 7, "g", ("t", 0), OFFSET)
    pending.add(0, 7, "g", ("t", 0), OFFSET._replace(metadata="m" * 100))
    pending.add(0, 8, "g", ("t", 0), OFFSET)
    pending.add(1, 7, "h", ("t", 0), OFFSET)
    assert pending.find(0, 7, "g", ("t", 0)) == OFFSET._replace(metadata="m" * 100)
    assert limits.offset_bytes == 700
    assert [one.committed for one in pending.complete(0, 7, committed=False)] == [None]
    assert pending.keys("g") == {("t", 0)}
    assert pending.keys_of_topic("t") == {"g": {("t", 0)}, "h": {("t", 0)}}
    pending.discard("g", ("t", 0))
    assert pending.keys("g") == set()
    assert [one.committed for one in pending.complete(1, 7, committed=True)] == [OFFSET]
    assert limits.offset_bytes == 0
    assert not pending.is_pending("h", ("t", 0))


@for_each("is_read", [False, True])
@for_each("committed", [False, True])
def test_a_transaction_that_ends_while_the_group_is_loaded_is_completed(is_read: bool, committed: bool) -> None:
    """The coordinator of transactions may write a marker while the replay is on its way."""
    world = World()
    commit_transactional(world, 5)
    partition = coordinator_partition("g", PARTITIONS)
    entries = list(world.log.partitions[partition])
    world = World()
    world.groups.begin_loading(partition)
    load = world.groups.load(partition, entries + [EndMarker(7, committed)] * is_read)
    next(load)
    world.groups.complete_transaction(7, partition, committed)
    for _ in load:
        pass
    assert not is_pending(world)
    assert committed_offsets(world) == ({("t", 0): 5} if committed else {})
