"""The power is cut at every step that a log and its manager make on the disk, in turn; then all is
opened again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from kqueue.base.names import uuid_text
from kqueue.log.config import LogConfig
from kqueue.log.log import Log
from kqueue.log.manager import LogManager
from kqueue.records.batch import ABORT, COMMIT, Record
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.helpers import (
    START_MS,
    append,
    check_log,
    end_transaction,
    flush,
    note_high_watermarks,
    read_records,
    run_through,
)
from kqueue.tests.thorough import corners, parts

TOPIC_ID = bytes(range(16))
CONFIG = LogConfig.of(segment_bytes=1200, index_interval_bytes=150)
KEY = ("t", 0)


@dataclass
class World:
    """A broker's logs on a disk that may fail, and what must be true of them.

    `records`: all that was appended and not cut off again; `allowed`: other ends that the log may
    have, while a truncation is under way; `starts`: the least and the greatest offset at which it
    may start, while segments are dropped.
    """

    storage: FaultyStorage
    records: list[Record] = field(default_factory=list)
    flushed: int = 0
    allowed: int | None = None
    starts: tuple[int, int] = (0, 0)
    manager: LogManager | None = None

    def start(self) -> LogManager:
        self.manager = LogManager([self.storage], clock=ManualClock(START_MS), rng=random.Random(5))
        return self.manager

    @property
    def log(self) -> Log:
        assert self.manager is not None
        log = self.manager.open(*KEY, TOPIC_ID, CONFIG)
        log.on_flushed = lambda: setattr(self, "flushed", max(self.flushed, log.flushed_offset))
        return log

    def append(self, count: int, **settings: object) -> None:
        log = self.log
        values = [b"%d-%d;" % (log.end_offset, number) * 12 for number in range(count)]
        time_ms = START_MS + log.end_offset * 10
        # what a batch is appended as counts from the moment the write begins: any part of it may be
        # on the disk
        base = log.end_offset
        self.records += [Record(base + number, time_ms + number, None, value) for number, value in enumerate(values)]
        append(log, *values, time_ms=time_ms, **settings)  # type: ignore[arg-type]

    def end(self, kind: int, producer_id: int) -> None:
        log = self.log
        self.records.append(Record(log.end_offset, START_MS, b"marker", None))
        end_transaction(log, kind, producer_id, leader_epoch=log.epochs.latest)

    def drop(self, offset: int) -> None:
        assert self.manager is not None
        log = self.log
        dropped = log.delete_before(offset, high_watermark=log.flushed_offset, why="old")
        assert dropped is not None
        self.starts = (self.starts[0], log.start_offset)
        told: list[BaseException | None] = []
        self.manager.checkpoints.save_log_starts(KEY, told.append)
        assert told == [None]
        self.starts = (log.start_offset, log.start_offset)
        dropped.rename()
        dropped.remove()

    def truncate(self, offset: int) -> None:
        self.flushed = min(self.flushed, offset)
        self.allowed = offset
        self.log.truncate_to(offset)
        del self.records[offset:]
        self.allowed = None


def script(world: World) -> None:
    """A life with everything in it that touches the disk."""
    manager = world.start()
    manager.create(*KEY, TOPIC_ID)
    world.append(2)
    flush(world.log)
    world.append(1, producer_id=7, epoch=0, base_sequence=0)
    world.append(3, producer_id=9, epoch=0, base_sequence=0, transactional=True)
    world.end(ABORT, 9)
    flush(world.log)
    run_through(manager.checkpoints.write_all())
    for number in range(8):  # rolls on the way
        world.append(2, producer_id=7, epoch=0, base_sequence=1 + 2 * number, leader_epoch=number // 3)
        if number % 3 == 1:
            flush(world.log)
    run_through(manager.checkpoints.write_all())
    world.append(4, producer_id=9, epoch=1, base_sequence=0, transactional=True, leader_epoch=3)
    world.append(1, leader_epoch=3)
    flush(world.log)
    world.end(COMMIT, 9)
    world.append(2, leader_epoch=3)
    world.truncate(world.log.end_offset - 2)
    world.append(1, leader_epoch=4)
    world.append(1, leader_epoch=4)
    flush(world.log)
    world.truncate(6)
    world.append(2, leader_epoch=5)
    world.end(ABORT, 9)
    world.log.roll()
    for _ in range(3):
        world.append(1, leader_epoch=5)
    flush(world.log)
    world.drop(world.log.end_offset)
    world.append(1, leader_epoch=5)
    world.log.roll()
    world.log.roll()
    world.append(1, leader_epoch=5)
    world.log.roll()
    world.append(1, leader_epoch=5)
    manager.checkpoints.save_cleaner_offset(KEY, world.log.start_offset, lambda error: None)
    note_high_watermarks(manager, {KEY: world.log.flushed_offset}).checkpoints.save_high_watermarks()
    note_high_watermarks(manager, {KEY: world.log.end_offset}).close()
    manager = world.start()
    world.append(3, leader_epoch=5)
    flush(world.log)
    world.append(3, leader_epoch=6)


def check_reopened(world: World, storage: FaultyStorage) -> World:
    """Nothing that was flushed is lost, nothing is invented, and all that is derived is right.
    Returns the world as it goes on.
    """
    manager = LogManager([storage], clock=ManualClock(START_MS), rng=random.Random(5))
    partition_folder = manager.partition_folders().get(KEY)
    if partition_folder is None:
        assert world.flushed == 0, "a flushed partition is gone"
    else:
        assert partition_folder.topic_id == TOPIC_ID or (partition_folder.topic_id is None and world.flushed == 0)
    after = World(storage, manager=manager, starts=world.starts)
    log = after.log
    check_log(log, forgotten=log.start_offset > 0)
    found_records = [(record.offset, record.value) for record in read_records(log) if record.key is None]
    appended = [(record.offset, record.value) for record in world.records if record.offset >= log.start_offset]
    assert world.starts[0] <= log.start_offset <= world.starts[1], "the log start went back"
    ends = [world.flushed] if world.allowed is None else [world.flushed, world.allowed]
    assert min(ends) <= log.end_offset <= len(world.records)
    kept = [row for row in appended if row[0] < log.end_offset and row[1] is not None]
    assert kept == [row for row in found_records if row[1] is not None]
    assert log.flushed_offset == log.end_offset
    assert log.damage == []
    after.records = world.records[: log.end_offset]
    return after


def check_goes_on(world: World) -> None:
    """The log takes more, stops cleanly, and starts without looking back."""
    world.append(2, leader_epoch=9)
    check_log(world.log, forgotten=world.log.start_offset > 0)
    flush(world.log)
    assert world.flushed == len(world.records)
    assert world.manager is not None
    world.manager.close()
    world.storage.steps.clear()
    manager = world.start()
    assert not manager.was_unclean
    assert [record.offset for record in read_records(world.log)] == list(
        range(world.log.start_offset, len(world.records))
    )
    check_log(world.log, forgotten=world.log.start_offset > 0)
    assert {step.kind for step in world.storage.steps} <= {"remove", "sync_folder"}, (
        "a clean start changes nothing but the marker"
    )


def run_until_cut(cut_at: int | None) -> World:
    world = World(FaultyStorage(cut_at=cut_at))
    try:
        script(world)
    except PowerCut:
        assert cut_at is not None
    return world


STEPS = run_until_cut(None).storage.steps
VARIANTS: list[tuple[Remains, int]] = [
    (Remains.LOST, 0),
    (Remains.KEPT, 0),
    (Remains.TORN, 1),
    (Remains.TORN, 2),
    (Remains.TORN, 3),
]


def test_the_script_has_every_kind_of_step_on_every_kind_of_file() -> None:
    kinds = {(step.kind, step.path.rpartition("/")[2].lstrip("0123456789")) for step in STEPS}
    for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
        assert {("create", suffix), ("append", suffix), ("sync", suffix)} <= kinds
    assert {("truncate", suffix) for suffix in (".log", ".index", ".timeindex", ".txnindex")} <= kinds
    assert {("rename", suffix) for suffix in (".log", ".index", ".timeindex")} <= kinds
    assert {("remove", suffix) for suffix in (".log", ".index", ".timeindex", ".snapshot")} <= kinds
    names = [f"{name}-offset-checkpoint" for name in ("recovery-point", "replication", "log-start", "cleaner")]
    for name in ("leader-epoch-checkpoint", *names, ".kafka_cleanshutdown"):
        assert ("rename", name + ".tmp") in kinds
    assert ("sync", "partition.metadata") in kinds
    assert ("remove", ".kafka_cleanshutdown") in kinds


@parts(6)
@pytest.mark.parametrize(("remains", "seed"), corners(VARIANTS, (Remains.LOST, 0), (Remains.TORN, 1)))
def test_a_power_cut_at_any_step_loses_nothing_flushed_and_invents_nothing(
    remains: Remains, seed: int, part: slice
) -> None:
    for cut_at in range(1, len(STEPS) + 1)[part]:
        world = run_until_cut(cut_at)
        assert world.storage.is_cut
        try:
            after = check_reopened(world, world.storage.after_cut(remains, random.Random(1000 * seed + cut_at)))
            check_goes_on(after)
        except BaseException as error:
            error.add_note(f"cut at step {cut_at}, {STEPS[cut_at - 1]}")
            raise


@pytest.mark.long
@pytest.mark.parametrize("seed", corners(range(6)))
def test_a_power_cut_during_recovery_is_as_harmless(seed: int) -> None:
    rng = random.Random(seed)
    for cut_at in rng.sample(range(1, len(STEPS) + 1), 12):
        world = run_until_cut(cut_at)
        remains = rng.choice([Remains.KEPT, Remains.TORN])
        torn = rng.randrange(1 << 30)
        storage = world.storage.after_cut(remains, random.Random(torn))
        check_reopened(world, storage)
        for second in range(1, len(storage.steps) + 1):
            again = world.storage.after_cut(remains, random.Random(torn), cut_at=second)
            with pytest.raises(PowerCut):
                check_reopened(world, again)
            check_goes_on(check_reopened(world, again.after_cut(Remains.TORN, random.Random(second))))


def test_a_deleted_partition_is_gone_or_back_whole_at_every_step() -> None:
    def run(storage: FaultyStorage) -> None:
        manager = LogManager([storage], clock=ManualClock(START_MS), rng=random.Random(6))
        assert manager.delete(*KEY)

    world = World(FaultyStorage())
    world.start().create(*KEY, TOPIC_ID)
    world.append(5)
    flush(world.log)
    whole = world.storage.after_cut(Remains.KEPT, random.Random(0))
    run(whole)
    steps = whole.steps
    assert {"rename", "remove", "sync_folder"} <= {step.kind for step in steps}
    for cut_at in range(1, len(steps) + 1):
        for seed in range(4):
            storage = world.storage.after_cut(Remains.KEPT, random.Random(0), cut_at=cut_at)
            with pytest.raises(PowerCut):
                run(storage)
            left = storage.after_cut(Remains.TORN, random.Random(seed))
            again = LogManager([left], clock=ManualClock(START_MS), rng=random.Random(7))
            assert not [entry.name for entry in left.list("") if entry.name.endswith("-delete")]
            if KEY in again.partition_folders():
                log = again.open(*KEY, TOPIC_ID, CONFIG)
                assert len(read_records(log)) == 5


def test_a_made_partition_is_there_with_its_id_once_it_was_flushed() -> None:
    world = World(FaultyStorage())
    world.start().create(*KEY, TOPIC_ID)
    world.append(1)
    assert (
        KEY
        not in LogManager(
            [world.storage.after_cut(Remains.LOST, random.Random(1))], clock=ManualClock(START_MS), rng=random.Random(1)
        ).partition_folders()
    )
    flush(world.log)
    left = world.storage.after_cut(Remains.LOST, random.Random(1))
    partition_folder = LogManager([left], clock=ManualClock(START_MS), rng=random.Random(1)).partition_folders()[KEY]
    assert uuid_text(partition_folder.topic_id or b"") == uuid_text(TOPIC_ID)
