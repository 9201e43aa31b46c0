from __future__ import annotations

import random

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.log.deletion import DeletedSegments
from kqueue.log.formats.filenames import LOG, SNAPSHOT, file_name
from kqueue.log.formats.producer_snapshot import decode_snapshot
from kqueue.log.log import Log
from kqueue.log.log_state import LogState
from kqueue.log.start_snapshot import start_snapshot_job
from kqueue.records.batch import ABORT, COMMIT
from kqueue.storage import MemoryStorage
from kqueue.storage.contract import Storage
from kqueue.testing.faulty_storage import FaultyStorage, Remains
from kqueue.tests.log.helpers import append, end_transaction, flush, keep_producers, open_log, run_job
from kqueue.tests.tables import for_each

SETTINGS = {"segment_bytes": 300, "index_interval_bytes": 0}
OPEN, IDLE = 9, 7


def filled(storage: Storage | None = None) -> Log:
    """A log whose last record is flushed; an idle producer, and one with an open transaction from
    offset 1 on.
    """
    log = open_log(storage or FaultyStorage(), **SETTINGS)
    append(log, b"a" * 50, producer_id=IDLE, epoch=2, base_sequence=0)
    append(log, b"b" * 50, producer_id=OPEN, epoch=5, base_sequence=0, transactional=True)
    for _ in range(4):
        append(log, b"c" * 100)
    flush(log)
    return log


def check_producers(log: Log) -> None:
    assert {(id, one.epoch, one.batches[-1].last_offset, one.transaction_offset) for id, one in log.producers.items()} \
        == {(IDLE, 2, 0, -1), (OPEN, 5, 1, 1)}  # fmt: skip
    assert log.producers.first_open() == 1


def delete_all(log: Log) -> DeletedSegments:
    log.roll()
    assert keep_producers(log, log.end_offset)
    deleted = log.delete_before(log.end_offset, high_watermark=log.end_offset, why="a test")
    assert deleted is not None
    return deleted


def reopened(log: Log, remains: Remains = Remains.LOST, **checkpoint: object) -> Log:
    assert isinstance(log.storage, FaultyStorage)
    facts = {"start_offset": log.start_offset, "recovery_point": log.end_offset, **checkpoint}
    return open_log(log.storage.after_cut(remains, random.Random(1)), **SETTINGS, **facts)  # type: ignore[arg-type]


def remove(storage: Storage, *offsets: int) -> None:
    for offset in offsets:
        storage.remove(f"t-0/{file_name(offset, SNAPSHOT)}")


def test_nothing_is_deleted_before_its_producers_are_durable() -> None:
    """S5.1"""
    log = filled()
    log.roll()
    assert log.delete_before(6, high_watermark=6, why="a test") is None
    assert (log.start_offset, log.segments.base_offset) == (0, 0)
    delete_all(log).rename()
    assert (log.start_offset, log.segments.base_offset) == (6, 6)
    for remains in Remains:
        check_producers(reopened(log, remains))


def test_a_flushed_snapshot_needs_no_job() -> None:
    log = filled()
    bases = [segment.base for segment in log.segments]
    assert len(bases) > 2
    for base in bases[1:]:
        assert start_snapshot_job(log, base, lambda error: None) is None
    steps = len(log.storage.steps)  # type: ignore[attr-defined]
    deleted = log.delete_before(bases[-1], high_watermark=6, why="a test")
    assert deleted is not None
    assert len(log.storage.steps) == steps  # type: ignore[attr-defined]
    deleted.rename()
    check_producers(reopened(log))


def test_a_flush_that_began_before_the_roll_does_not_count() -> None:
    log = filled()
    append(log, b"x")
    job = log.flush_job()
    log.roll()
    run_job(job)
    assert log.flushed_offset == log.end_offset == 7
    assert log.delete_before(7, high_watermark=7, why="a test") is None
    flush(log)  # which syncs what the roll wrote
    assert start_snapshot_job(log, 7, lambda error: None) is None
    deleted = log.delete_before(7, high_watermark=7, why="a test")
    assert deleted is not None
    deleted.rename()
    check_producers(reopened(log))


def test_without_producers_there_is_nothing_to_keep() -> None:
    log = open_log(FaultyStorage(), **SETTINGS)
    append(log, b"x")
    flush(log)
    log.roll()
    assert start_snapshot_job(log, 1, lambda error: None) is None
    assert log.delete_before(1, high_watermark=1, why="a test") is not None


def test_the_job_is_of_the_new_start_whatever_is_appended_meanwhile() -> None:
    """A second job is never needed, so that a deletion settles."""
    log = filled()
    log.roll()
    told: list[BaseException | None] = []
    job = start_snapshot_job(log, 6, told.append)
    append(log, b"x", producer_id=IDLE, epoch=2, base_sequence=1)
    run_job(job)
    append(log, b"y", producer_id=IDLE, epoch=2, base_sequence=2)
    assert told == [None]
    assert start_snapshot_job(log, 6, told.append) is None
    data = log.storage.read(f"t-0/{file_name(6, SNAPSHOT)}")
    assert decode_snapshot(data, 6).by_id[IDLE].batches[-1].last_sequence == 0
    deleted = log.delete_before(6, high_watermark=6, why="a test")
    assert deleted is not None
    deleted.rename()
    check_producers(reopened(log, recovery_point=6))


@for_each("left", [True, False])
@for_each("storage", [MemoryStorage, FaultyStorage])
def test_a_missing_snapshot_is_made_of_the_batches(storage: type[Storage], left: bool) -> None:
    """As in a folder that came without snapshots, or with one that is older."""
    log = filled(storage())
    offsets = [segment.base for segment in log.segments][1:]
    log.close()
    remove(log.storage, log.end_offset, *offsets[1 if left else 0 :])
    log = open_log(log.storage, **SETTINGS, clean=True, recovery_point=6)
    assert log._snapshots.offsets == offsets[: 1 if left else 0]
    last = offsets[-1]
    assert log.delete_before(last, high_watermark=6, why="a test") is None
    assert keep_producers(log, last)
    assert log._snapshots.offsets[-1] == last
    deleted = log.delete_before(last, high_watermark=6, why="a test")
    assert deleted is not None
    deleted.rename()
    log.truncate_to(last)
    check_producers(log)
    if storage is FaultyStorage:
        check_producers(reopened(log))


def test_a_corrupt_snapshot_is_made_again(caplog: pytest.LogCaptureFixture) -> None:
    log = filled()
    log.roll()
    log.storage.open(f"t-0/{file_name(6, SNAPSHOT)}").truncate(20)
    delete_all(log).rename()
    assert "an older snapshot is used" in caplog.text
    check_producers(reopened(log))


def test_after_a_failed_flush_the_snapshot_is_written_again() -> None:
    """No fsync is retried, so the file that the roll wrote may never be durable."""
    storage = FaultyStorage()
    log = filled(storage)
    log.roll()
    storage.fail("sync")
    job = log.flush_job()
    assert job is not None
    with pytest.raises(StorageFailed) as failed:
        job.run()
    job.finish(None, failed.value)
    storage.mend()
    assert log.health.state is LogState.READ_ONLY
    assert log.delete_before(6, high_watermark=6, why="a test") is None
    assert keep_producers(log, 6)
    deleted = log.delete_before(6, high_watermark=6, why="a test")
    assert deleted is not None
    deleted.rename()
    check_producers(reopened(log))


def test_a_job_that_fails_deletes_nothing_and_may_be_repeated() -> None:
    storage = FaultyStorage()
    log = filled(storage)
    log.roll()
    told: list[BaseException | None] = []
    job = start_snapshot_job(log, 6, told.append)
    assert job is not None
    storage.fail("sync")
    with pytest.raises(StorageFailed) as failed:
        job.run()
    job.finish(None, failed.value)
    storage.mend()
    assert told == [failed.value]
    assert log.delete_before(6, high_watermark=6, why="a test") is None
    delete_all(log).rename()
    check_producers(reopened(log))


def test_a_truncation_forgets_that_a_snapshot_was_durable() -> None:
    log = filled()
    log.roll()
    assert keep_producers(log, 6)
    log.truncate_to(5)
    append(log, b"other" * 20)
    flush(log)
    log.roll()
    assert log.delete_before(6, high_watermark=6, why="a test") is None
    delete_all(log).rename()
    check_producers(reopened(log))


@for_each("kind", [COMMIT, ABORT])
def test_a_transaction_ends_after_all_its_records_were_deleted(kind: int) -> None:
    log = filled()
    delete_all(log).rename()
    log = reopened(log)
    end_transaction(log, kind, OPEN, epoch=5)
    flush(log)
    for again in (log, reopened(log), reopened(log, recovery_point=6)):
        aborted = [(one.producer_id, one.first_offset) for one in again.reader.aborted(6, 7)]
        assert aborted == ([(OPEN, 1)] if kind == ABORT else [])
        assert again.producers.first_open() > 6


# --- what a start makes of it


@for_each("clean", [True, False])
def test_producers_outlive_starts_of_an_empty_log(clean: bool) -> None:
    log = filled()
    delete_all(log).rename()
    for _ in range(3):
        if clean:
            log.close()
        log = reopened(log, clean=clean)
        check_producers(log)
    log = reopened(log, Remains.TORN)
    check_producers(log)


def test_a_snapshot_that_only_the_page_cache_had_is_synced_by_the_start() -> None:
    """After a crash of the process alone."""
    log = filled()
    log.roll()
    storage = log.storage.after_cut(Remains.KEPT, random.Random(1))  # type: ignore[attr-defined]
    for segment in list(log.segments)[:-1]:
        for name in segment.files.names():
            storage.remove(f"t-0/{name}")
    path = f"t-0/{file_name(6, SNAPSHOT)}"
    data = storage.read(path)
    storage.remove(path)
    storage.open(path, create=True).append(data)
    log = open_log(storage, **SETTINGS, start_offset=6, recovery_point=6)
    check_producers(log)
    check_producers(reopened(log))


def test_half_deleted_segments_below_the_start_say_nothing_of_producers() -> None:
    log = filled()
    delete_all(log)
    storage = log.storage.after_cut(Remains.KEPT, random.Random(1))  # type: ignore[attr-defined]
    storage.rename(f"t-0/{file_name(0, LOG)}", f"t-0/{file_name(0, LOG)}.deleted")
    for recovery_point in (0, 6):
        again = storage.after_cut(Remains.KEPT, random.Random(1))
        log = open_log(again, **SETTINGS, start_offset=6, recovery_point=recovery_point)
        assert log.segments.base_offset < log.start_offset == 6
        check_producers(log)


def test_a_snapshot_is_used_where_all_segments_are_gone() -> None:
    log = filled()
    delete_all(log)
    storage = log.storage
    for entry in storage.list("t-0"):
        if not entry.name.endswith(SNAPSHOT):
            storage.remove(f"t-0/{entry.name}")
    storage.rename(f"t-0/{file_name(6, SNAPSHOT)}", f"t-0/{file_name(4, SNAPSHOT)}")
    log = open_log(storage, **SETTINGS, start_offset=6, recovery_point=6)
    assert (log.start_offset, log.end_offset) == (6, 6)
    check_producers(log)
    append(log, b"x")
    flush(log)
    append(log, b"y" * 300)  # rolls: only the snapshots of segments and the newest stay
    storage.sync_folder("t-0")
    check_producers(reopened(log, start_offset=6, recovery_point=7))
