"""Several data folders, of which some fail."""

from __future__ import annotations

import random

import pytest

from kqueue.base.errors import FolderInUse, StorageFailed
from kqueue.log.config import LogConfig
from kqueue.log.formats.checkpoints import META_PROPERTIES, RECOVERY_POINTS
from kqueue.log.log import Log
from kqueue.log.manager import LogManager, OfflineFolder
from kqueue.storage import MemoryStorage, Storage
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.helpers import START_MS, append, flush, log_dirs, note_high_watermarks, read_values, run_through

ID = bytes(range(16))
CONFIG = LogConfig.of()
GONE = OfflineFolder("gone", StorageFailed("can't make data folder gone: Permission denied"))


def start(*storages: Storage, **settings: object) -> LogManager:
    return LogManager(storages, clock=ManualClock(START_MS), rng=random.Random(3), **settings)  # type: ignore[arg-type]


def log_of(manager: LogManager, partition: int = 0, topic: str = "t") -> Log:
    return manager.open(topic, partition, ID, CONFIG)


def two_folders() -> tuple[FaultyStorage, FaultyStorage]:
    """``t-0`` is in the first, ``t-1`` in the second, each with one record."""
    storages = FaultyStorage(), FaultyStorage()
    manager = start(*storages)
    for number in range(2):
        append(log_of(manager, number), b"%d" % number)
    note_high_watermarks(manager, {("t", number): 1 for number in range(2)}).close()
    return storages


@pytest.mark.parametrize("kind", ["remove", "sync_folder"])
def test_a_folder_that_cant_be_opened_leaves_the_others_serving(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """S3.1"""
    first, second = two_folders()
    second.fail(kind)
    manager = start(first, second)
    assert read_values(log_of(manager, 0)) == [b"0"]
    assert "data folder faulty storage is offline, its partitions are not served: can't" in caplog.text
    serving, offline = log_dirs(manager)
    assert (serving.error, list(serving.partitions)) == (None, [("t", 0)])
    assert isinstance(offline.error, StorageFailed)
    assert (offline.partitions, offline.directory_id) == ({}, None)
    manager.close()
    second.mend()
    manager = start(first, second)
    assert [read_values(log_of(manager, number)) for number in range(2)] == [[b"0"], [b"1"]]


def test_partitions_possibly_on_an_offline_folder_are_not_recreated() -> None:
    first, _ = two_folders()
    manager = start(first, offline=[GONE])
    with pytest.raises(
        StorageFailed, match=r"t-1 is in no data folder that serves; it may be on gone, which is offline"
    ):
        log_of(manager, 1)
    assert manager.unavailable_reason("t", 0) is None
    assert manager.unavailable_reason("t", 1) is not None
    assert not manager.has("t", 1)
    manager.create("new", 0, ID)
    append(log_of(manager, 0, "new"), b"x")
    manager.expect("later", 7)
    append(log_of(manager, 7, "later"), b"x")
    assert set(manager.partition_folders()) == {("t", 0), ("new", 0), ("later", 7)}


def test_without_any_folder_nothing_starts() -> None:
    broken = FaultyStorage()
    broken.fail("append")
    with pytest.raises(
        StorageFailed, match=r"no data folder can be used: can't make data folder gone: Permission denied; can't append"
    ):
        start(broken, offline=[GONE])
    with pytest.raises(StorageFailed, match="^can't append meta.properties"):
        start(broken)


def test_a_folder_that_another_broker_has_is_no_failure_of_the_disk() -> None:
    mine, theirs = MemoryStorage(), MemoryStorage()
    start(theirs)
    with pytest.raises(FolderInUse):
        start(mine, theirs)
    start(mine).close()


def test_another_nodes_folder_is_named_and_left_alone() -> None:
    mine, theirs = MemoryStorage(), MemoryStorage()
    start(theirs, node_id=7).close()
    manager = start(mine, theirs, node_id=1)
    assert "folder of node 7; node.id is 1" in str(log_dirs(manager)[1].error)
    manager.close()
    assert not start(theirs, node_id=7).was_unclean


def test_a_partition_in_two_folders_is_refused_and_the_others_served() -> None:
    storages = two_folders()
    for number, storage in enumerate(storages):
        storage.rename(f"t-{number}", "t-5")
        storage.make_folder("t-9")
    manager = start(*storages)
    with pytest.raises(
        StorageFailed, match=r"partition t-5 is in faulty storage and in faulty storage: take one of them away"
    ):
        log_of(manager, 5)
    assert read_values(log_of(manager, 9)) == [], "of two that are empty either will do"


def test_an_empty_leftover_copy_is_ignored() -> None:
    first, second = two_folders()
    first.make_folder("t-1")
    manager = start(first, second)
    assert read_values(log_of(manager, 1)) == [b"1"]


def test_new_partitions_are_placed_on_healthy_folders() -> None:
    first, second = two_folders()
    manager = start(first, second)
    append(log_of(manager, 0), b"x")
    first.fail("sync", lambda path: path.startswith("t-0/"))
    job = log_of(manager, 0).flush_job()
    assert job is not None
    with pytest.raises(StorageFailed) as raised:
        job.run()
    job.finish(None, raised.value)
    for number in range(2, 6):
        manager.create("t", number, ID)
    assert [len(folder.partitions) for folder in log_dirs(manager)] == [1, 5]
    append(log_of(manager, 1), b"y")
    flush(log_of(manager, 1))


def test_a_folder_that_takes_no_new_partition_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    first, second = two_folders()
    manager = start(first, second)
    first.fail("append")
    for number in range(2, 5):
        manager.create("t", number, ID)
    assert [entry.name for entry in first.list("") if entry.is_folder] == ["t-0"], "what was half made is taken back"
    assert [len(folder.partitions) for folder in log_dirs(manager)] == [1, 4]
    assert "takes no new partition: can't append" in caplog.text
    second.fail("append")
    with pytest.raises(StorageFailed):
        manager.create("t", 9, ID)
    first.mend()
    append(log_of(manager, 0), b"x")
    flush(log_of(manager, 0))
    run_through(manager.checkpoints.write_all())
    manager.create("t", 10, ID)
    assert ("t", 10) in log_dirs(manager)[0].partitions, (
        "a checkpoint that was written shows that the folder is well again"
    )


def test_a_checkpoint_that_fails_leaves_the_old_one_and_the_partitions_alone(caplog: pytest.LogCaptureFixture) -> None:
    first, second = two_folders()
    manager = start(first, second)
    before = first.read(RECOVERY_POINTS)
    first.fail("append", lambda path: "checkpoint" in path)
    for number in range(2):
        append(log_of(manager, number), b"x")
        flush(log_of(manager, number))
    run_through(manager.checkpoints.write_all())
    assert "could not be written, the old one still holds" in caplog.text
    assert first.read(RECOVERY_POINTS) == before
    assert read_values(log_of(manager, 0)) == [b"0", b"x"]
    with pytest.raises(StorageFailed):
        manager.close()
    first.mend()
    manager = start(first, second)
    assert manager.was_unclean
    assert [read_values(log_of(manager, number)) for number in range(2)] == [[b"0", b"x"], [b"1", b"x"]]


def test_bits_that_were_flipped_in_a_topics_id_do_not_lose_the_partition(caplog: pytest.LogCaptureFixture) -> None:
    storage = two_folders()[0]
    metadata = storage.read("t-0/partition.metadata")
    storage.write_atomic("t-0/partition.metadata", metadata.replace(b"AAEC", b"AIEC"))
    manager = start(storage)
    assert manager.partition_folders()[("t", 0)].topic_id != ID
    assert read_values(log_of(manager)) == [b"0"]
    assert storage.read("t-0/partition.metadata") == metadata


def test_a_folder_that_was_replaced_by_a_copy_of_another_one_is_refused_with_both_names() -> None:
    first, second = two_folders()
    start(first, second).close()
    second.write_atomic(META_PROPERTIES, first.read(META_PROPERTIES))
    with pytest.raises(StorageFailed, match=r"have the same directory.id .*: one is a copy of the other one. Put back"):
        start(first, second)
    start(first).close()
