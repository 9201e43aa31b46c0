"""Making and removing partition folders in jobs, as a log manager does it."""

from __future__ import annotations

import random

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.log.config import LogConfig
from kqueue.log.log import Log
from kqueue.log.manager import LogManager
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.stepped_jobs import SteppedJobs
from kqueue.tests.log.helpers import START_MS, append, flush, read_values
from kqueue.tests.tables import for_each

OLD, NEW = b"\0\1\2\3" * 4, b"\7\6\5\4" * 4


class Desk:
    """A manager with stepped jobs on data folders that fail on purpose."""

    def __init__(self, folders: int = 1) -> None:
        self.jobs = SteppedJobs()
        self.storages = [FaultyStorage() for _ in range(folders)]
        self.manager = LogManager(self.storages, clock=ManualClock(START_MS), rng=random.Random(1), jobs=self.jobs)

    def log(self, partition: int = 0, id: bytes = OLD) -> Log:
        return self.manager.open("t", partition, id, LogConfig.of())

    def folders(self) -> list[str]:
        return [entry.name for storage in self.storages for entry in storage.list("") if entry.is_folder]


def test_folders_are_created_and_removed_outside_of_the_owner_thread() -> None:
    desk = Desk()
    steps = desk.storages[0].steps
    before = len(steps)
    for number in range(3):
        desk.manager.create("t", number, OLD)
    assert len(steps) == before
    desk.jobs.run_all()
    assert desk.folders() == ["t-0", "t-1", "t-2"]
    before = len(steps)
    for number in range(3):
        desk.manager.delete("t", number)
    assert len(steps) == before
    assert desk.manager.is_removing
    desk.jobs.run_all()
    assert desk.folders() == []
    assert not desk.manager.is_removing


def test_many_folders_share_the_syncs_of_their_removal() -> None:
    desk = Desk()
    for number in range(100):
        desk.manager.create("t", number, OLD)
    desk.jobs.run_all()
    del desk.storages[0].steps[:]
    for number in range(100):
        desk.manager.delete("t", number)
    desk.jobs.run_all()
    assert sum(step.kind == "sync_folder" for step in desk.storages[0].steps) <= 8
    assert desk.folders() == []


@for_each("jobs_done", [0, 1])
def test_first_use_creates_a_folder_whose_job_is_pending(jobs_done: int) -> None:
    desk = Desk()
    for number in range(3):
        desk.manager.create("t", number, OLD)
    if jobs_done:
        desk.jobs.pending[0].run()  # type: ignore[union-attr]  # done, and not reported
    log = desk.log(2)
    append(log, b"x")
    flush(log)
    desk.jobs.run_all()
    assert desk.folders() == ["t-0", "t-1", "t-2"]
    assert read_values(desk.log(2)) == [b"x"]


def test_deleting_a_topic_during_folder_creation_leaves_no_files() -> None:
    desk = Desk()
    for number in range(3):
        desk.manager.create("t", number, OLD)
    desk.jobs.pending[0].run()  # type: ignore[union-attr]
    assert all(desk.manager.delete("t", number) for number in range(3))
    desk.jobs.run_all()
    assert desk.folders() == []
    assert desk.manager.partition_folders() == {}


@for_each("use_at_once", [True, False])
@for_each("folders", [1, 2])
def test_a_new_topic_of_the_name_begins_empty_while_the_old_one_is_still_removed(
    use_at_once: bool, folders: int
) -> None:
    desk = Desk(folders)
    desk.manager.create("t", 0, OLD)
    append(desk.log(), b"old")
    flush(desk.log())
    desk.manager.delete("t", 0)
    desk.manager.create("t", 0, NEW)
    if not use_at_once:
        desk.jobs.run_all()
    log = desk.log(id=NEW)
    assert read_values(log) == []
    append(log, b"new")
    flush(log)
    desk.jobs.run_all()
    assert desk.folders() == ["t-0"]
    assert read_values(desk.log(id=NEW)) == [b"new"]


def test_a_folder_that_cannot_be_renamed_is_not_reused() -> None:
    desk = Desk()
    append(desk.log(), b"old")
    desk.storages[0].fail("rename", lambda path: path.startswith("t-0"))
    desk.manager.delete("t", 0)
    desk.manager.create("t", 0, NEW)
    desk.jobs.run_all()
    with pytest.raises(StorageFailed, match="t-0 is of topic id"):
        desk.log(id=NEW)
    assert desk.manager.is_removing, "what keeps the note that the topic was deleted"


def test_failed_folder_creation_is_logged_once_and_retried_at_first_use(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = Desk()
    desk.storages[0].fail("make_folder")
    for number in range(1000):
        desk.manager.create("t", number, OLD)
    desk.jobs.run_all()
    lines = [record for record in caplog.records if "partition folders could not be made" in record.getMessage()]
    assert 1 <= len(lines) <= 2
    desk.storages[0].mend()
    append(desk.log(7), b"x")
    assert desk.folders() == ["t-7"]


def test_choosing_a_data_folder_does_not_list_its_partitions() -> None:
    """Each choice costs the same however many partitions there are, also where one of them has
    failed.
    """
    desk = Desk(2)
    for number in range(40):
        desk.log(number)

    class Counted(dict):  # type: ignore[type-arg]
        looks = 0

        def __getitem__(self, key: object) -> object:
            Counted.looks += 1
            return super().__getitem__(key)

        def get(self, key: object, default: object = None) -> object:
            Counted.looks += 1
            return super().get(key, default)

    failing = desk.manager.partition_folders()["t", 0]
    desk.manager._logs = Counted(desk.manager._logs)
    bad = next(storage for storage in desk.storages if storage.exists(failing.path))
    bad.fail("append", lambda path: path.startswith("t-0/"))
    with pytest.raises(StorageFailed):
        append(desk.log(), b"x")
    Counted.looks = 0
    for number in range(100, 200):
        desk.manager.create("t", number, OLD)
    desk.jobs.run_all()
    assert Counted.looks <= 2 * 100
    assert not [entry.name for entry in bad.list("") if entry.name.startswith("t-1") and len(entry.name) == 5]


def test_a_stop_leaves_the_rest_to_the_first_use() -> None:
    desk = Desk()
    for number in range(1000):
        desk.manager.create("t", number, OLD)
    desk.manager.stop_creating()
    desk.jobs.run_all()
    assert len(desk.folders()) < 1000
    desk.manager.close()
