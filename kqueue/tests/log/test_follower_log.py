"""The appends of followers to their logs."""

from __future__ import annotations

import random
import struct

import pytest

from kqueue.base.errors import CorruptBatch, DiskFull
from kqueue.log.config import LogConfig
from kqueue.log.follower_log import append_replicated
from kqueue.log.log import Log
from kqueue.log.log_state import LogState
from kqueue.log.manager import LogManager
from kqueue.storage import MemoryStorage
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.helpers import (
    START_MS,
    append,
    batch,
    check_log,
    read_records,
)

TOPIC_ID = bytes(range(16))
CONFIG = LogConfig.of(segment_bytes=600, index_interval_bytes=150)
KEY = ("t", 0)


def sent(offset: int, leader_epoch: int, *values: bytes, **settings: object) -> bytearray:
    """A batch as a leader sends it."""
    data = batch(*values, **settings)
    struct.pack_into(">q", data, 0, offset)
    struct.pack_into(">i", data, 12, leader_epoch)
    return data


def replicate(log: Log, *batches: bytearray, epoch: int = 9) -> int:
    return append_replicated(log, memoryview(b"".join(batches)), epoch)


def open_log(storage: MemoryStorage | FaultyStorage) -> Log:
    manager = LogManager([storage], clock=ManualClock(START_MS), rng=random.Random(5))
    return manager.open(*KEY, TOPIC_ID, CONFIG)


def test_replicated_batches_keep_offsets_epochs_and_producers() -> None:
    log = open_log(MemoryStorage())
    first = sent(0, 1, b"a", b"b", producer_id=5, epoch=0, base_sequence=0)
    second = sent(7, 3, b"c")
    assert replicate(log, first, second) == len(first) + len(second)
    assert [(record.offset, record.value) for record in read_records(log)] == [(0, b"a"), (1, b"b"), (7, b"c")]
    assert (log.end_offset, log.epochs.entries()) == (8, [(1, 0), (3, 7)])
    assert log.producers.by_id[5].batches[-1].last_offset == 1
    check_log(log)


def test_an_incomplete_batch_at_the_end_is_left_for_the_next_fetch() -> None:
    log = open_log(MemoryStorage())
    whole, cut = sent(0, 0, b"a"), sent(1, 0, b"b")
    for length in range(1, len(cut)):
        assert replicate(log, whole, cut[:length]) == len(whole)
        log.truncate_to(0)
    with pytest.raises(CorruptBatch):
        replicate(log, cut[:-1])


def test_a_full_disk_is_an_error_that_passes() -> None:
    storage = FaultyStorage()
    log = open_log(storage)
    storage.fail("append", lambda path: path.endswith(".log"), number=28)
    with pytest.raises(DiskFull):
        replicate(log, sent(0, 0, b"a"))
    storage.mend()
    assert log.health.state is LogState.ONLINE
    replicate(log, sent(0, 0, b"a"))


def test_appends_of_a_leader_and_a_follower_make_the_same_files() -> None:
    leader, follower = MemoryStorage(), MemoryStorage()
    one, other = open_log(leader), open_log(follower)
    for number in range(15):
        append(one, b"v" * 40, leader_epoch=number // 4, producer_id=2, epoch=0, base_sequence=number)
        replicate(other, sent(number, number // 4, b"v" * 40, producer_id=2, epoch=0, base_sequence=number))
    for log in (one, other):
        log.close()
    names = sorted(entry.name for entry in leader.list("t-0"))
    assert names == sorted(entry.name for entry in follower.list("t-0"))
    for name in names:
        mine, theirs = leader.open(f"t-0/{name}"), follower.open(f"t-0/{name}")
        assert mine.read_at(0, mine.size) == theirs.read_at(0, theirs.size), name
