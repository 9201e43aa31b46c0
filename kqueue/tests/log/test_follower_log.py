"""What followers do to their logs, and power cuts at each step of it."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field

import pytest

from kqueue.base.errors import CorruptBatch, DiskFull, OffsetOutOfRange, StorageFailed
from kqueue.log.config import LogConfig
from kqueue.log.follower_log import append_replicated, restart_at
from kqueue.log.log import Log
from kqueue.log.log_state import LogState
from kqueue.log.manager import LogManager
from kqueue.storage import MemoryStorage
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.helpers import (
    START_MS,
    append,
    batch,
    check_log,
    flush,
    note_high_watermarks,
    read_records,
    run_through,
)

TOPIC_ID = bytes(range(16))
CONFIG = LogConfig.of(segment_bytes=600, index_interval_bytes=150)
KEY = ("t", 0)
NEW_START = 100


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


def test_what_a_leader_appended_is_appended_with_its_offsets_epochs_and_producers() -> None:
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
    assert log.state is LogState.ONLINE
    replicate(log, sent(0, 0, b"a"))


def test_a_log_begins_anew_above_its_end_only() -> None:
    log = open_log(MemoryStorage())
    replicate(log, sent(0, 0, b"a"))
    for offset in (0, 1):
        with pytest.raises(OffsetOutOfRange):
            restart_at(log, offset)
    assert len(read_records(log)) == 1


def test_a_log_that_began_anew_knows_nothing_of_before() -> None:
    log = open_log(MemoryStorage())
    for number in range(20):
        replicate(log, sent(number, number // 5, b"x" * 50, producer_id=3, epoch=0, base_sequence=number))
    assert len(log.segments) > 2
    restart_at(log, NEW_START)
    assert (log.start_offset, log.end_offset, log.flushed_offset) == (NEW_START,) * 3
    assert (log.epochs.entries(), len(log.producers), len(log.segments)) == ([], 0, 1)
    assert log.segments.active.base == NEW_START
    replicate(log, sent(NEW_START + 3, 7, b"y"))
    assert [record.offset for record in read_records(log)] == [NEW_START + 3]
    check_log(log)


def test_a_disk_that_fails_in_the_middle_takes_the_log_offline() -> None:
    storage = FaultyStorage()
    log = open_log(storage)
    replicate(log, sent(0, 0, b"a"))
    flush(log)
    storage.fail("create", lambda path: path.endswith(".log"))
    with pytest.raises(StorageFailed):
        restart_at(log, NEW_START)
    assert log.state is LogState.OFFLINE


@dataclass
class Follower:
    """A follower's log on a disk that may fail.

    `states`: which offsets may be found after a power cut; empty: any segments of the old log.
    """

    storage: FaultyStorage
    states: list[list[int]] = field(default_factory=lambda: [list[int]()])
    manager: LogManager | None = None

    def run(self) -> None:
        manager = self.manager = LogManager([self.storage], clock=ManualClock(START_MS), rng=random.Random(5))
        manager.create(*KEY, TOPIC_ID)
        log = manager.open(*KEY, TOPIC_ID, CONFIG)
        for number in range(12):
            self.states.append(list(range(number + 1)))
            replicate(log, sent(number, number // 5, b"x" * 90, producer_id=3, epoch=0, base_sequence=number))
            if number % 3 == 0:
                flush(log)
        flush(log)
        run_through(manager.checkpoints.write_all())
        self.states = []
        restart_at(log, NEW_START)
        self.states = [[]]
        for number in range(NEW_START, NEW_START + 8):
            self.states.append(list(range(NEW_START, number + 1)))
            replicate(log, sent(number, 7, b"y" * 90, producer_id=4, epoch=0, base_sequence=number - NEW_START))
            if number % 3 == 0:
                flush(log)
        flush(log)
        self.states = self.states[-1:]
        run_through(manager.checkpoints.write_all())
        note_high_watermarks(manager, {KEY: log.end_offset}).close()


def run_until_cut(cut_at: int | None) -> Follower:
    follower = Follower(FaultyStorage(cut_at=cut_at))
    try:
        follower.run()
    except PowerCut:
        assert cut_at is not None
    return follower


STEPS = run_until_cut(None).storage.steps


def goes_on(storage: FaultyStorage, states: list[list[int]]) -> None:
    """What is left is one of the states; the follower asks its leader again and has it all."""
    log = open_log(storage)
    assert log.damage == []
    check_log(log, forgotten=log.start_offset > 0 or log.end_offset >= NEW_START)
    found = [record.offset for record in read_records(log)]
    assert found in states if states else (found == sorted(found) and (not found or found[-1] < NEW_START))
    if log.end_offset < NEW_START:
        restart_at(log, NEW_START)
    for number in range(log.end_offset, NEW_START + 9):
        replicate(log, sent(number, 8, b"z"))
    flush(log)
    assert [record.offset for record in read_records(log)] == list(range(NEW_START, NEW_START + 9))
    check_log(log, forgotten=True)


@pytest.mark.parametrize("remains", [Remains.LOST, Remains.KEPT, Remains.TORN])
def test_a_power_cut_at_any_step_leaves_a_log_that_can_be_followed_with(remains: Remains) -> None:
    assert {"create", "remove", "truncate", "sync", "sync_folder"} <= {step.kind for step in STEPS}
    for cut_at in range(1, len(STEPS) + 1):
        follower = run_until_cut(cut_at)
        try:
            goes_on(follower.storage.after_cut(remains, random.Random(cut_at)), follower.states)
        except BaseException as error:
            error.add_note(f"cut at step {cut_at}, {STEPS[cut_at - 1]}")
            raise


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
