"""A log recovered in a job equals one recovered in place, after a power cut at any step."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.log.config import LogConfig
from kqueue.log.log import Log
from kqueue.log.manager import LogManager
from kqueue.log.recovery.log_loader import load_log
from kqueue.log.recovery.read_verification import DamagedBatch
from kqueue.log.recovery.recovered_log import RecoveredLog
from kqueue.log.recovery.recovery_task import RecoveryTask
from kqueue.log.segment import Segment
from kqueue.storage import MemoryStorage
from kqueue.testing.faulty_storage import FaultyStorage, Remains
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.helpers import START_MS, append, flush, open_log, read_records
from kqueue.tests.log.test_power_cut import CONFIG, KEY, STEPS, TOPIC_ID, check_goes_on, check_reopened, run_until_cut
from kqueue.tests.tables import for_each


def start(storage: FaultyStorage) -> LogManager:
    return LogManager([storage], clock=ManualClock(START_MS), rng=random.Random(5))


def recover(manager: LogManager, storage: FaultyStorage) -> None:
    _, log = manager.log_to_recover(*KEY, TOPIC_ID, CONFIG)
    result = RecoveryTask(lambda: storage, (log,), START_MS)()
    (outcome,) = pickle.loads(pickle.dumps(result)).outcomes
    assert isinstance(outcome, RecoveredLog)
    manager.recovered(KEY, outcome)


def _segment_state(segment: Segment, is_active: bool) -> tuple[object, ...]:
    checks = segment.checks
    return (
        (segment.base, segment.size, segment.unverified_size, segment.max_timestamp, segment.first_timestamp),
        (segment.indexes_full, is_active and segment._unindexed),
        (checks.verified_ranges, checks.damaged_ranges),
        (segment.index.entries.data(), segment.timeindex.entries.data()),
    )


def state(log: Log) -> dict[str, Any]:
    segments = [_segment_state(segment, segment is log.segments.active) for segment in log.segments]
    producers = {id: [getattr(entry, name) for name in entry.__slots__] for id, entry in log.producers.items()}
    return {
        "segments": segments,
        "producers": producers,
        "first_open": log.producers.first_open(),
        "producers_end": log.producers.end_offset,
        "epochs": (log.epochs.entries(), log.epochs.latest, log.epochs.changed),
        "offsets": (log.start_offset, log.end_offset, log.flushed_offset),
        "damage": log.damage,
        "snapshots": log._snapshots.offsets,
        "records": read_records(log),
    }


def files(storage: FaultyStorage, folder: str = "t-0") -> dict[str, bytes]:
    return {entry.name: storage.read(f"{folder}/{entry.name}") for entry in storage.list(folder)}


@for_each("remains", [Remains.LOST, Remains.KEPT, Remains.TORN])
def test_recovery_in_a_job_equals_recovery_in_place(remains: Remains) -> None:
    compared = 0
    for cut_at in range(7, len(STEPS) + 1, 8):
        world = run_until_cut(cut_at)
        here, there = (world.storage.after_cut(remains, random.Random(cut_at)) for _ in range(2))
        in_place, in_job = start(here), start(there)
        assert in_place.unrecovered() == in_job.unrecovered()
        if KEY not in in_job.unrecovered():
            continue
        compared += 1
        recover(in_job, there)
        assert in_job.unrecovered() == []
        expected, log = (manager.open(*KEY, TOPIC_ID, CONFIG) for manager in (in_place, in_job))
        assert state(log) == state(expected), f"cut at step {cut_at}, {STEPS[cut_at - 1]}"
        for one in (log, expected):
            append(one, b"next", leader_epoch=9)
            flush(one)
        assert state(log) == state(expected)
        assert files(there) == files(here)
    assert compared > 12


@for_each("seed", range(4))
def test_a_power_cut_before_the_log_is_opened_or_after_a_stop_is_harmless(seed: int) -> None:
    rng = random.Random(seed)
    for cut_at in rng.sample(range(20, len(STEPS) + 1), 10):
        world = run_until_cut(cut_at)
        storage = world.storage.after_cut(Remains.TORN, random.Random(seed))
        manager = start(storage)
        if KEY not in manager.unrecovered():
            continue
        recover(manager, storage)
        check_goes_on(check_reopened(world, storage.after_cut(Remains.LOST, rng)))
        manager.close()  # the log was recovered and never opened
        again = start(storage)
        assert not again.was_unclean
        check_goes_on(check_reopened(world, storage.after_cut(Remains.KEPT, rng)))


def test_damage_that_recovery_found_is_known_and_not_served() -> None:
    storage = MemoryStorage()
    log = open_log(storage, segment_bytes=200)
    for number in range(12):
        append(log, b"%d" % number * 40)
    segment = list(log.segments)[1]
    name = f"{log.folder}/{segment.base:020d}.log"
    data = bytearray(storage.read(name))
    data[-3] ^= 1
    storage.remove(name)
    storage.open(name, create=True).append(bytes(data))
    loaded = load_log(storage, log.folder, log.config, START_MS, recovery_point=0, clean=False)
    assert len(loaded.damage) == 1
    outcome = pickle.loads(pickle.dumps(RecoveredLog.of(loaded)))
    again = Log.open(storage, log.folder, log.config, ManualClock(START_MS), checkpoint=outcome)
    assert again.damage == loaded.damage
    with pytest.raises(DamagedBatch) as caught:
        again.read(segment.base, 1000, end_offset=12)
    assert again.read(caught.value.damaged_range.next_offset, 1 << 20, end_offset=12).next_offset > 2


def test_files_that_changed_after_recovery_are_refused() -> None:
    storage = MemoryStorage()
    log = open_log(storage)
    append(log, b"x")
    outcome = RecoveredLog.of(load_log(storage, log.folder, log.config, START_MS, recovery_point=0, clean=False))
    append(log, b"y")
    with pytest.raises(StorageFailed, match="ended at offset 1 after recovery, now at 2"):
        Log.open(storage, log.folder, log.config, ManualClock(START_MS), checkpoint=outcome)
    storage.remove(f"{log.folder}/{0:020d}.index")
    with pytest.raises(StorageFailed, match="a file was removed after recovery"):
        Log.open(storage, log.folder, LogConfig.of(), ManualClock(START_MS), checkpoint=outcome)
