"""The batches that a follower appends, and those that it refuses although its leader sent them."""

from __future__ import annotations

import dataclasses
import struct

import pytest

from kqueue.base.errors import CorruptBatch, CorruptIndex
from kqueue.broker.replicas.partition import Partition
from kqueue.log.formats.checkpoints import LOG_STARTS, decode_offsets
from kqueue.log.log_cut import RestartState
from kqueue.records.batch import Record
from kqueue.records.builder import build_batch
from kqueue.tests.broker.members import Members
from kqueue.tests.broker.replicas.test_partition import append, values
from kqueue.tests.broker.replication import MEMORY, elect, replicate, started
from kqueue.tests.tables import for_each


def corrupted(data: bytearray, position: int) -> bytearray:
    changed = bytearray(data)
    changed[position] ^= 1
    return changed


def stamped(offset: int, epoch: int, *values: bytes) -> bytearray:
    data = build_batch([Record(index, 1_700_000_000_000, None, value) for index, value in enumerate(values)])
    struct.pack_into(">q", data, 0, offset)
    struct.pack_into(">i", data, 12, epoch)
    return data


@for_each(
    "data, message",
    [
        (corrupted(stamped(1, 1, b"a"), 65), "checksum"),
        (stamped(0, 1, b"a"), "ends at 1, the leader sent a batch with offsets 0 to 0"),
        (stamped(1, 0, b"a"), "expected a batch of epoch 1 to 1, the leader sent one of 0"),
        (stamped(1, 2, b"a"), "expected a batch of epoch 1 to 1, the leader sent one of 2"),
        (stamped(2**40, 1, b"a"), "more than 2147483647 offsets"),
        (stamped(1, 1, b"a")[:-1], "cut off"),
        (bytearray(30), "header has 61 bytes"),
        (corrupted(stamped(1, 1, b"a"), 16), "magic"),
    ],
)
def test_batches_that_can_not_be_the_leaders_are_refused_and_nothing_is_appended(data: bytearray, message: str) -> None:
    members = started(MEMORY, count=2)
    elect(members, 1)
    append(members.partition(1), b"x")
    replicate(members, 2)
    follower = members.partition(2)
    with pytest.raises(CorruptBatch, match=message):
        follower.follow(1).append(memoryview(data))
    assert follower.log_end_offset == 1
    both = stamped(1, 1, b"good") + data
    with pytest.raises(CorruptBatch) if message not in ("cut off", "header has 61 bytes") else _nothing():
        follower.follow(1).append(memoryview(both))
    assert follower.log_end_offset == 2, "the batches before it are kept"


class _nothing:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


def test_gaps_that_compaction_left_are_appended_as_they_are() -> None:
    members = started(MEMORY, count=2)
    follower = members.partition(2)
    follower.follow(0).append(memoryview(stamped(5, 0, b"a") + stamped(9, 0, b"b", b"c")))
    assert follower.log_end_offset == 11
    follower.follow(0).raise_high_watermark(11)
    assert values(follower) == [b"a", b"b", b"c"]


# --- logs with a remote tier


def tiered_follower(settings: dict[str, object] | None = None) -> tuple[Members, Partition]:
    """A follower with the offsets 0 to 5, of which the local log has 3 to 5."""
    members = started(settings, count=2)
    elect(members, 1)
    follower = members.partition(2)
    for number in range(6):
        append(members.partition(1), b"%d" % number)
        replicate(members, 2)
        follower.roll()
        members.settle()
    log = follower.log
    log.config = dataclasses.replace(log.config, tiered=True)
    log.tiered_end = 3
    follower.flush.now()
    members.settle()
    assert log.delete_local(3, high_watermark=6, why="old") is not None
    assert (log.start_offset, log.local_start_offset, log.end_offset) == (0, 3, 6)
    return members, follower


def test_a_truncation_below_the_local_start_restarts_the_log_at_its_start() -> None:
    members, follower = tiered_follower()
    ended: list[object] = []
    follower.follow(1).truncate(2, ended.append)
    members.settle()
    assert ended == [None]
    log = follower.log
    assert (log.start_offset, log.local_start_offset, log.end_offset) == (0, 0, 0)
    assert (log.epochs.entries(), follower.high_watermark) == ([], 0)
    replicate(members, 2)
    assert values(follower) == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_a_truncation_within_the_local_log_leaves_what_is_below() -> None:
    members, follower = tiered_follower()
    follower.follow(1).truncate(4, lambda error: None)
    members.settle()
    log = follower.log
    assert (log.start_offset, log.local_start_offset, log.end_offset) == (0, 3, 4)


@for_each("offset", [2, 3, 6, 50])
def test_a_follower_restarts_at_the_leaders_local_start_with_the_state_of_the_tier(offset: int) -> None:
    members, follower = tiered_follower()
    ended: list[object] = []
    state = RestartState(1, [(0, 0), (1, 1)], b"")
    follower.follow(1).restart_at(offset, ended.append, state)
    members.settle()
    assert ended == [None]
    log = follower.log
    assert (log.start_offset, log.local_start_offset, log.end_offset) == (1, offset, offset)
    assert log.epochs.entries() == [(1, 1)]
    assert follower.high_watermark == offset
    follower.follow(1).append(memoryview(stamped(offset, 1, b"next")))
    assert follower.log_end_offset == offset + 1


def test_the_log_start_is_on_disk_before_a_restarted_log_is_used() -> None:
    members, follower = tiered_follower()
    starts: list[object] = []

    def ended(error: object) -> None:
        starts.append(decode_offsets(members[2].storage.read(LOG_STARTS)))

    follower.follow(1).restart_at(4, ended, RestartState(2, [(1, 0)], b""))
    members.settle()
    assert starts == [{("t", 0): 2}]


def test_a_state_of_the_tier_that_is_wrong_leaves_the_log_alone() -> None:
    members, follower = tiered_follower()
    with pytest.raises(CorruptIndex):
        follower.follow(1).restart_at(9, lambda error: None, RestartState(0, [(1, 0)], b"\0" * 10))
    members.settle()
    log = follower.log
    assert (log.start_offset, log.local_start_offset, log.end_offset, log.health.failure) == (0, 3, 6, None)


def test_what_only_the_tier_has_is_committed() -> None:
    _, follower = tiered_follower()
    assert follower.replica.committed_end(follower.log, lambda: 1) == 3
