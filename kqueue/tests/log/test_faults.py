"""S5.3: what the world does to a data folder. A clear sentence, nothing lost, and the other folders
go on.
"""

from __future__ import annotations

import contextlib
import errno
import random
import shutil
from pathlib import Path

import pytest

from kqueue.base.errors import DiskFull, StorageFailed
from kqueue.log.config import LogConfig
from kqueue.log.log import Log
from kqueue.log.manager import LogManager
from kqueue.storage import LocalStorage, Storage
from kqueue.testing.faulty_storage import FaultyStorage, Remains
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.helpers import START_MS, append, batch, check_log, flush, note_high_watermarks, read_values
from kqueue.tests.tables import for_each

ID = bytes(range(16))
CONFIG = LogConfig.of(segment_bytes=400, index_interval_bytes=100)


def start(*storages: Storage) -> LogManager:
    return LogManager(storages, clock=ManualClock(START_MS), rng=random.Random(3))


def log_of(manager: LogManager, partition: int = 0) -> Log:
    return manager.open("t", partition, ID, CONFIG)


def fill(log: Log, count: int = 12) -> list[bytes | None]:
    values: list[bytes | None] = []
    for _ in range(count):
        number = log.end_offset
        values.append(b"%03d" % number)
        append(log, b"%03d" % number, producer_id=1, epoch=0, base_sequence=number, time_ms=START_MS + number)
    flush(log)
    return values


def two_folders() -> tuple[FaultyStorage, FaultyStorage, list[bytes | None]]:
    """``t-0`` in the first, ``t-1`` in the second, with the same values; still running."""
    storages = FaultyStorage(), FaultyStorage()
    manager = start(*storages)
    values = [fill(log_of(manager, number)) for number in range(2)]
    note_high_watermarks(manager, {("t", number): 12 for number in range(2)}).close()
    return *storages, values[0]


@for_each("room", [0, 1, 40, 70])
def test_a_full_disk_costs_only_what_did_not_fit(room: int) -> None:
    first, second, values = two_folders()
    manager = start(first, second)
    first.capacity_bytes = sum(entry.size for folder in ("", "t-0") for entry in first.list(folder)) + room
    log = log_of(manager)
    with pytest.raises(StorageFailed, match="ENOSPC, No space left on device"):
        append(log, b"too much" * 5)
    assert log_of(manager).health.failure is None
    assert read_values(log_of(manager)) == values
    more = fill(log_of(manager, 1), 2)
    with contextlib.suppress(DiskFull):  # a checkpoint may find room, where there is some
        manager.close()
    assert not [entry.name for entry in first.list("") if entry.name.endswith(".tmp")]
    first.capacity_bytes = None
    manager = start(first, second)
    assert read_values(log_of(manager))[:12] == values
    assert read_values(log_of(manager, 1)) == values + more
    check_log(log_of(manager))


def test_without_space_for_quarantine_nothing_is_cut() -> None:
    first, second, values = two_folders()
    (name,) = sorted(entry.name for entry in first.list("t-0") if entry.name.endswith(".log"))[-1:]
    file = first.open(f"t-0/{name}")
    file.append(b"torn" * 5)
    file.append(batch(b"whole", base_offset=20))
    size = file.size
    first.remove(".kafka_cleanshutdown")
    manager = start(first, second)
    first.capacity_bytes = sum(entry.size for folder in ("", "t-0") for entry in first.list(folder))
    with pytest.raises(StorageFailed, match="ENOSPC"):
        log_of(manager)
    assert first.open(f"t-0/{name}").size == size
    assert read_values(log_of(manager, 1)) == values
    first.capacity_bytes = None
    assert read_values(log_of(manager)) == values
    assert first.exists(f"t-0/{name}.damaged")


@for_each(
    "number, words",
    [(errno.EACCES, "Permission denied"), (errno.EROFS, "Read-only file system"), (errno.EIO, "EIO")],
)
@for_each("clean", [True, False])
def test_a_partition_that_may_not_be_written_to_is_named_and_the_others_go_on(
    number: int, words: str, clean: bool
) -> None:
    first, second, values = two_folders()
    first.remove("t-0/00000000000000000000.timeindex")
    if not clean:
        first.remove(".kafka_cleanshutdown")
    for kind in ("create", "append", "truncate", "sync"):
        first.fail(kind, lambda path: path.startswith("t-0/"), number=number)
    manager = start(first, second)
    with pytest.raises(StorageFailed, match=rf"can't \w+ t-0/.*{words}"):
        log_of(manager)
    assert read_values(log_of(manager, 1)) == values
    fill(log_of(manager, 1), 1)
    first.mend()
    assert read_values(log_of(manager)) == values


FILES = sorted(entry.name for entry in two_folders()[0].list("t-0"))


@for_each("clean", [True, False])
@for_each("name", FILES)
def test_a_file_that_is_missing_costs_what_was_in_it(name: str, clean: bool) -> None:
    first, second, values = two_folders()
    first.remove(f"t-0/{name}")
    if not clean:
        first.remove(".kafka_cleanshutdown")
    manager = start(first, second)
    log = log_of(manager)
    left = read_values(log)
    assert log.end_offset == 12
    if name.endswith(".log"):
        assert set(left) < set(values)
        assert len(left) > 3
        assert log.damage or name.startswith("0" * 20), (
            "without the oldest segment a log looks as one that begins later"
        )
    else:
        assert left == values
        check_log(log)
    assert append(log, b"011", producer_id=1, epoch=0, base_sequence=11).duplicate
    assert read_values(log_of(manager, 1)) == values


def test_a_folder_without_its_logs_does_not_restart_at_offset_zero() -> None:
    first, second, _ = two_folders()
    for name in FILES:
        first.remove(f"t-0/{name}")
    manager = start(first, second)
    log = log_of(manager)
    assert (log.end_offset, read_values(log)) == (12, [])
    assert "expected records up to offset 12, which were flushed, found an end at offset 0" in str(log.damage[0])


def test_unknown_files_are_not_touched() -> None:
    first, second, values = two_folders()
    names = ("notes.txt", "00000000000000000000.log~", "x.log", "0.index", "00000000000000000099.log.damaged")
    strange = ["README", "t-1", *(f"t-0/{name}" for name in names)]
    for path in strange:
        first.open(path, create=True).append(b"mine")
    for path in ("t-0/00000000000000000003.log", "t-0/sub.deleted", "lost+found", "t-0/sub.swap"):
        first.make_folder(path)
        first.open(f"{path}/inside", create=True)
    for _ in range(2):
        manager = start(first, second)
        assert read_values(log_of(manager)) == values
        assert log_of(manager).damage == []
        manager.close()
    assert all(first.read(path) == b"mine" for path in strange)
    assert first.exists("t-0/sub.deleted/inside")


@for_each("clean", [True, False])
def test_a_partition_that_was_restored_from_an_old_copy_goes_on_after_what_was_lost(clean: bool) -> None:
    first, second, values = two_folders()
    copy = {entry.name: first.read(f"t-0/{entry.name}") for entry in first.list("t-0")}
    manager = start(first, second)
    fill(log_of(manager), 6)
    note_high_watermarks(manager, {("t", 0): 18}).close()
    for entry in first.list("t-0"):
        first.remove(f"t-0/{entry.name}")
    for name, data in copy.items():
        first.open(f"t-0/{name}", create=True).append(data)
    if not clean:
        first.remove(".kafka_cleanshutdown")
    log = log_of(start(first, second))
    assert read_values(log) == values
    assert "expected records up to offset 18, which were flushed, found an end at offset 12" in str(log.damage[0])
    assert append(log, b"new").base_offset == 18, "nobody is given other records at offsets that were seen"


def test_a_data_folder_that_was_restored_as_a_whole_is_an_earlier_day() -> None:
    first, _, values = two_folders()
    copy = first.after_cut(Remains.KEPT, random.Random(1))
    manager = start(first)
    fill(log_of(manager), 6)
    manager.close()
    manager = start(copy)
    assert not manager.was_unclean
    assert read_values(log_of(manager)) == values
    assert log_of(manager).damage == []


def test_vanished_folders_are_reported_and_not_recreated(tmp_path: Path) -> None:
    manager = start(LocalStorage(tmp_path / "one"), LocalStorage(tmp_path / "two"))
    for number in range(4):
        manager.create("t", number, ID)
    shutil.rmtree(tmp_path / "two" / "t-3")
    (tmp_path / "one").rename(tmp_path / "away")
    with pytest.raises(StorageFailed, match="one: the folder t-0 was there and is gone"):
        log_of(manager, 0)
    with pytest.raises(StorageFailed, match="two: the folder t-3 was there and is gone"):
        log_of(manager, 3)
    append(log_of(manager, 1), b"x")
    assert read_values(log_of(manager, 1)) == [b"x"]
    manager.create("u", 0, ID)
    manager.create("u", 1, ID)
    assert not (tmp_path / "one").exists()
    assert (tmp_path / "two" / "u-1").is_dir()
