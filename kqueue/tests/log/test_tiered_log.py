"""Logs whose older records are in a remote tier: log start and local start, at work and when opened
again.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kqueue.base.errors import CorruptData, OffsetMovedToTieredStorage, OffsetOutOfRange
from kqueue.base.sliced_task import run_to_end
from kqueue.log.config import LogConfig
from kqueue.log.formats.checkpoints import LOG_STARTS
from kqueue.log.formats.filenames import EPOCHS, PARTITION_METADATA
from kqueue.log.formats.producer_snapshot import encode_snapshot
from kqueue.log.future_replica import FutureReplica
from kqueue.log.log import Log
from kqueue.log.log_cut import RestartState
from kqueue.log.manager import LogManager
from kqueue.log_tools.folder import LogFolder
from kqueue.log_tools.repair import repair
from kqueue.log_tools.verify import verify_storage
from kqueue.log_tools.verify.report import ERROR
from kqueue.records.batch import ABORT
from kqueue.storage import LocalStorage, MemoryStorage, Storage
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.helpers import (
    START_MS,
    append,
    check_log,
    end_transaction,
    flush,
    keep_producers,
    note_high_watermarks,
    read_records,
    run_through,
)
from kqueue.tests.log.test_log_cut import restart_with
from kqueue.tests.tables import for_each

TOPIC_ID = bytes(range(16))
CONFIG = dataclasses.replace(LogConfig.of(segment_bytes=1200, index_interval_bytes=150), tiered=True)
KEY = ("t", 0)
IDLE = 4
"""A producer that wrote offset 0 and nothing since."""


def manager_of(storage: Storage) -> LogManager:
    return LogManager([storage], clock=ManualClock(START_MS), rng=random.Random(5))


def opened(storage: Storage, config: LogConfig = CONFIG) -> tuple[LogManager, Log]:
    manager = manager_of(storage)
    return manager, manager.open(*KEY, TOPIC_ID, config)


def filled(storage: Storage | None = None) -> tuple[LogManager, Log]:
    """A flushed log of four segments of ten records each, which the epochs 0 to 3 wrote. The first
    record alone is of another producer.
    """
    manager, log = opened(storage or MemoryStorage())
    for segment in range(4):
        for number in range(10):
            producer, sequence = (3 if log.end_offset else IDLE), log.end_offset
            append(log, b"%d" % number, leader_epoch=segment, producer_id=producer, epoch=0, base_sequence=sequence)
        flush(log)
        if segment < 3:
            log.roll()
    flush(log)
    assert [segment.base for segment in log.segments] == [0, 10, 20, 30]
    return manager, log


def delete_local(log: Log, offset: int) -> bool:
    """Delete local segments as a broker does; False: there is none to delete."""
    keep_producers(log, min(offset, log.tiered_end))
    deleted = log.delete_local(offset, high_watermark=log.end_offset, why="old")
    if deleted is not None:
        deleted.rename()
        deleted.remove()
    return deleted is not None


def without_local(storage: Storage | None = None) -> tuple[LogManager, Log]:
    """The log of `filled` whose first two segments only the tier has."""
    manager, log = filled(storage)
    log.tiered_end = 25
    assert delete_local(log, 25)
    return manager, log


def close(manager: LogManager, log: Log) -> None:
    note_high_watermarks(manager, {KEY: log.end_offset}).close()


def test_local_deletion_moves_the_local_start_alone() -> None:
    _, log = without_local()
    assert (log.start_offset, log.local_start_offset, log.end_offset) == (0, 20, 40)
    assert log.epochs.entries() == [(0, 0), (1, 10), (2, 20), (3, 30)]
    assert log.producers.by_id[3].batches[-1].last_offset == 39


def test_a_read_below_the_local_start_says_that_the_tier_has_it() -> None:
    _, log = without_local()
    log.advance_start(5)
    for offset in (5, 19):
        with pytest.raises(OffsetMovedToTieredStorage, match=f"offset {offset} .* starts at 20"):
            log.read(offset, 1000, end_offset=40)
    for offset in (-1, 4, 41):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 1000, end_offset=40)
    assert log.read(20, 1000, end_offset=40).next_offset > 20


def test_nothing_local_goes_that_the_tier_is_not_known_to_have() -> None:
    _, log = filled()
    assert not delete_local(log, 40)
    log.tiered_end = 19
    assert log.delete_local(40, high_watermark=40, why="old") is not None
    assert log.local_start_offset == 10
    log.tiered_end = 40
    assert log.delete_local(40, high_watermark=29, why="old") is not None
    assert log.local_start_offset == 20


def test_local_deletion_waits_for_the_producers_of_what_goes() -> None:
    storage = MemoryStorage()
    manager, log = filled(storage)
    close(manager, log)
    for entry in storage.list("t-0"):
        if entry.name.endswith(".snapshot"):
            storage.remove(f"t-0/{entry.name}")
    _, log = opened(storage)
    log.tiered_end = 20
    assert log.delete_local(20, high_watermark=40, why="old") is None
    assert (log.local_start_offset, log.start_offset) == (0, 0)
    assert keep_producers(log, 20)
    assert log.delete_local(20, high_watermark=40, why="old") is not None


def test_records_appended_after_a_truncation_are_not_those_that_the_tier_has() -> None:
    _, log = filled()
    log.tiered_end = 30
    log.truncate_to(15)
    assert log.tiered_end == 15
    for _ in range(20):
        append(log, b"new", leader_epoch=7)
    log.roll()
    flush(log)
    assert delete_local(log, 35)
    assert log.local_start_offset == 10


def test_a_log_whose_tier_was_switched_off_keeps_its_local_start() -> None:
    _, log = without_local()
    log.config = dataclasses.replace(CONFIG, tiered=False)
    log.advance_start(7)
    assert (log.start_offset, log.local_start_offset) == (7, 20)
    log.advance_start(20)
    assert (log.start_offset, log.local_start_offset) == (20, 20)


def test_a_log_start_raised_within_the_tier_leaves_local_segments_alone() -> None:
    _, log = without_local()
    log.advance_start(12)
    assert (log.start_offset, log.local_start_offset) == (12, 20)
    assert log.delete_before(12, high_watermark=40, why="old") is None
    assert (log.start_offset, log.local_start_offset) == (12, 20)
    assert log.epochs.entries() == [(1, 12), (2, 20), (3, 30)]


def test_a_log_start_raised_beyond_the_local_start_takes_it_along() -> None:
    _, log = without_local()
    log.advance_start(33)
    assert (log.start_offset, log.local_start_offset) == (33, 33)
    keep_producers(log, 33)
    assert log.delete_before(33, high_watermark=40, why="old") is not None
    assert (log.start_offset, log.local_start_offset, log.segments.base_offset) == (33, 33, 30)


def test_deleting_local_records_for_good_raises_the_log_start() -> None:
    _, log = without_local()
    keep_producers(log, 30)
    assert log.delete_before(30, high_watermark=40, why="old") is not None
    assert (log.start_offset, log.local_start_offset) == (30, 30)


@for_each("start", [0, 12])
@for_each("clean", [True, False])
def test_an_opened_log_starts_where_its_checkpoint_says_below_the_first_segment(start: int, clean: bool) -> None:
    storage = MemoryStorage()
    manager, log = without_local(storage)
    log.advance_start(start)
    if clean:
        close(manager, log)
    else:
        run_through(manager.checkpoints.write_all())
        manager.abandon()
    _, again = opened(storage)
    assert (again.start_offset, again.local_start_offset, again.end_offset) == (start, 20, 40)
    assert again.epochs.entries() == log.epochs.entries()
    assert again.damage == []
    assert again.producers.by_id[3].batches[-1].last_offset == 39
    with pytest.raises(OffsetMovedToTieredStorage):
        again.read(start, 1000, end_offset=40)
    assert [record.offset for record in read_records(again)] == list(range(20, 40))


def test_a_log_without_a_tier_reports_the_same_folder_as_damaged() -> None:
    storage = MemoryStorage()
    manager, log = without_local(storage)
    close(manager, log)
    _, again = opened(storage, dataclasses.replace(CONFIG, tiered=False))
    assert again.start_offset == again.local_start_offset == 20
    assert len(again.damage) == 1


@for_each("clean", [True, False])
def test_without_its_checkpoint_a_log_starts_at_its_first_segment_until_it_adopts_the_tier(clean: bool) -> None:
    storage = MemoryStorage()
    manager, log = without_local(storage)
    if clean:
        close(manager, log)
    else:
        run_through(manager.checkpoints.write_all())
        manager.abandon()
    storage.remove(LOG_STARTS)
    _, again = opened(storage)
    assert (again.start_offset, again.local_start_offset, again.damage) == (20, 20, [])
    assert again.epochs.entries() == [(2, 20), (3, 30)]
    again.adopt_tier(3, [(0, 0), (1, 10), (2, 20)])
    assert (again.start_offset, again.local_start_offset) == (3, 20)
    assert again.epochs.entries() == [(0, 3), (1, 10), (2, 20), (3, 30)]
    assert again.pending_start_offset == 3


def test_an_adopted_tier_survives_a_stop() -> None:
    storage = MemoryStorage()
    manager, log = without_local(storage)
    close(manager, log)
    storage.remove(LOG_STARTS)
    storage.remove(f"t-0/{EPOCHS}")
    manager, log = opened(storage)
    log.damage.clear()
    log.adopt_tier(3, [(0, 0), (1, 10), (2, 20)])
    close(manager, log)
    _, again = opened(storage)
    assert (again.start_offset, again.local_start_offset, again.damage) == (3, 20, [])
    assert again.epochs.entries() == [(0, 3), (1, 10), (2, 20), (3, 30)]


def test_a_tier_that_starts_later_does_not_raise_the_log_start() -> None:
    _, log = without_local()
    log.adopt_tier(15, [(0, 0), (1, 10), (2, 20)])
    assert log.start_offset == 0
    assert log.epochs.entries() == [(0, 0), (1, 10), (2, 20), (3, 30)]


@for_each(
    "epochs",
    [
        [(0, 0), (4, 10)],  # newer than the first local epoch
        [(0, 0), (1, 10), (2, 20), (3, 29)],  # begins elsewhere
        [(1, 10), (0, 0)],
        [(0, 0), (1, 0)],
        [(-2, 0)],
        [(0, -1)],
    ],
)
def test_a_tier_that_contradicts_the_local_epochs_is_refused(epochs: list[tuple[int, int]]) -> None:
    _, log = without_local()
    log.advance_start(12)
    before = log.epochs.entries()
    with pytest.raises(CorruptData):
        log.adopt_tier(0, epochs)
    assert (log.start_offset, log.epochs.entries()) == (12, before)


def test_the_tiers_epochs_replace_those_known_below_the_local_start() -> None:
    _, log = without_local()
    log.adopt_tier(0, [(1, 0), (2, 15)])
    assert log.epochs.entries() == [(1, 0), (2, 15), (3, 30)]


def test_a_log_start_on_its_way_to_the_disk_is_not_lowered_by_the_tier() -> None:
    _, log = without_local()
    log.advance_start(12)
    log.announce_start(15)
    log.adopt_tier(3, [(0, 0), (1, 10)])
    assert (log.start_offset, log.pending_start_offset) == (3, 15)


def test_a_transaction_open_across_the_local_start_is_aborted_by_a_local_marker() -> None:
    storage = MemoryStorage()
    manager, log = opened(storage)
    append(log, b"a", producer_id=7, epoch=0, base_sequence=0, transactional=True)
    append(log, b"b")
    log.roll()
    append(log, b"c")
    flush(log)
    log.tiered_end = 2
    assert delete_local(log, 2)
    run_through(manager.checkpoints.write_all())
    manager.abandon()
    manager, log = opened(storage)
    assert log.last_stable_offset(log.end_offset) == 0
    end_transaction(log, ABORT, 7)
    flush(log)
    assert [(one.first_offset, one.last_offset) for one in log.reader.aborted(2, log.end_offset)] == [(0, 3)]
    assert log.last_stable_offset(log.end_offset) == log.end_offset


def before_deletion(storage: FaultyStorage, lacks_snapshots: bool) -> Log:
    manager, log = filled(storage)
    run_through(manager.checkpoints.write_all())
    if lacks_snapshots:
        close(manager, log)
        storage.locks.clear()
        for entry in storage.list("t-0"):
            if entry.name.endswith(".snapshot"):
                storage.remove(f"t-0/{entry.name}")
        manager, log = opened(storage)
    log.tiered_end = 30
    return log


def steps_of_local_deletion(lacks_snapshots: bool) -> range:
    before, whole = FaultyStorage(), FaultyStorage()
    before_deletion(before, lacks_snapshots)
    assert delete_local(before_deletion(whole, lacks_snapshots), 30)
    return range(len(before.steps) + 1, len(whole.steps) + 1)


@for_each("remains", list(Remains))
@for_each("lacks_snapshots", [False, True])
def test_a_power_cut_during_local_deletion_leaves_the_newest_segments_without_a_gap(
    remains: Remains, lacks_snapshots: bool
) -> None:
    for cut_at in steps_of_local_deletion(lacks_snapshots):
        storage = FaultyStorage(cut_at=cut_at)
        with pytest.raises(PowerCut):
            delete_local(before_deletion(storage, lacks_snapshots), 30)
        _, log = opened(storage.after_cut(remains, random.Random(cut_at)))
        assert log.damage == [], f"cut at step {cut_at}"
        assert (log.start_offset, log.end_offset) == (0, 40)
        assert [segment.base for segment in log.segments] == list(range(log.local_start_offset, 40, 10))
        assert log.epochs.entries() == [(0, 0), (1, 10), (2, 20), (3, 30)]
        assert {id: one.batches[-1].last_offset for id, one in log.producers.items()} == {IDLE: 0, 3: 39}
        check_log(log, forgotten=True)


# --- copies and tools


def essence(log: Log) -> object:
    last = {id: one.batches[-1].last_offset for id, one in log.producers.items()}
    offsets = log.start_offset, log.local_start_offset, log.end_offset
    return offsets, log.epochs.entries(), last, read_records(log)


def emptied(storage: Storage) -> tuple[LogManager, Log]:
    """A log whose local part has just restarted, with all records in the tier."""
    manager, log = without_local(storage)
    flush(log)
    snapshot = encode_snapshot(log.producers)
    restart_with(manager, log, log.end_offset, RestartState(3, log.epochs.entries(), snapshot))
    return manager, log


@for_each("made", [without_local, emptied])
@for_each("is_open", [True, False])
def test_a_copy_of_all_logs_starts_in_the_tier_too(
    made: Callable[[Storage], tuple[LogManager, Log]], is_open: bool
) -> None:
    storage, target = MemoryStorage(), MemoryStorage()
    manager, log = made(storage)
    expected = essence(log)
    if not is_open:
        close(manager, log)
        manager = manager_of(storage)
    run_to_end(manager.copy_to(target))
    _, copy = opened(target)
    assert essence(copy) == expected
    assert copy.damage == []


@for_each("made", [without_local, emptied])
def test_a_log_that_moves_to_another_folder_starts_in_the_tier_there(
    made: Callable[[Storage], tuple[LogManager, Log]],
) -> None:
    _, log = made(MemoryStorage())
    target = MemoryStorage()
    target.make_folder("t-0")
    target.open(f"t-0/{PARTITION_METADATA}", create=True).append(log.storage.read(f"t-0/{PARTITION_METADATA}"))
    replica = FutureReplica(log, target, "t-0")
    while (step := replica.next_step()) is not None:
        step.run()
        replica.done(step)
    last = replica.last_step()
    last.run()
    replica.done(last)
    copy = Log.open(target, "t-0", CONFIG, ManualClock(START_MS), checkpoint=replica.recovered(last))
    assert essence(copy) == essence(log)


@for_each("clean", [True, False])
def test_the_tools_find_no_fault_with_a_log_that_starts_in_the_tier(clean: bool) -> None:
    storage = MemoryStorage()
    manager, log = without_local(storage)
    run_through(manager.checkpoints.write_all())
    if clean:
        close(manager, log)
    assert [finding for finding in verify_storage(storage, deep=True).findings if finding.severity == ERROR] == []
    folder = LogFolder(storage, "t-0")
    assert (folder.start_offset, folder.end_offset) == (20, 40)
    assert [record.offset for record in folder] == list(range(20, 40))


def test_a_repair_keeps_the_epochs_of_what_only_the_tier_has(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "data")
    manager, log = without_local(storage)
    close(manager, log)
    path = tmp_path / "data" / "t-0" / EPOCHS
    path.write_text("0\n4\n0 0\n1 10\n2 20\n3 31\n")
    repair(tmp_path / "data", tmp_path / "backup")
    assert path.read_text() == "0\n4\n0 0\n1 10\n2 20\n3 30\n"
