from __future__ import annotations

import random
from pathlib import Path

import pytest

from kqueue.base.errors import FolderInUse, FolderLost, StorageFailed
from kqueue.base.sliced_task import run_to_end
from kqueue.log.config import LogConfig
from kqueue.log.formats.checkpoints import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, decode_offsets
from kqueue.log.log import Log
from kqueue.log.manager import LogManager
from kqueue.storage import LocalStorage, MemoryStorage, Storage
from kqueue.testing.faulty_storage import FaultyStorage, Remains
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.stepped_jobs import SteppedJobs
from kqueue.tests.log.helpers import (
    START_MS,
    append,
    flush,
    log_dirs,
    note_high_watermarks,
    read_values,
    run_job,
    run_through,
)
from kqueue.tests.tables import for_each

ID = bytes(range(16))
OTHER_ID = bytes(16)
CONFIG = LogConfig.of()


def start(*storages: Storage, seed: int = 3, **settings: object) -> LogManager:
    return LogManager(storages, clock=ManualClock(START_MS), rng=random.Random(seed), **settings)  # type: ignore[arg-type]


def log_of(manager: LogManager, topic: str = "t", partition: int = 0) -> Log:
    return manager.open(topic, partition, ID, CONFIG)


def high_watermark(manager: LogManager, key: tuple[str, int]) -> int | None:
    return next((folder.high_watermarks[key] for folder in manager._folders if key in folder.high_watermarks), None)


def test_logs_are_opened_once_and_found_again_after_a_restart() -> None:
    storage = MemoryStorage()
    manager = start(storage)
    log = log_of(manager)
    assert log_of(manager) is log
    append(log, b"hello")
    note_high_watermarks(manager, {("t", 0): 1}).close()
    manager = start(storage)
    assert not manager.was_unclean
    assert manager.partition_folders() == {("t", 0): ("t-0", ID)}
    assert manager.has("t", 0)
    assert not manager.has("t", 1)
    assert high_watermark(manager, ("t", 0)) == 1
    assert high_watermark(manager, ("u", 0)) is None
    assert read_values(log_of(manager)) == [b"hello"]


def test_marks_of_a_clean_stop_name_the_broker_epoch() -> None:
    """Kafka's file. A start that fails before it has an epoch of its own leaves what it found."""
    storages = MemoryStorage(), MemoryStorage()
    manager = start(*storages)
    log_of(manager)
    assert manager.stopped_epochs == (-1, -1)
    assert len(set(manager.directory_ids)) == 2
    manager.broker_epoch = 7
    manager.close()
    for _ in range(2):
        manager = start(*storages)
        assert manager.stopped_epochs == (7, 7)
        manager.close()
    start(*storages)
    assert not any(storage.exists(".kafka_cleanshutdown") for storage in storages), "a crash leaves no mark"


def test_making_a_partition_makes_its_folder_and_no_log() -> None:
    storage = MemoryStorage()
    manager = start(storage)
    manager.create("t", 3, ID)
    assert [entry.name for entry in storage.list("t-3")] == ["partition.metadata"]
    log_of(manager, "t", 3)
    assert len(storage.list("t-3")) == 4


def test_new_partitions_go_to_the_emptiest_folder_and_stay_there() -> None:
    storages = [MemoryStorage(), MemoryStorage()]
    manager = start(*storages)
    for number in range(5):
        manager.create("t", number, ID)
    counts = [sum(entry.is_folder for entry in storage.list("")) for storage in storages]
    assert sorted(counts) == [2, 3]
    append(log_of(manager, "t", 4), b"x")
    manager.close()
    manager = start(*reversed(storages))
    assert len(manager.partition_folders()) == 5
    assert read_values(log_of(manager, "t", 4)) == [b"x"]


def test_folders_of_one_broker_share_the_cluster() -> None:
    storages = [MemoryStorage(), MemoryStorage()]
    manager = start(*storages)
    assert storages[0].read("meta.properties") != storages[1].read("meta.properties"), "each has its own directory.id"
    cluster_id = manager.cluster_id
    manager.close()
    manager = start(MemoryStorage(), *storages, seed=4)  # a new directory.id
    assert manager.cluster_id == cluster_id, "also where a new folder comes first"
    manager.close()
    with pytest.raises(StorageFailed, match="belongs to cluster"):
        start(storages[1], cluster_id="B" * 22)


def test_the_folders_are_locked_between_start_and_close(tmp_path: Path) -> None:
    manager = start(LocalStorage(tmp_path))
    with pytest.raises(FolderInUse):
        start(LocalStorage(tmp_path))
    manager.close()
    manager.close()
    start(LocalStorage(tmp_path)).close()


def test_the_logs_of_a_lost_folder_are_offline_and_the_other_folder_serves() -> None:
    lost, kept = FaultyStorage(), FaultyStorage()
    manager = start(lost, kept, jobs=(jobs := SteppedJobs()))
    for number in range(2):
        manager.create("t", number, ID)
    logs = [log_of(manager, "t", number) for number in range(2)]
    lost.lock_problem = FolderLost("another process has it")
    manager.check_locks()
    jobs.run_all()
    steps = len(lost.steps)
    gone = next(log for log in logs if log.health.failure is not None)
    (other,) = (log for log in logs if log is not gone)
    for use in (lambda: append(gone, b"x"), lambda: gone.read(0, 1000, end_offset=0)):
        with pytest.raises(FolderLost, match="another process"):
            use()
    append(other, b"x")
    manager.create("t", 2, ID)
    log_of(manager, "t", 2)
    with pytest.raises(FolderLost):
        manager.close()
    assert len(lost.steps) == steps
    assert kept.exists(".kafka_cleanshutdown")
    assert not lost.exists(".kafka_cleanshutdown")


def test_the_locks_are_checked_once_more_before_the_stop_is_marked_clean() -> None:
    storage = FaultyStorage()
    manager = start(storage)
    append(log_of(manager), b"x")
    storage.lock_problem = FolderLost("another process has it")
    steps = len(storage.steps)
    with pytest.raises(FolderLost):
        manager.close()
    assert len(storage.steps) == steps


def test_another_topics_folder_is_not_opened() -> None:
    manager = start(MemoryStorage())
    manager.create("t", 0, OTHER_ID)
    with pytest.raises(StorageFailed, match="t-0 is of topic id"):
        log_of(manager)


def test_a_folder_without_an_id_gets_the_topics() -> None:
    storage = MemoryStorage()
    storage.make_folder("t-0")
    manager = start(storage)
    log_of(manager)
    manager.close()
    assert start(storage).partition_folders()[("t", 0)].topic_id == ID


def test_deleting_takes_the_partition_away_at_once_and_its_files_in_a_job() -> None:
    storage, jobs = FaultyStorage(), SteppedJobs()
    manager = start(storage, jobs=jobs)
    log = log_of(manager)
    append(log, b"x")
    assert manager.delete("t", 0)
    assert manager.partition_folders() == {}
    with pytest.raises(StorageFailed):
        append(log, b"y")
    assert log_of(manager).end_offset == 0, "a new one of the same name begins empty"
    (new, left) = [entry.name for entry in storage.list("") if entry.is_folder]
    assert new == "t-0"
    assert left.startswith("t-0.")
    assert left.endswith("-delete")
    jobs.run_all()
    assert [entry.name for entry in storage.list("") if entry.is_folder] == ["t-0"]
    assert not manager.delete("nothing", 0)


def test_a_deletion_that_fails_is_told(caplog: pytest.LogCaptureFixture) -> None:
    storage = FaultyStorage()
    manager = start(storage)
    manager.create("t", 0, ID)
    storage.fail("remove")
    manager.delete("t", 0)
    assert "could not be removed, the next start tries again" in caplog.text


def test_a_flush_that_meets_a_deletion_does_no_harm() -> None:
    jobs = SteppedJobs()
    manager = start(FaultyStorage(), jobs=jobs)
    log = log_of(manager)
    append(log, b"x")
    flushing = log.flush_job()
    manager.delete("t", 0)
    run_job(flushing)
    jobs.run_all()


def test_strays_are_set_aside_and_not_found_again() -> None:
    storage = MemoryStorage()
    manager = start(storage)
    append(log_of(manager), b"x")
    path = manager.rename_to_stray("t", 0)
    assert path.endswith("-stray")
    assert storage.exists(path)
    manager.close()
    assert start(storage).partition_folders() == {}


def test_checkpoints_hold_what_is_flushed_and_keep_what_was_not_opened() -> None:
    storage = MemoryStorage()
    manager = start(storage)
    append(log_of(manager, "old"), b"x", b"y")
    note_high_watermarks(manager, {("old", 0): 2}).close()
    manager = start(storage)
    log = log_of(manager)
    append(log, b"a")
    flush(log)
    append(log, b"b")
    run_through(manager.checkpoints.write_all())
    note_high_watermarks(manager, {("t", 0): 1, ("gone", 0): 9}).checkpoints.save_high_watermarks()
    assert decode_offsets(storage.read(RECOVERY_POINTS)) == {("old", 0): 2, ("t", 0): 1}
    assert decode_offsets(storage.read(HIGH_WATERMARKS)) == {("old", 0): 2, ("t", 0): 1}
    manager.delete("old", 0)
    run_through(manager.checkpoints.write_all())
    assert decode_offsets(storage.read(RECOVERY_POINTS)) == {("t", 0): 1}


def test_log_starts_survive_once_checkpointed() -> None:
    storage = MemoryStorage()
    manager = start(storage)
    log = log_of(manager)
    append(log, b"a")
    append(log, b"b")
    run_through(manager.checkpoints.write_all())
    assert storage.read(LOG_STARTS) == b"0\n0\n"
    log.advance_start(1)
    manager.close()
    assert storage.read(LOG_STARTS) == b"0\n1\nt 0 1\n"
    assert log_of(start(storage)).start_offset == 1


def test_a_checkpoint_is_written_in_a_job_and_reported_when_it_is_safe() -> None:
    """S5.3"""
    storage, jobs = FaultyStorage(), SteppedJobs()
    manager = start(storage, jobs=jobs)
    done: list[BaseException | None] = []
    for number in range(2):
        log = log_of(manager, "t", number)
        append(log, b"x")
        flush(log)
    manager.checkpoints.save_recovery_point(("t", 0), done.append)
    assert done == []
    jobs.run_all()
    assert done == [None]
    assert decode_offsets(storage.read(RECOVERY_POINTS)) == {("t", 0): 1}, (
        "a save costs the same however many logs are open"
    )
    storage.fail("sync")
    manager.checkpoints.save_recovery_point(("t", 0), done.append)
    assert done == [None, None], "a checkpoint that has nothing new to say can't fail"
    manager.checkpoints.save_recovery_point(("gone", 0), done.append)
    assert done[-1] is None


def test_a_log_start_is_safe_once_told_also_where_the_first_segment_begins_there() -> None:
    storage, jobs = FaultyStorage(), SteppedJobs()
    manager = start(storage, jobs=jobs)
    log = log_of(manager)
    append(log, b"a")
    log.roll()
    append(log, b"b")
    flush(log)
    log.advance_start(1)
    told: list[BaseException | None] = []
    manager.checkpoints.save_log_starts(("t", 0), told.append)
    jobs.run_all()
    assert told == [None]
    assert decode_offsets(storage.after_cut(Remains.LOST, random.Random(1)).read(LOG_STARTS)) == {("t", 0): 1}
    storage.fail("rename", lambda path: LOG_STARTS in path)
    append(log, b"c")
    log.advance_start(2)
    manager.checkpoints.save_log_starts(("t", 0), told.append)
    jobs.run_all()
    assert isinstance(told[-1], StorageFailed)
    manager.checkpoints.save_log_starts(("gone", 0), told.append)
    assert told[-1] is None


def test_cleaner_offsets_live_with_their_partition() -> None:
    """S5.2"""
    storage, jobs = FaultyStorage(), SteppedJobs()
    manager = start(storage, jobs=jobs)
    for number in range(2):
        manager.create("t", number, ID)
        jobs.run_all()
        assert manager.checkpoints.cleaner_offset(("t", number)) is None
        manager.checkpoints.save_cleaner_offset(("t", number), 5 + number, lambda error: None)
    jobs.run_all()
    assert storage.read(CLEANER_OFFSETS) == b"0\n2\nt 0 5\nt 1 6\n"
    manager.checkpoints.save_cleaner_offset(("t", 0), None, lambda error: None)
    manager.checkpoints.save_cleaner_offset(("gone", 0), 7, lambda error: None)
    jobs.run_all()
    manager.close()
    manager = start(storage)
    assert [manager.checkpoints.cleaner_offset(("t", number)) for number in range(2)] == [None, 6]


def test_data_folders_tell_what_they_hold() -> None:
    """S3.1"""
    storages = [FaultyStorage(capacity_bytes=100_000), MemoryStorage()]
    manager = start(*storages)
    for number in range(2):
        append(log_of(manager, "t", number), b"x")
    size = log_of(manager).segments.size
    sizes = [folder.partitions for folder in log_dirs(manager)]
    assert sizes == [{("t", 0): size}, {("t", 1): size}]
    manager.close()
    manager = start(*storages)
    first, second = log_dirs(manager)
    assert [first.partitions, second.partitions] == sizes, "also of logs that were not opened"
    assert (first.place, first.total_bytes, first.error) == ("faulty storage", 100_000, None)
    assert first.usable_bytes is not None
    assert 0 < first.usable_bytes < 100_000
    assert (second.total_bytes, second.usable_bytes) == (None, None)
    assert first.directory_id != second.directory_id


def test_truncation_lowers_the_recovery_point_on_disk_first() -> None:
    storage = FaultyStorage()
    manager = start(storage)
    log = log_of(manager)
    append(log, b"a")
    append(log, b"b")
    flush(log)
    run_through(manager.checkpoints.write_all())
    storage.steps.clear()
    log.truncate_to(1)
    assert decode_offsets(storage.read(RECOVERY_POINTS)) == {("t", 0): 1}
    kinds = [(step.kind, step.path) for step in storage.steps]
    assert kinds.index(("rename", RECOVERY_POINTS + ".tmp")) < kinds.index(("truncate", "t-0/00000000000000000000.log"))


def test_a_crash_is_noticed_and_recovery_waits_for_the_first_use() -> None:
    storage = FaultyStorage()
    manager = start(storage)
    for topic in ("t", "u"):
        append(log_of(manager, topic), b"x")
        flush(log_of(manager, topic))
    crashed = storage.after_cut(Remains.KEPT, random.Random(1))
    manager = start(crashed)
    assert manager.was_unclean
    assert read_values(log_of(manager)) == [b"x"]
    manager.close()
    again = start(crashed)
    assert again.was_unclean, "u was never looked at, so the stop does not count as clean"
    log_of(again)
    log_of(again, "u")
    again.close()
    assert not start(crashed).was_unclean


def test_a_log_that_failed_keeps_the_stop_from_being_clean() -> None:
    storage = FaultyStorage()
    manager = start(storage)
    append(log_of(manager), b"x")
    append(log_of(manager, "u"), b"x")
    storage.fail("sync", lambda path: path.startswith("t-0/"))
    manager.close()
    storage.mend()
    manager = start(storage)
    assert manager.was_unclean
    assert read_values(log_of(manager, "u")) == [b"x"]


def test_a_disk_that_takes_no_checkpoint_is_told_and_the_folder_unlocked() -> None:
    storage = FaultyStorage()
    manager = start(storage)
    append(log_of(manager), b"x")
    storage.fail("append", lambda path: "checkpoint" in path)
    with pytest.raises(StorageFailed, match="can't append"):
        manager.close()
    storage.mend()
    assert start(storage).was_unclean


@for_each("kind", ["create", "append", "sync", "rename", "sync_folder"])
def test_a_data_folder_that_fails_is_a_clear_error(kind: str) -> None:
    storage = FaultyStorage()
    storage.fail(kind)
    with pytest.raises(StorageFailed, match=f"can't {kind}"):
        start(storage)


def test_the_highest_epoch_of_all_partitions_is_known_without_opening_them() -> None:
    storages = [MemoryStorage(), MemoryStorage()]
    manager = start(*storages)
    assert manager.highest_epoch() == -1
    for number, epoch in enumerate((3, 8, 5)):
        append(log_of(manager, "t", number), b"x", leader_epoch=epoch)
    manager.close()
    assert start(*storages).highest_epoch() == 8


def test_ids_are_random_and_from_the_given_source() -> None:
    assert start(MemoryStorage()).new_topic_id() == start(MemoryStorage()).new_topic_id()
    manager = start(MemoryStorage())
    assert manager.new_topic_id() != manager.new_topic_id()


def test_silent_producers_of_all_open_logs_are_forgotten() -> None:
    clock = ManualClock(START_MS)
    manager = LogManager([MemoryStorage()], clock=clock, rng=random.Random(1), producer_expiration_ms=100)
    for number in range(3):
        append(log_of(manager, "t", number), b"x", producer_id=number, epoch=0, base_sequence=0)
    clock.advance(100)
    assert run_to_end(manager.expire_producers()) == 3


@pytest.mark.long
def test_thousands_of_partitions_are_found_without_being_opened(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    manager = start(storage)
    for number in range(1500):
        manager.create("t", number, ID)
    manager.close()
    manager = start(LocalStorage(tmp_path))
    assert len(manager.partition_folders()) == 1500
    assert not manager._logs
    manager.close()
