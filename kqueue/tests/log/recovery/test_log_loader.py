from __future__ import annotations

import random

import pytest

from kqueue.base.errors import CorruptBatch
from kqueue.log.formats.filenames import SNAPSHOT, file_name
from kqueue.log.log import Log
from kqueue.records.batch import ABORT, check_crc, iter_batches, iter_records
from kqueue.storage import File, MemoryStorage
from kqueue.testing.faulty_storage import FaultyStorage, Remains
from kqueue.tests.log.helpers import START_MS, append, batch, check_log, end_transaction, flush, open_log, read_values
from kqueue.tests.tables import for_each

SETTINGS = {"segment_bytes": 400, "index_interval_bytes": 100}


def filled(storage: MemoryStorage | FaultyStorage, count: int = 12) -> Log:
    """A log of several segments, with a producer, epochs and an aborted transaction."""
    log = open_log(storage, **SETTINGS)
    for number in range(count):
        append(
            log,
            b"%03d" % number,
            producer_id=1,
            epoch=0,
            base_sequence=number,
            leader_epoch=number // 4,
            time_ms=START_MS + number,
        )
    append(log, b"x", producer_id=2, epoch=0, base_sequence=0, transactional=True, leader_epoch=3)
    end_transaction(log, ABORT, 2, leader_epoch=3)
    return log


def path(base: int, suffix: str) -> str:
    return f"t-0/{file_name(base, suffix)}"


def overwrite(storage: MemoryStorage, name: str, position: int, data: bytes) -> None:
    file = storage.open(name)
    whole = bytearray(file.read_at(0, file.size))
    whole[position : position + len(data)] = data
    file.truncate(0)
    file.append(whole)


def last_segment(log: Log) -> int:
    return log.segments[-1].base


def test_a_clean_start_reads_almost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    log = open_log(storage)
    for number in range(3000):
        append(log, b"x" * 100, time_ms=START_MS + number)
    log.close()
    read = 0
    original = type(storage.open(path(0, ".log"))).read_at

    def counted(self: File, position: int, size: int) -> bytes:
        nonlocal read
        data = original(self, position, size)  # type: ignore[arg-type]
        read += len(data)
        return data

    monkeypatch.setattr(type(storage.open(path(0, ".log"))), "read_at", counted)
    log = open_log(storage, clean=True)
    assert log.end_offset == 3000
    assert log.segments.size > 400_000
    assert read < 20_000


@for_each("kept", [0, 1, 16, 17, 30, 60, 61, 62, 70])
def test_a_torn_tail_is_cut_after_the_last_whole_batch(kept: int) -> None:
    """S5.3"""
    storage = MemoryStorage()
    log = filled(storage)
    torn = batch(b"torn" * 5)
    storage.open(path(last_segment(log), ".log")).append(torn[:kept])
    log = open_log(storage, **SETTINGS)
    assert log.end_offset == 14
    assert log.segments.size == sum(entry.size for entry in storage.list("t-0") if entry.name.endswith(".log"))
    assert log.damage == []
    check_log(log)
    assert append(log, b"new", leader_epoch=3).base_offset == 14


def damaged(storage: MemoryStorage) -> dict[str, bytes]:
    """What was set aside."""
    return {entry.name: storage.read(f"t-0/{entry.name}") for entry in storage.list("t-0") if ".damaged" in entry.name}


def test_a_batch_with_wrong_bytes_ends_the_log_and_the_rest_is_quarantined(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """S5.3"""
    storage = MemoryStorage()
    log = filled(storage)
    flush(log)
    bases = [segment.base for segment in log.segments]
    whole = storage.read(path(bases[-2], ".log"))
    last = storage.read(path(bases[-1], ".log"))
    overwrite(storage, path(bases[-2], ".log"), 65, b"\xff")
    torn = storage.read(path(bases[-2], ".log"))
    log = open_log(storage, recovery_point=bases[-2], **SETTINGS)
    assert log.end_offset == bases[-2]
    assert [segment.base for segment in log.segments] == bases[:-1]
    assert read_values(log) == [b"%03d" % number for number in range(bases[-2])]
    check_log(log)
    assert "checksum" in caplog.text
    assert log.damage == []
    first = next(iter(dict(iter_batches(whole)).values()))
    assert damaged(storage) == {f"{bases[-2]:020d}.log.damaged": torn, f"{bases[-1]:020d}.log.damaged": last}
    assert torn[first.size :] == whole[first.size :], "whole batches that follow are kept, not only segments"
    again = open_log(storage, **SETTINGS)
    assert again.end_offset == bases[-2]
    assert len(damaged(storage)) == 2


def test_damage_before_the_last_two_segments_is_no_torn_end() -> None:
    """S5.3: they were flushed before the last one was begun, whatever the recovery point says."""
    storage = MemoryStorage()
    log = filled(storage, 24)
    second = log.segments[1].base
    assert len(log.segments) > 3
    overwrite(storage, path(second, ".log"), 65, b"\xff")
    damaged_bytes = storage.read(path(second, ".log"))
    log = open_log(storage, recovery_point=0, **SETTINGS)
    assert log.end_offset == 26
    assert storage.read(path(second, ".log")) == damaged_bytes
    assert damaged(storage) == {}
    (damage,) = log.damage
    assert (damage.file, damage.position) == (path(second, ".log"), 0)
    assert "checksum" in damage.expected
    for offset in range(26):
        if offset == second:
            with pytest.raises(CorruptBatch, match=rf"{second:020d}.log at position 0"):
                log.read(offset, 1, end_offset=26)
        else:
            fetched = log.read(offset, 1, end_offset=26)
            assert fetched.check is None, "what recovery has looked at is known, and needs no second look"
            assert fetched.next_offset == offset + 1
    assert values_from(log, second + 1)[0] == b"%03d" % (second + 1)
    assert log.damage == [damage]


def values_from(log: Log, offset: int) -> list[bytes | None]:
    """What a reader gets who begins at `offset` and checks checksums, as clients do."""
    values = []
    fetched = log.read(offset, 1 << 20, end_offset=log.end_offset)
    data = fetched.read()
    for position, header in iter_batches(data):
        check_crc(data, position, header)
        values += [record.value for record in iter_records(data, position)]
    return values


@for_each("clean", [True, False])
def test_lost_flushed_records_are_reported_and_their_offsets_are_not_reused(clean: bool) -> None:
    """S5.3"""
    storage = MemoryStorage()
    log = filled(storage)
    base = last_segment(log)
    storage.open(path(base, ".log")).truncate(10)
    log = open_log(storage, recovery_point=14, clean=clean, **SETTINGS)
    assert log.end_offset == 14
    assert f"records up to offset 14, which were flushed, found an end at offset {base}" in str(log.damage[-1])
    assert append(log, b"new", leader_epoch=3).base_offset == 14
    assert storage.read(path(base, ".log")) != b"", "nothing is removed"
    again = open_log(storage, recovery_point=15, **SETTINGS)
    assert again.end_offset == 15
    assert values_from(again, 14) == [b"new"]


@for_each("clean", [True, False])
def test_a_recovery_point_that_contradicts_log_and_high_watermark_is_ignored(clean: bool) -> None:
    storage = MemoryStorage()
    filled(storage).close()
    log = open_log(storage, recovery_point=914, high_watermark=14, clean=clean, **SETTINGS)
    assert (log.start_offset, log.end_offset) == (0, 14)
    assert "expected a recovery point of 14 at most, found 914" in str(log.damage[0])
    check_log(log)


def test_a_log_start_that_contradicts_everything_else_is_ignored() -> None:
    storage = MemoryStorage()
    filled(storage).close()
    log = open_log(storage, recovery_point=14, high_watermark=14, clean=True, start_offset=95, **SETTINGS)
    assert (log.start_offset, log.end_offset) == (0, 14)
    assert "expected a log start of 14 at most, found 95" in str(log.damage[0])
    check_log(log)


def test_a_folder_that_contradicts_its_clean_stop_is_recovered(caplog: pytest.LogCaptureFixture) -> None:
    storage = MemoryStorage()
    log = filled(storage)
    log.close()
    storage.open(path(last_segment(log), ".log")).append(b"torn")
    log = open_log(storage, clean=True, recovery_point=14, **SETTINGS)
    assert log.end_offset == 14
    assert "was stopped cleanly, but" in caplog.text
    check_log(log)


@for_each("suffix", [".index", ".timeindex"])
@for_each("clean", [True, False])
@for_each("damage", ["missing", "odd size"])
def test_missing_or_corrupt_indexes_are_rebuilt(suffix: str, clean: bool, damage: str) -> None:
    storage = MemoryStorage()
    filled(storage).close()
    for entry in storage.list("t-0"):
        if entry.name.endswith(suffix):
            if damage == "missing":
                storage.remove(f"t-0/{entry.name}")
            else:
                storage.open(f"t-0/{entry.name}").append(b"odd")
    log = open_log(storage, clean=clean, recovery_point=14, **SETTINGS)
    assert log.end_offset == 14
    check_log(log)


def test_a_sealed_segment_without_an_index_that_is_damaged_is_indexed_around_the_damage() -> None:
    """S5.3, S3.4"""
    storage = MemoryStorage()
    filled(storage).close()
    storage.remove(path(0, ".index"))
    overwrite(storage, path(0, ".log"), 8, b"\xff")
    log = open_log(storage, recovery_point=14, **SETTINGS)
    (damage,) = log.damage
    assert (damage.file, damage.position) == (path(0, ".log"), 0)
    assert values_from(log, 1)[0] == b"001"
    assert log.segments.size == sum(entry.size for entry in storage.list("t-0") if entry.name.endswith(".log"))


def test_missing_offsets_among_what_was_not_flushed_end_the_log() -> None:
    storage = MemoryStorage()
    log = filled(storage)
    bases = [segment.base for segment in log.segments]
    last = storage.read(path(bases[-1], ".log"))
    storage.open(path(bases[-2], ".log")).truncate(0)
    log = open_log(storage, recovery_point=bases[-2], **SETTINGS)
    assert (log.end_offset, [segment.base for segment in log.segments]) == (bases[-2], bases[:-1])
    check_log(log)
    assert damaged(storage) == {f"{bases[-1]:020d}.log.damaged": last}


def test_on_a_compacted_topic_segments_may_have_gaps_between_them() -> None:
    storage = MemoryStorage()
    log = filled(storage)
    bases = [segment.base for segment in log.segments]
    storage.open(path(bases[1], ".log")).truncate(0)
    log = open_log(storage, recovery_point=0, cleanup_policy="compact", **SETTINGS)
    assert log.end_offset == 14
    gone = range(bases[1], bases[2])
    assert read_values(log)[:-2] == [b"%03d" % number for number in range(12) if number not in gone]
    fetched = log.read(gone[0], 1000, end_offset=14)
    assert fetched.segment_base == bases[2], "a read in the gap goes on after it"


def test_offsets_that_run_backwards_end_the_log() -> None:
    storage = MemoryStorage()
    log = open_log(storage)
    append(log, b"a", b"b")
    size = log.segments.size
    storage.open(path(0, ".log")).append(batch(b"c", base_offset=1))
    log = open_log(storage)
    assert (log.end_offset, log.segments.size) == (2, size)


def test_temporary_files_are_removed() -> None:
    storage = MemoryStorage()
    filled(storage).close()
    digits = "0" * 18
    left = [f"{digits}00.log.deleted", f"{digits}01.index.cleaned", "leader-epoch-checkpoint.tmp", f"{digits}99.index"]
    for name in left:
        storage.open(f"t-0/{name}", create=True)
    storage.open("t-0/partition.metadata", create=True)
    open_log(storage, clean=True, **SETTINGS)
    names = [entry.name for entry in storage.list("t-0")]
    assert not set(left) & set(names)
    assert "partition.metadata" in names


@for_each("clean", [True, False])
def test_an_interrupted_compaction_is_completed(clean: bool) -> None:
    """S5.2: the new segment stands for all that begin within it, ours or Kafka's."""
    storage = MemoryStorage()
    log = filled(storage)
    bases = [segment.base for segment in log.segments]
    log.close()
    kept = batch(b"kept", base_offset=bases[1] - 2) + batch(b"last", base_offset=bases[2] - 1)
    for suffix, data in ((".log", bytes(kept)), (".index", b""), (".timeindex", b"")):
        storage.open(path(0, suffix) + ".swap", create=True).append(data)
    storage.open(path(bases[2], ".log") + ".cleaned", create=True).append(b"half of the next group")
    log = open_log(storage, clean=clean, recovery_point=14, cleanup_policy="compact", **SETTINGS)
    assert [segment.base for segment in log.segments] == [0, bases[2]]
    assert read_values(log)[:2] == [b"kept", b"last"]
    assert log.end_offset == 14
    assert log.damage == []
    assert not [entry.name for entry in storage.list("t-0") if entry.name.endswith((".swap", ".cleaned", ".deleted"))]


def test_corrupt_epochs_are_rebuilt_from_the_batches(caplog: pytest.LogCaptureFixture) -> None:
    storage = MemoryStorage()
    log = filled(storage)
    log.close()
    entries = log.epochs.entries()
    storage.write_atomic("t-0/leader-epoch-checkpoint", b"junk")
    again = open_log(storage, clean=True, recovery_point=14, **SETTINGS)
    assert again.epochs.entries() == entries == [(0, 0), (1, 4), (2, 8), (3, 12)]
    assert "leader-epoch-checkpoint: expected what the batches say, found" in caplog.text


def test_epochs_of_truncated_batches_are_dropped() -> None:
    storage = MemoryStorage()
    log = filled(storage)
    flush(log)
    log.truncate_to(9)
    append(log, b"other", leader_epoch=3)
    log = open_log(storage, recovery_point=9, **SETTINGS)
    assert log.epochs.entries() == [(0, 0), (1, 4), (2, 8), (3, 9)], "not from 12 on, as the file says still"
    check_log(log)


@for_each("clean", [True, False])
def test_a_corrupt_snapshot_costs_only_reading(clean: bool) -> None:
    storage = MemoryStorage()
    log = filled(storage)
    log.close()
    overwrite(storage, path(14, SNAPSHOT), 12, b"\xff\xff")
    log = open_log(storage, clean=clean, recovery_point=14, **SETTINGS)
    assert append(log, b"011", producer_id=1, epoch=0, base_sequence=11).duplicate
    check_log(log)


def test_snapshots_of_the_future_and_strays_are_removed() -> None:
    storage = MemoryStorage()
    log = filled(storage)
    log.close()
    snapshot = storage.read(path(14, SNAPSHOT))
    for offset in (1, 500):
        storage.open(path(offset, SNAPSHOT), create=True).append(snapshot)
    open_log(storage, clean=True, **SETTINGS)
    assert not storage.exists(path(1, SNAPSHOT))
    assert not storage.exists(path(500, SNAPSHOT))
    assert storage.exists(path(14, SNAPSHOT))


def test_without_any_snapshot_producers_come_from_all_batches() -> None:
    storage = MemoryStorage()
    filled(storage).close()
    for entry in storage.list("t-0"):
        if entry.name.endswith(SNAPSHOT):
            storage.remove(f"t-0/{entry.name}")
    for clean in (True, False):
        check_log(open_log(storage, clean=clean, recovery_point=14, **SETTINGS))


def test_a_log_that_ends_before_its_start_continues_there_and_keeps_its_files() -> None:
    storage = MemoryStorage()
    filled(storage).close()
    size = storage.open(path(0, ".log")).size
    log = open_log(storage, start_offset=50, recovery_point=14, high_watermark=50, **SETTINGS)
    assert (log.start_offset, log.end_offset) == (50, 50)
    assert append(log, b"a", leader_epoch=4).base_offset == 50
    assert storage.open(path(0, ".log")).size == size
    assert read_values(log) == [b"a"]


def test_a_checkpointed_start_hides_earlier_records() -> None:
    storage = MemoryStorage()
    filled(storage).close()
    log = open_log(storage, clean=True, start_offset=5, **SETTINGS)
    assert log.start_offset == 5
    assert read_values(log)[0] == b"005"


def test_the_recovered_state_is_flushed() -> None:
    """After a crash of the process alone the bytes may be in the page cache only."""
    storage = FaultyStorage()
    filled(storage)
    storage.steps.clear()
    log = open_log(storage, **SETTINGS)
    assert log.flushed_offset == log.end_offset == 14
    synced = {step.path for step in storage.steps if step.kind == "sync"}
    assert {path(segment.base, ".log") for segment in log.segments} <= synced
    assert {path(segment.base, SNAPSHOT) for segment in log.segments[1:]} <= synced  # type: ignore[attr-defined]
    assert {step.path for step in storage.steps if step.kind == "sync_folder"} == {"t-0", ""}


def test_unsynced_names_are_synced_after_a_crash() -> None:
    storage = FaultyStorage()
    log = open_log(storage, **SETTINGS)
    append(log, b"a")
    flush(log)
    log.roll()
    append(log, b"b")
    log = open_log(storage, recovery_point=1, **SETTINGS)
    assert log.flushed_offset == 2
    left = storage.after_cut(Remains.LOST, random.Random(1))
    assert read_values(open_log(left, recovery_point=2, **SETTINGS)) == [b"a", b"b"]


def test_only_segments_from_the_recovery_point_on_are_touched() -> None:
    storage = FaultyStorage()
    log = filled(storage)
    bases = [segment.base for segment in log.segments]
    flush(log)
    storage.steps.clear()
    open_log(storage, recovery_point=14, **SETTINGS)
    touched = {step.path for step in storage.steps if step.path.endswith((".log", "index"))}
    assert touched
    assert all(f"{bases[-1]:020d}" in name for name in touched)


# --- segments that are gone


def stopped(storage: MemoryStorage, clean: bool) -> list[int]:
    """The bases of a log's segments, after a stop or a crash of the process."""
    log = filled(storage)
    flush(log)
    if clean:
        log.close()
    return [segment.base for segment in log.segments]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("names_index", [True, False])
def test_a_first_segment_that_was_removed_is_damage_and_the_rest_is_served(
    clean: bool, names_index: bool, caplog: pytest.LogCaptureFixture
) -> None:
    storage = MemoryStorage()
    bases = stopped(storage, clean)
    for suffix in (".log", ".index", ".timeindex") if names_index else (".log",):
        storage.remove(path(bases[0], suffix))
    log = open_log(storage, clean=clean, recovery_point=14, high_watermark=14, **SETTINGS)
    assert (
        f"{file_name(0, '.log')}: expected offsets 0 to {bases[1] - 1}, with which the log starts, found no such file"
        in caplog.text
    )
    assert len(log.damage) == 1
    assert (log.start_offset, log.end_offset) == (bases[1], 14)
    check_log(log)
    flush(log)
    log.close()
    again = open_log(storage, clean=True, recovery_point=14, start_offset=bases[1], **SETTINGS)
    assert again.damage == [], "said once"


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("number", [0, 1])
def test_a_sealed_segment_that_lost_all_its_bytes_is_damage(
    clean: bool, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    storage = MemoryStorage()
    bases = stopped(storage, clean)
    storage.open(path(bases[number], ".log")).truncate(0)
    log = open_log(storage, clean=clean, recovery_point=14, high_watermark=14, **SETTINGS)
    assert (
        f"expected batches with offsets {bases[number]} to {bases[number + 1] - 1}, found an empty file" in caplog.text
    )
    assert log.end_offset == 14
    assert values_from(log, bases[2])[0] == b"%03d" % bases[2]


@for_each("clean", [True, False])
def test_segments_that_retention_removed_are_not_reported(clean: bool) -> None:
    """The log start is checkpointed first; the epochs on disk may begin before it."""
    storage = MemoryStorage()
    bases = stopped(storage, clean)
    for suffix in (".log", ".index", ".timeindex"):
        storage.remove(path(bases[0], suffix))
    log = open_log(storage, clean=clean, recovery_point=14, start_offset=bases[1], **SETTINGS)
    assert log.damage == []
    assert log.start_offset == bases[1]


def test_missing_segments_behind_the_checkpointed_start_are_reported() -> None:
    storage = MemoryStorage()
    bases = stopped(storage, clean=True)
    for base in bases[:2]:
        storage.remove(path(base, ".log"))
    log = open_log(storage, clean=True, recovery_point=14, start_offset=bases[1] + 1, **SETTINGS)
    (damage,) = log.damage
    assert f"offsets {bases[1] + 1} to {bases[2] - 1}" in str(damage)
