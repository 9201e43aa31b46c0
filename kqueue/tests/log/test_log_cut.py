"""Cuts of a follower's log, and power cuts at each step of them."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import random
from dataclasses import dataclass, field

import pytest

from kqueue.base.errors import CorruptIndex, DiskFull, StorageFailed, TooManyOpenFiles
from kqueue.log.formats.producer_snapshot import encode_snapshot
from kqueue.log.log import Log
from kqueue.log.log_cut import LogCut, RestartState
from kqueue.log.log_state import LogState
from kqueue.log.manager import LogManager
from kqueue.storage import MemoryStorage
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.helpers import (
    START_MS,
    check_log,
    flush,
    keep_producers,
    note_high_watermarks,
    read_records,
    run_through,
)
from kqueue.tests.log.test_follower_log import CONFIG, KEY, TOPIC_ID, replicate, sent
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import corners, parts

NEW_START = 100


def cut(log: Log, offset: int) -> None:
    """Truncate as a broker does, without other threads."""
    made = LogCut(log, offset)
    made.begin()
    if log.on_truncate is not None:
        log.on_truncate(log.start_offset)  # writes the recovery point
    finish(made)


def finish(made: LogCut) -> None:
    """Cut, when the checkpoints are on the disk."""
    made.lock()
    try:
        made.run()
    except StorageFailed as error:
        made.end(error)
        raise
    assert made.end(None) is None


def restart_with(manager: LogManager, log: Log, offset: int, state: RestartState | None) -> None:
    """Restart a log as a broker does."""
    made = LogCut(log, offset, restarts=True, state=state)
    made.begin()
    saved: list[BaseException | None] = []
    manager.checkpoints.save_log_starts(KEY, saved.append)
    assert saved == [None]
    finish(made)


def opened(storage: MemoryStorage | FaultyStorage) -> tuple[LogManager, Log]:
    manager = LogManager([storage], clock=ManualClock(START_MS), rng=random.Random(5))
    return manager, manager.open(*KEY, TOPIC_ID, CONFIG)


def test_a_log_that_began_anew_knows_nothing_of_before() -> None:
    manager, log = opened(MemoryStorage())
    for number in range(20):
        replicate(log, sent(number, number // 5, b"x" * 50, producer_id=3, epoch=0, base_sequence=number))
    assert len(log.segments) > 2
    restart_with(manager, log, NEW_START, None)
    assert (log.start_offset, log.end_offset, log.flushed_offset) == (NEW_START,) * 3
    assert (log.epochs.entries(), len(log.producers), len(log.segments)) == ([], 0, 1)
    assert log.segments.active.base == NEW_START
    replicate(log, sent(NEW_START + 3, 7, b"y"))
    assert [record.offset for record in read_records(log)] == [NEW_START + 3]
    check_log(log)


def test_a_disk_that_fails_in_the_middle_takes_the_log_offline() -> None:
    storage = FaultyStorage()
    manager, log = opened(storage)
    replicate(log, sent(0, 0, b"a"))
    flush(log)
    storage.fail("create", lambda path: path.endswith(".log"))
    with pytest.raises(StorageFailed):
        restart_with(manager, log, NEW_START, None)
    assert log.health.state is LogState.OFFLINE


# --- logs with a remote tier

TIERED = dataclasses.replace(CONFIG, tiered=True)
EPOCHS = [(0, 0), (2, 40), (6, 70), (7, NEW_START), (9, 150)]


def snapshot_at(offset: int) -> bytes:
    """What the tier knows of producers at an offset: one, with an open transaction."""
    source = Log.open(MemoryStorage(), "s-0", CONFIG, ManualClock(START_MS))
    replicate(source, sent(0, 0, b"a", producer_id=8, epoch=1, base_sequence=5, transactional=True))
    return encode_snapshot(source.producers)


def tiered_log(storage: MemoryStorage | FaultyStorage, first: int = 0, count: int = 20) -> tuple[LogManager, Log]:
    """A follower's flushed log of several segments, which begins at `first`."""
    manager = LogManager([storage], clock=ManualClock(START_MS), rng=random.Random(5))
    log = manager.open(*KEY, TOPIC_ID, TIERED)
    if first:
        restart_with(manager, log, first, RestartState(0, [(0, 0)], b""))
    for number in range(first, first + count):
        batch = sent(number, number // 5 + 1, b"x" * 50, producer_id=3, epoch=0, base_sequence=number)
        replicate(log, batch, epoch=1000)
    flush(log)
    run_through(manager.checkpoints.write_all())
    assert len(log.segments) > 2
    return manager, log


@for_each("first", [0, 60, 90, NEW_START, 150])
@for_each("start", [0, 45, NEW_START])
def test_a_tiered_log_restarts_with_the_state_of_the_tier(first: int, start: int) -> None:
    storage = MemoryStorage()
    manager, log = tiered_log(storage, first)
    restart_with(manager, log, NEW_START, RestartState(start, EPOCHS, snapshot_at(NEW_START)))
    assert log.tiered_end == NEW_START
    run_through(manager.checkpoints.write_all())
    for again in (log, manager_log(storage, manager)):
        assert (again.start_offset, again.local_start_offset, again.end_offset) == (start, NEW_START, NEW_START)
        assert again.flushed_offset == NEW_START
        assert (
            again.epochs.entries()
            == {
                0: [(0, 0), (2, 40), (6, 70)],
                45: [(2, 45), (6, 70)],
                NEW_START: [],
            }[start]
        )
        assert list(again.producers.by_id) == [8]
        assert again.producers.by_id[8].transaction_offset == 0
        assert again.damage == []
    replicate(again, sent(NEW_START, 7, b"y", producer_id=8, epoch=1, base_sequence=6, transactional=True))
    assert [record.offset for record in read_records(again)] == [NEW_START]


def manager_log(storage: MemoryStorage, before: LogManager) -> Log:
    """The log as a start after a crash of the process opens it."""
    before.abandon()
    return LogManager([storage], clock=ManualClock(START_MS), rng=random.Random(5)).open(*KEY, TOPIC_ID, TIERED)


@for_each(
    "state",
    [
        RestartState(NEW_START + 1, [], b""),
        RestartState(-1, [], b""),
        RestartState(0, [(1, 0), (1, 5)], b""),
        RestartState(0, [(1, 5), (2, 0)], b""),
        RestartState(0, [(-5, 0)], b""),
        RestartState(0, [], b"no snapshot"),
        RestartState(0, [], snapshot_at(NEW_START)[:-1]),
    ],
)
def test_a_state_that_is_wrong_is_refused_before_anything_changes(state: RestartState) -> None:
    _, log = tiered_log(MemoryStorage())
    with pytest.raises(CorruptIndex):
        LogCut(log, NEW_START, state=state)
    assert (log.start_offset, log.end_offset, log.health.failure) == (0, 20, None)


def test_a_restart_that_is_given_up_leaves_the_log_start_as_it_was() -> None:
    _, log = tiered_log(MemoryStorage())
    log.advance_start(3)
    made = LogCut(log, NEW_START, state=RestartState(50, [], b""))
    made.begin()
    made.lock()
    made.cancel()
    assert (log.pending_start_offset, log.start_offset, log.flushed_offset) == (3, 3, 20)
    replicate(log, sent(20, 30, b"y"), epoch=1000)


@for_each("file, kind", [(".snapshot", "append"), ("100.log", "create"), ("leader-epoch-checkpoint", "create")])
def test_a_restart_that_finds_no_room_leaves_a_log_that_is_recovered_from_its_files(file: str, kind: str) -> None:
    storage = FaultyStorage()
    manager, _ = tiered_log(storage)
    manager.close()  # a clean stop is no reason to trust what the cut leaves
    manager = LogManager([storage], clock=ManualClock(START_MS), rng=random.Random(5))
    log, state = manager.open(*KEY, TOPIC_ID, TIERED), RestartState(0, EPOCHS, snapshot_at(NEW_START))
    storage.fail(kind, lambda path: file in path, number=errno.ENOSPC)
    with pytest.raises(DiskFull):
        restart_with(manager, log, NEW_START, state)
    assert log.health.state is LogState.OFFLINE
    manager.give_up(*KEY)
    assert manager.unrecovered() == [KEY]
    assert manager.log_to_recover(*KEY, TOPIC_ID, TIERED)[1].checkpoint.clean is False
    storage.mend()
    log = manager.open(*KEY, TOPIC_ID, TIERED)
    assert (log.damage, log.start_offset) == ([], 0)
    restart_with(manager, log, NEW_START, state)
    assert (log.local_start_offset, log.end_offset) == (NEW_START, NEW_START)
    assert log.epochs.entries() == [(0, 0), (2, 40), (6, 70)]


def test_a_cut_that_finds_no_room_leaves_no_name_of_a_segment_that_was_deleted() -> None:
    storage = FaultyStorage()
    manager, log = tiered_log(storage)
    log.tiered_end = 20
    keep_producers(log, 20)
    assert log.delete_local(10, high_watermark=20, why="old") is not None
    start = log.local_start_offset
    storage.fail("truncate", lambda path: path.startswith("t-0/"), number=errno.EMFILE)
    with pytest.raises(TooManyOpenFiles):
        cut(log, start + 1)
    storage.mend()
    manager.give_up(*KEY)
    assert manager.open(*KEY, TOPIC_ID, TIERED).local_start_offset == start


def test_a_restart_takes_the_name_of_a_segment_whose_deletion_waits() -> None:
    storage = MemoryStorage()
    manager, log = tiered_log(storage)
    log.tiered_end = 20
    second = log.segments[1].base
    keep_producers(log, 20)
    deleted = log.delete_local(20, high_watermark=20, why="old")
    assert deleted is not None
    assert second < log.local_start_offset
    restart_with(manager, log, second, RestartState(0, [(0, 0)], b""))
    replicate(log, sent(second, 7, b"y"))
    flush(log)
    deleted.rename()
    deleted.remove()
    again = manager_log(storage, manager)
    assert [record.offset for record in read_records(again)] == [second]
    assert again.damage == []


@dataclass
class Restart:
    """A restart at `NEW_START` of a log that begins at `first`, and what may remain of it."""

    storage: FaultyStorage
    first: int
    start: int
    began: int = 0

    def run(self) -> None:
        manager, log = tiered_log(self.storage, self.first)
        log.advance_start(self.first + 2)
        run_through(manager.checkpoints.write_all())
        self.began = len(self.storage.steps)
        restart_with(manager, log, NEW_START, RestartState(self.start, EPOCHS, snapshot_at(NEW_START)))


def is_reachable_again(log: Log) -> bool:
    """Whether the follower's next fetch tells that it has to restart: it is outside of the leader's
    log, which begins at `NEW_START` and ends at 160, or its last epoch ends elsewhere there.
    """
    latest = log.epochs.latest
    after = next((start for epoch, start in EPOCHS if epoch > latest), 160)
    return not NEW_START <= log.end_offset <= 160 or latest not in dict(EPOCHS) or after < log.end_offset


@parts(6)
@pytest.mark.parametrize("remains", corners(Remains, Remains.TORN))
@for_each("first", [0, 60, 90, NEW_START, 150])
@for_each("start", [0, 45, NEW_START])
def test_a_power_cut_at_any_step_of_a_restart_leaves_the_old_log_the_new_one_or_an_empty_one(
    first: int, start: int, remains: Remains, part: slice
) -> None:
    whole = Restart(FaultyStorage(), first, start)
    whole.run()
    for cut_at in range(whole.began + 1, len(whole.storage.steps) + 2)[part]:
        restart = Restart(FaultyStorage(cut_at=cut_at), first, start)
        with contextlib.suppress(PowerCut):
            restart.run()
        storage = restart.storage.after_cut(remains, random.Random(cut_at))
        manager = LogManager([storage], clock=ManualClock(START_MS), rng=random.Random(5))
        log = manager.open(*KEY, TOPIC_ID, TIERED)
        try:
            check_log(log, forgotten=True)
            assert log.damage == []
            offsets = [record.offset for record in read_records(log)]
            assert offsets == list(range(log.local_start_offset, log.end_offset)), "old records without a gap, or none"
            assert not offsets or first <= offsets[0], "old ones"
            is_new = log.segments.base_offset == log.end_offset == NEW_START and log.epochs.latest in (-1, 6)
            if is_new and log.epochs.latest == 6:
                assert list(log.producers.by_id) == [8]
                assert log.start_offset == min(start, first + 20)
            assert is_new or offsets or is_reachable_again(log)
            restart_with(manager, log, NEW_START, RestartState(start, EPOCHS, snapshot_at(NEW_START)))
            replicate(log, sent(NEW_START, 7, b"z"))
            flush(log)
            assert [record.offset for record in read_records(log)] == [NEW_START]
        except BaseException as error:
            error.add_note(f"cut at step {cut_at}, {whole.storage.steps[min(cut_at, len(whole.storage.steps)) - 1]}")
            raise


# --- power cuts of logs without one


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
        self.states = [*self.states[-1:], list(range(2, 12))]
        log.advance_start(2)  # within the first segment, of which a cut leaves nothing
        run_through(manager.checkpoints.write_all())
        self.states = []
        restart_with(manager, log, NEW_START, None)
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
    manager, log = opened(storage)
    assert log.damage == []
    check_log(log, forgotten=log.start_offset > 0 or log.end_offset >= NEW_START)
    offsets = [record.offset for record in read_records(log)]
    assert offsets in states if states else (offsets == sorted(offsets) and (not offsets or offsets[-1] < NEW_START))
    if log.end_offset < NEW_START:
        restart_with(manager, log, NEW_START, None)
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
