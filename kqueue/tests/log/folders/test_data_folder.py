from __future__ import annotations

import random
from pathlib import Path

import pytest

from kqueue.base.errors import FolderInUse, FolderLost, StorageFailed
from kqueue.log.folders.data_folder import DataFolder
from kqueue.log.formats import checkpoints
from kqueue.storage import LocalStorage, MemoryStorage, Storage
from kqueue.testing.faulty_storage import FaultyStorage, Remains
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.stepped_jobs import SteppedJobs
from kqueue.tests.log.helpers import START_MS
from kqueue.tests.tables import for_each

ID = bytes(range(16))


def open_folder(storage: Storage, node_id: int = 1, cluster_id: str | None = None, seed: int = 1) -> DataFolder:
    return DataFolder(
        storage, node_id=node_id, cluster_id=cluster_id, clock=ManualClock(START_MS), rng=random.Random(seed)
    )


def test_a_new_folder_gets_an_identity_that_stays() -> None:
    storage = MemoryStorage()
    folder = open_folder(storage)
    assert folder.clean
    assert set(folder.properties) == {"node.id", "directory.id", "version", "cluster.id"}
    data = storage.read("meta.properties")
    folder.close(clean=True, broker_epoch=3)
    assert storage.read(".kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":3}'
    again = open_folder(storage, seed=2)
    assert again.properties == folder.properties
    assert storage.read("meta.properties") == data
    assert len(folder.cluster_id) == 22


def test_the_folder_is_locked_until_it_is_closed() -> None:
    storage = MemoryStorage()
    folder = open_folder(storage)
    with pytest.raises(FolderInUse):
        open_folder(storage)
    folder.close(clean=False, broker_epoch=-1)
    open_folder(storage)


@for_each(
    "node_id, cluster_id, words",
    [(2, None, "folder of node 1; node.id is 2"), (1, "A" * 22, "the others to AAAAAAAAAAAAAAAAAAAAAA")],
)
def test_another_brokers_folder_is_refused_and_unlocked(node_id: int, cluster_id: str | None, words: str) -> None:
    storage = MemoryStorage()
    open_folder(storage).close(clean=True, broker_epoch=-1)
    with pytest.raises(StorageFailed, match=words):
        open_folder(storage, node_id, cluster_id)
    assert open_folder(storage).clean


def test_an_older_kafkas_identity_is_taken_over() -> None:
    storage = MemoryStorage()
    storage.write_atomic(
        "meta.properties", b"#\n#some day\nbroker.id=0\nversion=0\ncluster.id=5xNwj8KvQV-w7vAnhAo1Aw\n"
    )
    folder = open_folder(storage, node_id=0)
    assert folder.cluster_id == "5xNwj8KvQV-w7vAnhAo1Aw"
    assert checkpoints.decode_properties(storage.read("meta.properties")) == folder.properties
    assert (folder.properties["version"], folder.properties["node.id"]) == ("1", "0")


def test_properties_that_make_no_sense_are_an_error() -> None:
    storage = MemoryStorage()
    storage.write_atomic("meta.properties", b"junk\n")
    with pytest.raises(StorageFailed, match="expected key=value"):
        open_folder(storage)


def test_the_marker_is_gone_for_good_before_anything_else_happens() -> None:
    storage = FaultyStorage()
    folder = open_folder(storage)
    folder.make(("t", 0), ID)
    storage.sync_folder("")
    folder.close(clean=True, broker_epoch=-1)
    storage.steps.clear()
    again = open_folder(storage)
    assert again.clean
    assert [(step.kind, step.path) for step in storage.steps] == [
        ("remove", ".kafka_cleanshutdown"),
        ("sync_folder", ""),
    ]
    again.close(clean=False, broker_epoch=-1)
    assert not open_folder(storage).clean


def test_partition_folders_are_found_with_their_topics_ids(caplog: pytest.LogCaptureFixture) -> None:
    storage = MemoryStorage()
    folder = open_folder(storage)
    folder.make(("a.b-c", 12), ID)
    for name in ("plain-0", "nonsense", "-1", "x-1-stray", "x-01"):
        storage.make_folder(name)
    storage.make_folder("broken-0")
    storage.write_atomic("broken-0/partition.metadata", b"\0" * 43)
    folder.close(clean=False, broker_epoch=-1)
    partitions = open_folder(storage).partitions
    assert partitions[("a.b-c", 12)] == ("a.b-c-12", ID)
    assert partitions[("plain", 0)].topic_id is None
    assert partitions[("broken", 0)].topic_id is None
    assert len(partitions) == 3
    (said,) = [record for record in caplog.records if "partition.metadata can't be read" in record.getMessage()]
    assert said.levelname == "WARNING", "the broker knows the id, and writes the file again"


def test_half_done_deletions_are_completed() -> None:
    storage = MemoryStorage()
    storage.make_folder("t-0.0123-delete")
    storage.open("t-0.0123-delete/00000000000000000000.log", create=True)
    open_folder(storage)
    assert not storage.exists("t-0.0123-delete")


def test_the_longest_topic_can_be_renamed() -> None:
    storage = MemoryStorage()
    folder = open_folder(storage)
    key = ("x" * 249, 0)
    folder.make(key, ID)
    folder.recovery_points[key] = 5
    path = folder.rename(key, "-delete", "f" * 32)
    assert len(path) == 255
    assert path.endswith("-0." + "f" * 32 + "-delete")
    assert storage.exists(path)
    assert key not in folder.partitions
    assert key not in folder.recovery_points


def test_a_corrupt_checkpoint_is_reported_and_ignored(caplog: pytest.LogCaptureFixture) -> None:
    storage = MemoryStorage()
    storage.write_atomic(checkpoints.RECOVERY_POINTS, b"junk")
    assert open_folder(storage).recovery_points == {}
    assert "going on without it" in caplog.text


def test_an_unchanged_checkpoint_is_not_written() -> None:
    storage = FaultyStorage()
    folder = open_folder(storage)
    folder.recovery_points[("t", 0)] = 5
    folder.save_now(checkpoints.RECOVERY_POINTS)
    storage.steps.clear()
    folder.save_now(checkpoints.RECOVERY_POINTS)
    assert storage.steps == []
    folder.recovery_points[("t", 0)] = 6
    folder.save_now(checkpoints.RECOVERY_POINTS)
    assert storage.read(checkpoints.RECOVERY_POINTS) == b"0\n1\nt 0 6\n"


def test_the_newest_epoch_is_read_from_the_checkpoint() -> None:
    storage = MemoryStorage()
    folder = open_folder(storage)
    path = folder.make(("t", 0), ID)
    assert folder.latest_epoch(path) == -1
    storage.write_atomic("t-0/leader-epoch-checkpoint", b"0\n2\n0 0\n7 5\n")
    assert folder.latest_epoch(path) == 7


@for_each("restart", [True, False])
def test_a_new_partition_inherits_nothing_from_a_deleted_one_of_its_name(restart: bool) -> None:
    """Or it would be thought, after a crash, to have lost what the other one had flushed."""
    storage = FaultyStorage()
    folder = open_folder(storage)
    key = ("t", 0)
    folder.make(key, ID)
    tables = folder.recovery_points, folder.high_watermarks, folder.log_starts, folder.cleaner_offsets
    for table in tables:
        table[key] = 1000
    for name in checkpoints.OFFSET_CHECKPOINTS:
        folder.save_now(name)
    storage.sync_folder("")
    folder.rename(key, "-delete", "0" * 32)
    storage.sync_folder("")
    if restart:
        folder.close(clean=False, broker_epoch=-1)
        folder = open_folder(storage)
    folder.make(key, ID)
    left = storage.after_cut(Remains.LOST, random.Random(1))
    for name in checkpoints.OFFSET_CHECKPOINTS:
        assert checkpoints.decode_offsets(left.read(name)) == {}


def checked(folder: DataFolder) -> list[FolderLost]:
    lost: list[FolderLost] = []
    folder.check_lock(None, lost.append)
    return lost


def test_a_lock_that_was_taken_again_is_one_line_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    storage = FaultyStorage()
    folder = open_folder(storage)
    storage.lock_problem = "d/.lock was removed while it was locked; it is locked again"
    assert checked(folder) == checked(folder) == []
    assert caplog.messages == [
        (
            "faulty storage: d/.lock was removed while it was locked; it is locked again. Remove a lock file only when "
            "no broker runs"
        )
    ]
    folder.save_now("log-start-offset-checkpoint")


def test_a_folder_that_was_lost_is_not_written_to(caplog: pytest.LogCaptureFixture) -> None:
    storage = FaultyStorage()
    folder = open_folder(storage)
    folder.make(("t", 0), ID)
    storage.lock_problem = FolderLost("d/.lock was replaced")
    assert [str(error) for error in checked(folder)] == ["d/.lock was replaced"]
    assert checked(folder) == []
    assert len(caplog.messages) == 1
    assert "is offline until the next start" in caplog.messages[0]
    steps = len(storage.steps)
    errors: list[BaseException | None] = []
    folder.save("log-start-offset-checkpoint", errors.append)
    assert errors == [folder.lost]
    for use in (
        lambda: folder.save_now("log-start-offset-checkpoint"),
        lambda: folder.make(("u", 0), ID),
        lambda: folder.identify(("t", 0), "t-0", ID),
        lambda: folder.rename(("t", 0), "-delete", "x"),
    ):
        with pytest.raises(FolderLost):
            use()
    folder.close(clean=True, broker_epoch=-1)
    assert len(storage.steps) == steps
    assert not storage.exists(".kafka_cleanshutdown")


def test_a_lock_that_can_not_be_checked_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    storage = FaultyStorage()
    folder = open_folder(storage)
    for _ in range(3):
        storage.lock_problem = StorageFailed("can't check the lock")
        assert checked(folder) == []
    assert caplog.messages == ["faulty storage: can't check the lock"]
    assert folder.lost is None
    assert checked(folder) == []
    storage.lock_problem = StorageFailed("can't check the lock")
    checked(folder)
    assert len(caplog.messages) == 2


def test_a_lock_is_checked_once_at_a_time_in_a_job() -> None:
    jobs = SteppedJobs()
    folder = open_folder(FaultyStorage())
    folder.check_lock(jobs, lambda error: None)
    folder.check_lock(jobs, lambda error: None)
    assert jobs.run_all() == 1
    folder.check_lock(jobs, lambda error: None)
    assert jobs.run_all() == 1


def test_links_among_the_partitions_are_neither_opened_nor_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outside, data = tmp_path / "outside", tmp_path / "data"
    for folder in (outside / "t-0", data):
        folder.mkdir(parents=True)
    (outside / "t-0" / "00000000000000000000.log").write_bytes(b"precious")
    (data / "t-0").symlink_to(outside / "t-0")
    (data / "u-0.0123-delete").symlink_to(outside)
    folder = open_folder(LocalStorage(data))
    assert folder.partitions == {}  # type: ignore[attr-defined]
    assert "t-0: expected a folder, found a symbolic link or a file; its partition is not served" in caplog.text
    assert not (data / "u-0.0123-delete").is_symlink()
    assert (outside / "t-0" / "00000000000000000000.log").read_bytes() == b"precious"
    with pytest.raises(StorageFailed, match="t-0: expected a folder, found a symbolic link"):
        folder.make(("t", 0), ID)  # type: ignore[attr-defined]
    folder.close(clean=False, broker_epoch=-1)  # type: ignore[attr-defined]
