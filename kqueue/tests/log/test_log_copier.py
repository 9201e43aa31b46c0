from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.base.sliced_task import run_to_end
from kqueue.log.config import LogConfig
from kqueue.log.folders.data_folders import OfflineFolder
from kqueue.log.log import Log
from kqueue.log.log_copier import CHUNK_BYTES
from kqueue.log.manager import LogManager
from kqueue.log_tools.verify import verify_storage
from kqueue.records.batch import ABORT
from kqueue.storage import LocalStorage, MemoryStorage, Storage
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.helpers import START_MS, append, check_log, end_transaction, flush, read_batches, read_values

ID = bytes(range(16))
SMALL = LogConfig.of(segment_bytes=2000, index_interval_bytes=100)


def start(*storages: Storage) -> LogManager:
    return LogManager(storages, clock=ManualClock(START_MS), rng=random.Random(3))


def log_of(manager: LogManager, topic: str = "t", partition: int = 0) -> Log:
    return manager.open(topic, partition, ID, SMALL)


def filled(manager: LogManager) -> None:
    """Several segments, an idempotent producer, an aborted and an open transaction, two epochs; and
    a log without a batch.
    """
    log = log_of(manager)
    for number in range(40):
        append(
            log, b"%d" % number + bytes(200), leader_epoch=number // 20, producer_id=7, epoch=0, base_sequence=number
        )
        if number == 20:
            flush(log)
    append(log, b"gone", leader_epoch=1, producer_id=8, epoch=0, base_sequence=0, transactional=True)
    end_transaction(log, ABORT, 8, leader_epoch=1)
    append(
        log, b"open", leader_epoch=1, producer_id=9, epoch=0, base_sequence=0, transactional=True, time_ms=START_MS + 77
    )
    log_of(manager, "empty")


def told(log: Log) -> object:
    producers = {id: (one.epoch, list(one.batches)[-1:], one.transaction_offset) for id, one in log.producers.items()}
    return (
        log.start_offset,
        log.end_offset,
        read_batches(log),
        log.epochs.entries(),
        producers,
        log.reader.aborted(0, 1 << 40),
        [(segment.base, segment.size, segment.max_timestamp) for segment in log.segments],
    )


def copied(manager: LogManager, target: Storage | None = None) -> LogManager:
    """A manager on a copy, which verify finds sound, and which counts as stopped cleanly."""
    target = target or MemoryStorage()
    run_to_end(manager.copy_to(target))
    assert verify_storage(target, deep=True).findings == []
    copy = start(target)
    assert not copy.was_unclean
    return copy


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_a_copy_holds_what_the_running_logs_hold(kind: str, tmp_path: Path) -> None:
    manager = start(MemoryStorage() if kind == "memory" else LocalStorage(tmp_path / "a"))
    filled(manager)
    copy = copied(manager, None if kind == "memory" else LocalStorage(tmp_path / "b"))
    assert copy.cluster_id == manager.cluster_id
    assert copy.partition_folders().keys() == manager.partition_folders().keys()
    for topic in ("t", "empty"):
        assert told(log_of(copy, topic)) == told(log_of(manager, topic))
        check_log(log_of(copy, topic))
    assert run_to_end(log_of(copy).latest_timestamp()) == run_to_end(log_of(manager).latest_timestamp())


def test_a_copy_has_the_files_that_a_clean_stop_leaves() -> None:
    storage, copy = MemoryStorage(), MemoryStorage()
    manager = start(storage)
    filled(manager)
    log_of(manager).advance_start(5)
    run_to_end(manager.copy_to(copy))
    manager.checkpoints.note_high_watermark("t", 0, log_of(manager).end_offset)
    manager.checkpoints.note_high_watermark("empty", 0, 0)
    manager.close()
    for folder in ("", "t-0", "empty-0"):
        assert [entry.name for entry in copy.list(folder)] == [entry.name for entry in storage.list(folder)]
        for entry in copy.list(folder):
            path = f"{folder}/{entry.name}".lstrip("/")
            if not entry.is_folder:
                assert copy.read(path) == storage.read(path), path


def test_copy_and_original_are_independent() -> None:
    manager = start(MemoryStorage())
    filled(manager)
    copy = copied(manager)
    end = log_of(manager).end_offset
    append(log_of(manager), b"here", leader_epoch=1)
    append(log_of(copy), b"there", leader_epoch=1)
    assert (read_values(log_of(manager))[-1], read_values(log_of(copy))[-1]) == (b"here", b"there")
    assert log_of(manager).end_offset == log_of(copy).end_offset == end + 1
    check_log(log_of(manager))
    manager.close()


def test_unopened_logs_are_copied_unchanged() -> None:
    storage = MemoryStorage()
    manager = start(storage)
    filled(manager)
    log_of(manager).advance_start(12)
    expected = told(log_of(manager))
    manager.close()
    manager = start(storage)
    copy = copied(manager)
    assert told(log_of(copy)) == expected
    assert log_of(copy).start_offset == 12


def test_a_copy_includes_the_log_start_without_dropped_segments() -> None:
    storage = MemoryStorage()
    manager = start(storage)
    filled(manager)
    log = log_of(manager)
    dropped = log.delete_before(20, high_watermark=log.end_offset, why="test")  # its files are there still
    assert dropped is not None
    log.advance_start(22)
    target = MemoryStorage()
    copy = copied(manager, target)
    assert log_of(copy).start_offset == 22
    assert log_of(copy).segments.base_offset == log.segments.base_offset > 0
    assert f"{0:020}.log" in {entry.name for entry in storage.list("t-0")}
    assert f"{0:020}.log" not in {entry.name for entry in target.list("t-0")}
    assert told(log_of(copy)) == told(log)


def test_partitions_being_created_or_deleted_are_not_copied() -> None:
    storage = MemoryStorage()
    manager = start(storage)
    filled(manager)
    for suffix in (".cleaned", ".swap", ".deleted"):
        for topic in ("t", "empty"):
            storage.open(f"{topic}-0/{0:020}.log{suffix}", create=True).append(b"x")
    target = MemoryStorage()
    copied(manager, target)
    names = {entry.name for folder in ("t-0", "empty-0") for entry in target.list(folder)}
    assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]


def test_several_data_folders_are_copied_into_one() -> None:
    manager = start(MemoryStorage(), MemoryStorage())
    for partition in range(4):
        append(log_of(manager, "t", partition), b"%d" % partition)
    manager.checkpoints.save_cleaner_offset(("t", 2), 1, lambda error: None)
    copy = copied(manager)
    assert [read_values(log_of(copy, "t", partition)) for partition in range(4)] == [[b"0"], [b"1"], [b"2"], [b"3"]]
    assert [copy.checkpoints.cleaner_offset(("t", partition)) for partition in range(4)] == [None, None, 1, None]


def test_a_large_file_is_copied_whole() -> None:
    manager = start(MemoryStorage())
    value = random.Random(1).randbytes(CHUNK_BYTES + 100)
    append(log_of(manager), value)
    assert read_values(log_of(copied(manager))) == [value]


def test_a_log_that_is_offline_is_not_copied() -> None:
    manager = start(MemoryStorage())
    filled(manager)
    log_of(manager).abandon()
    with pytest.raises(StorageFailed, match="t-0 was deleted"):
        run_to_end(manager.copy_to(MemoryStorage()))


def test_a_log_that_waits_for_its_recovery_is_not_copied() -> None:
    storage = FaultyStorage()
    filled(start(storage))  # and never stopped
    unclean = start(storage.after_cut(Remains.KEPT, random.Random(1)))
    assert unclean.was_unclean
    with pytest.raises(StorageFailed, match="-0 is not recovered"):
        run_to_end(unclean.copy_to(MemoryStorage()))


def test_a_missing_folder_is_reported() -> None:
    storage = MemoryStorage()
    manager = start(storage)
    filled(manager)
    manager.close()
    manager = start(storage)
    storage.rename("t-0", "elsewhere")
    with pytest.raises(StorageFailed, match="the folder t-0 was there and is gone"):
        run_to_end(manager.copy_to(MemoryStorage()))


def test_copy_survives_a_power_cut_or_is_not_marked_clean() -> None:
    manager = start(MemoryStorage())
    filled(manager)
    expected = told(log_of(manager))
    whole = FaultyStorage()
    run_to_end(manager.copy_to(whole))
    rng = random.Random(5)
    marked = 0
    for remains in Remains:
        for number in range(1, len(whole.steps) + 1):
            target = FaultyStorage(cut_at=number)
            with contextlib.suppress(PowerCut):
                run_to_end(manager.copy_to(target))
            after = target.after_cut(remains, rng)
            if after.exists(".kafka_cleanshutdown"):
                marked += 1
                assert told(log_of(start(after))) == expected
    assert marked
    after = whole.after_cut(Remains.LOST, rng)
    copy = start(after)
    assert not copy.was_unclean
    assert told(log_of(copy)) == expected


def test_an_offline_data_folder_is_named() -> None:
    manager = LogManager(
        [MemoryStorage()],
        clock=ManualClock(START_MS),
        rng=random.Random(3),
        offline=[OfflineFolder("/disk2", StorageFailed("gone"))],
    )
    with pytest.raises(StorageFailed, match="/disk2 is offline"):
        run_to_end(manager.copy_to(MemoryStorage()))


def in_steps(manager: LogManager, target: Storage, meanwhile: Callable[[int], None]) -> LogManager:
    """A manager on a copy; `meanwhile(number)` is called before each job."""
    work = manager.copy_to(target)
    with contextlib.suppress(StopIteration):
        step = next(work)
        for number in itertools.count():
            meanwhile(number)
            assert callable(step)
            try:
                step()
            except StorageFailed as error:
                step = work.throw(error)
            else:
                step = work.send(None)
    assert verify_storage(target, deep=True).findings == []
    return start(target)


def test_records_appended_during_the_copy_are_not_in_it() -> None:
    manager = start(MemoryStorage())
    filled(manager)
    log = log_of(manager)
    expected = told(log)

    def meanwhile(number: int) -> None:
        for _ in range(3):  # rolls too
            append(log, bytes(900), leader_epoch=2)

    copy = in_steps(manager, MemoryStorage(), meanwhile)
    assert not copy.was_unclean
    assert told(log_of(copy)) == expected


def test_a_log_that_loses_segments_during_its_copy_is_copied_again() -> None:
    manager = start(MemoryStorage())
    filled(manager)
    log = log_of(manager)

    def meanwhile(number: int) -> None:
        if number == 0:
            deleted = log.delete_before(20, high_watermark=log.end_offset, why="old")
            assert deleted is not None
            deleted.rename()
            deleted.remove()

    copy = in_steps(manager, MemoryStorage(), meanwhile)
    assert log.start_offset > 0
    assert told(log_of(copy)) == told(log)


def test_a_log_that_always_changes_fails_the_copy() -> None:
    manager = start(MemoryStorage())
    log = log_of(manager)
    append(log, b"x")

    def meanwhile(number: int) -> None:
        append(log, b"x")
        log.roll()
        assert log.delete_before(log.end_offset, high_watermark=log.end_offset, why="old") is not None

    with pytest.raises(StorageFailed, match="t-0 changes faster than copied"):
        in_steps(manager, MemoryStorage(), meanwhile)


def test_a_log_that_is_opened_or_deleted_during_its_copy() -> None:
    storage = MemoryStorage()
    manager = start(storage)
    filled(manager)
    append(log_of(manager, "doomed"), b"x")
    manager.close()
    manager = start(storage)
    target = MemoryStorage()

    def meanwhile(number: int) -> None:
        if number == 0:
            append(log_of(manager), b"more", leader_epoch=2)
            manager.delete("doomed", 0)

    copy = in_steps(manager, target, meanwhile)
    assert told(log_of(copy)) == told(log_of(manager))
    assert ("doomed", 0) not in copy.partition_folders()
    assert b"doomed" not in target.read("recovery-point-offset-checkpoint")
