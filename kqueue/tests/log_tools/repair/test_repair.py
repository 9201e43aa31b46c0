"""S3.6, S5.3: damaged folders are repaired after a backup.

Valid data stays, losses are reported.
"""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from kqueue import open_log
from kqueue.base.errors import FolderInUse, StorageFailed
from kqueue.log.config import LogConfig
from kqueue.log.formats.checkpoints import LOCK, LogCheckpoint
from kqueue.log.log import Log
from kqueue.log_tools import Batch
from kqueue.log_tools.errors import RepairRefused
from kqueue.log_tools.repair import repair, repair_storage
from kqueue.log_tools.verify import verify
from kqueue.records.any_format import iter_any_records
from kqueue.storage import LocalStorage
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.golden import expected
from kqueue.tests.log.helpers import START_MS
from kqueue.tests.log_tools.damage import NONE, TXN, cut, flip, put, some_of
from kqueue.tests.log_tools.verify.test_verify import CASES, Case
from kqueue.tests.thorough import corners

BEYOND_REPAIR = {"meta.properties", "an owner"}
Contents = dict[str, bytes]


def contents(folder: Path) -> Contents:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != LOCK
    }


def offsets_of(folder: Path) -> list[int]:
    return [record.offset for record in open_log(folder)]


def opened(folder: Path) -> Log:
    """Return the log as a broker opens it after a clean shutdown."""
    return Log.open(
        LocalStorage(folder.parent),
        folder.name,
        LogConfig.of(),
        ManualClock(START_MS),
        checkpoint=LogCheckpoint(clean=True),
        rng=random.Random(1),
    )


def readable(log: Log) -> Iterator[int]:
    """Return the offsets that a broker can serve."""
    offset = log.start_offset
    while fetched := log.read(offset, 1 << 20, end_offset=log.end_offset):
        yield from (record.offset for record in iter_any_records(fetched.read()))
        offset = fetched.next_offset


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_kind_of_damage_can_be_repaired(case: Case, tmp_path: Path) -> None:
    partition = case.file.partition("/")[0] if "/" in case.file else "v2-none-0"
    folder = some_of(case.version, tmp_path, partition)
    before = offsets_of(folder / partition)
    case.harm(folder)
    harmed = contents(folder)
    result = repair(folder, tmp_path / "copy")
    assert result.after is not None
    assert not result.failed
    assert result.is_sound == (case.name not in BEYOND_REPAIR), result.after.errors
    copied = contents(tmp_path / "copy")
    assert copied.items() <= harmed.items()
    changed = {name for name, data in contents(folder).items() if harmed.get(name) != data} | (
        harmed.keys() - contents(folder).keys()
    )
    assert changed & harmed.keys() <= copied.keys(), "what is changed was copied first"
    told = {done.file for done in result.done}
    assert changed <= told | {
        str(Path(file).with_suffix(suffix)) for file in told for suffix in (".index", ".timeindex")
    }
    left = offsets_of(folder / partition)
    assert set(left) <= set(before)
    lost = {offset for one in result.lost for offset in range(one.first_offset, one.end_offset or one.first_offset)}
    if not (case.name.startswith("a lost") or case.name in BEYOND_REPAIR):
        assert set(before) - set(left) <= lost
    assert verify(folder, deep=True).is_sound == result.is_sound
    again = repair(folder, tmp_path / "again")
    assert (again.done, again.lost) == ([], [])
    log = opened(folder / partition)
    assert log.damage == []
    assert set(left) <= set(readable(log))
    log.close()


def test_a_damaged_batch_costs_its_own_records_alone(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    flip(folder / f"{NONE}.log", 3300)
    result = repair(folder / "v2-none-0", tmp_path / "copy")
    (lost,) = result.lost
    assert (lost.file, lost.position, lost.size, lost.first_offset, lost.end_offset) == (
        f"{NONE}.log",
        3180,
        3206,
        40,
        80,
    )
    assert str(lost).startswith(f"{NONE}.log at position 3180: offsets 40 to 79, 3206 bytes (expected checksum ")
    wanted = [record for record in expected("4.3")["v2-none"].records if not 40 <= record.offset < 80]
    records = list(open_log(folder / "v2-none-0"))
    assert [(one.offset, one.timestamp, one.key, one.value, one.headers) for one in records] == [
        (one.offset, one.timestamp, one.key, one.value, one.headers) for one in wanted
    ]
    report = verify(folder)
    assert report.is_sound
    assert "known to be lost" in str(report.notes)
    log = opened(folder / "v2-none-0")
    assert log.end_offset == 300
    assert log.read(40, 1 << 20, end_offset=300).read(), "a read in the gap goes on after it"


@pytest.mark.parametrize(("position", "mask"), [(3180 + 6, 1), (3180 + 15, 1), (6386 + 7, 64), (0, 0x40), (12, 0x80)])
def test_header_fields_outside_of_the_checksum_are_corrected_without_loss(
    position: int, mask: int, tmp_path: Path
) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    before = contents(folder)
    flip(folder / f"{NONE}.log", position, mask)
    result = repair(folder, tmp_path / "copy")
    assert result.is_sound
    assert result.lost == []
    assert contents(folder)[f"{NONE}.log"] == before[f"{NONE}.log"]


def test_no_offset_is_reused_after_losing_the_end(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    flip(folder / f"{NONE}.log", 23000)
    result = repair(folder, tmp_path / "copy")
    assert result.is_sound
    (lost,) = result.lost
    assert (lost.first_offset, lost.end_offset) == (280, 300)
    assert (folder / "v2-none-0/00000000000000000300.log").stat().st_size == 0
    log = opened(folder / "v2-none-0")
    assert (log.start_offset, log.end_offset) == (0, 300)


def test_a_missing_last_segment(tmp_path: Path) -> None:
    folder = some_of("2.8", tmp_path, "v0-none-0")
    for path in (folder / "v0-none-0").glob("00000000000000000160.*"):
        path.unlink()
    assert not verify(folder).is_sound
    result = repair(folder, tmp_path / "copy")
    assert result.is_sound, result.after
    assert opened(folder / "v0-none-0").end_offset == 300
    assert offsets_of(folder / "v0-none-0") == list(range(160))


def test_every_log_file_gone(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    for path in (folder / "v2-none-0").glob("0*"):
        path.unlink()
    assert not verify(folder).is_sound
    assert repair(folder, tmp_path / "copy").is_sound
    assert opened(folder / "v2-none-0").end_offset == 300


def test_producers_of_the_snapshot_are_retained(tmp_path: Path) -> None:
    """A producer that continues after the repair is still known by its last batch."""
    folder = some_of("4.3", tmp_path, "txn-0")
    flip(folder / f"{TXN}.log", -100)
    snapshot = (folder / "txn-0/00000000000000000267.snapshot").read_bytes()
    transactions = (folder / f"{TXN}.txnindex").read_bytes()
    result = repair(folder, tmp_path / "copy")
    assert result.is_sound, result.after
    assert (folder / "txn-0/00000000000000000267.snapshot").read_bytes() == snapshot
    assert (folder / f"{TXN}.txnindex").read_bytes() == transactions


def test_a_wrong_length_costs_one_batch(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    put(folder / f"{NONE}.log", 3188, b"\x7f")
    (lost,) = repair(folder, tmp_path / "copy").lost
    assert (lost.first_offset, lost.end_offset, lost.size) == (40, 80, 3206)


SHOVELLED = [
    ("4.3", "v2-none-0"),
    ("4.3", "txn-0"),
    ("2.8", "compacted-0"),
    ("2.8", "v0-none-0"),
    ("2.8", "v1-gzip-0"),
    ("2.8", "txn-0"),
]
SHOVELLED_ALWAYS = [("4.3", "txn-0"), ("2.8", "v1-gzip-0")]


@pytest.mark.parametrize(("version", "partition"), corners(SHOVELLED, *SHOVELLED_ALWAYS))
def test_any_combination_of_damage(version: str, partition: str, tmp_path: Path) -> None:
    """Bytes overwritten, removed and added anywhere: a repair leaves no damage, invents nothing."""
    rng = random.Random(f"{version} {partition}")
    for number in range(5):
        folder = lean(version, tmp_path / str(number), partition)
        before = {record.offset: record for record in open_log(folder / partition)}
        for path in rng.sample(sorted((folder / partition).iterdir()), 3):
            path.write_bytes(shovelled(path.read_bytes(), rng))
        result = repair(folder, tmp_path / str(number) / "copy", deep=True)
        assert result.is_sound, (number, result)
        assert all(before[record.offset] == record for record in open_log(folder / partition))
        assert repair(folder, tmp_path / str(number) / "again", deep=True).done == []


def lean(version: str, target: Path, partition: str) -> Path:
    """A copy without the files that compaction left, which take long to copy."""
    target.mkdir()
    folder = some_of(version, target, partition)
    for path in (folder / partition).glob("*.deleted"):
        path.unlink()
    return folder


def shovelled(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    kind = rng.random()
    if kind < 0.2:
        del changed[rng.randint(0, len(changed)) :]
    elif kind < 0.4:
        changed += rng.choice((bytes(100), rng.randbytes(100)))
    else:
        for _ in range(3):
            start = rng.randint(0, len(changed))
            changed[start : start + rng.randint(1, 50)] = rng.randbytes(rng.randint(1, 50))
    return bytes(changed)


@pytest.mark.parametrize(("version", "partition"), corners(SHOVELLED, *SHOVELLED_ALWAYS))
def test_only_damaged_batches_are_lost_and_every_loss_is_reported(version: str, partition: str, tmp_path: Path) -> None:
    rng = random.Random(f"{version} {partition}")
    for number in range(5):
        folder = lean(version, tmp_path / str(number), partition)
        path = rng.choice(sorted((folder / partition).glob("*.log")))
        batches = [
            (one.position, one.end, offsets_in(one), Path(one.location).name)
            for one in open_log(folder / partition).batches()
        ]
        start, size = rng.randrange(path.stat().st_size), rng.choice((1, 8, 600))
        size = min(size, path.stat().st_size - start)
        put(path, start, rng.randbytes(size))
        hit = {
            at
            for begin, end, offsets, name in batches
            if name == path.name and begin < start + size and start < end
            for at in offsets
        }
        everything = {offset for _, _, offsets, _ in batches for offset in offsets}
        result = repair(folder, tmp_path / str(number) / "copy")
        left = {offset for one in open_log(folder / partition).batches() for offset in offsets_in(one)}
        assert everything - hit <= left
        told = {offset for one in result.lost for offset in range(one.first_offset, one.end_offset or one.first_offset)}
        assert everything - left <= told


def offsets_in(batch: Batch) -> set[int]:
    return {record.offset for record in batch.records()}


def test_a_valid_folder_is_neither_copied_nor_changed(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "txn-0")
    before = contents(folder)
    result = repair(folder, tmp_path / "copy")
    assert (result.copy, result.done, result.after) == (None, [], None)
    assert not (tmp_path / "copy").exists()
    assert contents(folder) == before


def test_a_dry_run_reports_losses_and_changes_nothing(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    flip(folder / f"{NONE}.log", 23000)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    result = repair(folder, None, dry_run=True)
    assert [(lost.first_offset, lost.end_offset) for lost in result.lost] == [(280, 300)]
    assert not result.is_sound
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_valid_partitions_are_neither_copied_nor_changed(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0", "txn-0")
    before = contents(folder / "txn-0")
    flip(folder / f"{NONE}.log", 3300)
    repair(folder, tmp_path / "copy")
    assert contents(folder / "txn-0") == before
    assert {path.name for path in (tmp_path / "copy").iterdir() if path.is_dir()} == {"v2-none-0"}


def test_the_copy_is_a_data_folder_itself(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    flip(folder / f"{NONE}.log", 3300)
    damaged = verify(folder)
    repair(folder, tmp_path / "copy")
    assert verify(tmp_path / "copy").errors == damaged.errors


def test_records_that_cannot_be_read_are_cut_deep_down_only(tmp_path: Path) -> None:
    from crc32c import crc32c

    folder = some_of("4.3", tmp_path, "v2-none-0")
    path = folder / f"{NONE}.log"
    put(path, 61, b"\x7f")
    data = path.read_bytes()
    put(path, 17, struct.pack(">I", crc32c(data[21:3180])))
    assert repair(folder, tmp_path / "copy").lost == []
    (lost,) = repair(folder, tmp_path / "copy", deep=True).lost
    assert (lost.first_offset, lost.end_offset) == (0, 40)


def test_a_topic_id_comes_from_another_partition(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-three-partitions-0", "v2-three-partitions-1")
    path = folder / "v2-three-partitions-1/partition.metadata"
    right = path.read_bytes()
    flip(path, 0)
    assert repair(folder, tmp_path / "copy").is_sound
    assert path.read_bytes() == right
    shutil.rmtree(folder / "v2-three-partitions-0")
    flip(path, 0)
    assert repair(folder, tmp_path / "again").is_sound
    assert not path.exists()


def test_a_file_of_a_wrong_name_is_not_emptied(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    (folder / f"{NONE}.log").rename(folder / "v2-none-0/00000000000000001000.log")
    result = repair(folder, tmp_path / "copy")
    assert not result.is_sound
    assert result.lost == []
    (why,) = result.failed
    assert (
        "v2-none-0/00000000000000001000.log holds offsets 0 to 39 at position 0, where offsets from 1000 on can be"
        in why
    )
    assert (folder / "v2-none-0/00000000000000001000.log").stat().st_size == 24560


# --- refusals


def damaged(tmp_path: Path) -> Path:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    flip(folder / f"{NONE}.log", 3300)
    return folder


def test_a_running_broker_prevents_repairs(tmp_path: Path) -> None:
    folder = damaged(tmp_path)
    before = contents(folder)
    lock = LocalStorage(folder).lock(LOCK)
    for path in (folder, folder / "v2-none-0"):
        with pytest.raises(FolderInUse):
            repair(path, tmp_path / "copy")
    lock.release()
    assert contents(folder) == before
    assert not (tmp_path / "copy").exists()


def test_invalid_backup_locations(tmp_path: Path) -> None:
    folder = damaged(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    (tmp_path / "file").touch()
    for place in (
        tmp_path / "full",
        tmp_path / "file",
        folder,
        folder / "copy",
        folder / "v2-none-0",
        tmp_path / "no/such/folder",
        None,
    ):
        with pytest.raises((RepairRefused, StorageFailed)):
            repair(folder, place)
    (tmp_path / "empty").mkdir()
    assert repair(folder, tmp_path / "empty").is_sound


class Full(LocalStorage):
    def free_bytes(self) -> int:
        return 1_000_000


def test_missing_space_is_detected_before_any_change(tmp_path: Path) -> None:
    folder = damaged(tmp_path)
    before = contents(folder)
    with pytest.raises(RepairRefused, match="1000000 are free"):
        repair_storage(LocalStorage(folder), None, Full(tmp_path), "copy")
    assert not (tmp_path / "copy").exists()
    assert contents(folder) == before


def test_a_torn_tail_after_a_crash_is_left_to_the_next_start(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    (folder / ".kafka_cleanshutdown").unlink()
    (folder / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    cut(folder / f"{NONE}.log", -20)
    cut(folder / f"{NONE}.index", 48)
    cut(folder / f"{NONE}.timeindex", 72)
    assert repair(folder, tmp_path / "copy").done == []


def test_a_failed_partition_does_not_stop_the_others(tmp_path: Path) -> None:
    folder = some_of("2.8", tmp_path, "v0-none-0", "v2-none-0")
    (folder / "v0-none-0/00000000000000000160.log").rename(folder / "v0-none-0/00000000000000000200.log")
    cut(folder / "v2-none-0/00000000000000000000.log", 3000)
    result = repair(folder, tmp_path / "copy")
    assert not result.is_sound
    assert [failed.partition(":")[0] for failed in result.failed] == ["v0-none-0"]
    assert offsets_of(folder / "v2-none-0") == list(range(200, 300))
    assert verify(folder / "v2-none-0").is_sound
