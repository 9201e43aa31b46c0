"""Cuts of a follower's log, and power cuts at each step of them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.log.log import Log
from kqueue.log.log_cut import LogCut
from kqueue.log.log_state import LogState
from kqueue.log.manager import LogManager
from kqueue.storage import MemoryStorage
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.helpers import START_MS, check_log, flush, note_high_watermarks, read_records, run_through
from kqueue.tests.log.test_follower_log import CONFIG, KEY, TOPIC_ID, open_log, replicate, sent
from kqueue.tests.thorough import corners, parts

NEW_START = 100


def cut(log: Log, offset: int, *, restarts: bool = False) -> None:
    """Cut as a broker does, without other threads."""
    made = LogCut(log, offset, restarts=restarts)
    made.begin()
    if log.on_truncate is not None:
        log.on_truncate(log.start_offset)  # writes the recovery point
    made.lock()
    try:
        made.run()
    except StorageFailed as error:
        made.end(error)
        raise
    assert made.end(None) is None


def restart_at(log: Log, offset: int) -> None:
    cut(log, offset, restarts=True)


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
    assert log.health.state is LogState.OFFLINE


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
        assert len(log.segments) - sum(segment.base <= 4 for segment in log.segments) >= 2, "it cuts several"
        self.states = [list(range(count)) for count in range(4, 13)]
        cut(log, 4)
        self.states = [list(range(4))]
        for number in range(4, 12):
            self.states.append(list(range(number + 1)))
            replicate(log, sent(number, 3, b"w" * 90, producer_id=3, epoch=0, base_sequence=number))
        flush(log)
        self.states = self.states[-1:]
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
    offsets = [record.offset for record in read_records(log)]
    assert offsets in states if states else (offsets == sorted(offsets) and (not offsets or offsets[-1] < NEW_START))
    if log.end_offset < NEW_START:
        restart_at(log, NEW_START)
    for number in range(log.end_offset, NEW_START + 9):
        replicate(log, sent(number, 8, b"z"))
    flush(log)
    assert [record.offset for record in read_records(log)] == list(range(NEW_START, NEW_START + 9))
    check_log(log, forgotten=True)


@parts(6)
@pytest.mark.parametrize("remains", corners(Remains, Remains.LOST, Remains.TORN))
def test_a_power_cut_at_any_step_leaves_a_log_that_can_be_followed_with(remains: Remains, part: slice) -> None:
    assert {"create", "remove", "truncate", "sync", "sync_folder"} <= {step.kind for step in STEPS}
    for cut_at in range(1, len(STEPS) + 1)[part]:
        follower = run_until_cut(cut_at)
        try:
            goes_on(follower.storage.after_cut(remains, random.Random(cut_at)), follower.states)
        except BaseException as error:
            error.add_note(f"cut at step {cut_at}, {STEPS[cut_at - 1]}")
            raise
