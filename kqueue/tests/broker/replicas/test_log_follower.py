"""The batches that a follower appends, and those that it refuses although its leader sent them."""

from __future__ import annotations

import struct

import pytest

from kqueue.base.errors import CorruptBatch
from kqueue.records.batch import Record
from kqueue.records.builder import build_batch
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
