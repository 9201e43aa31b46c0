"""S3.1: descriptions of a data folder: bytes per partition, and the size of the volume."""

from __future__ import annotations

import random

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.log.folders.data_folder import DataFolder
from kqueue.log.folders.log_dirs import LogDirListing
from kqueue.log.formats.filenames import DELETED, LOG, file_name
from kqueue.storage import FolderEntry, MemoryStorage, Storage
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.stepped_jobs import SteppedJobs
from kqueue.tests.log.helpers import START_MS, append, batch, open_log

ID = bytes(range(16))
KEYS = (("t", 0), ("t", 1))


class Unlisted(MemoryStorage):
    """Its folders can be listed until `is_broken`."""

    is_broken = False

    def list(self, folder: str) -> list[FolderEntry]:
        if self.is_broken:
            raise StorageFailed(f"can't list {folder}")
        return super().list(folder)


def folder_of(storage: Storage) -> DataFolder:
    folder = DataFolder(storage, node_id=1, cluster_id=None, clock=ManualClock(START_MS), rng=random.Random(1))
    for key in KEYS:
        folder.make(key, ID)
    return folder


def test_sizes_of_open_and_closed_logs() -> None:
    storage = MemoryStorage()
    folder = folder_of(storage)
    log = open_log(storage)
    append(log, b"a")
    storage.open(f"t-1/{file_name(0, LOG)}", create=True).append(b"x" * 70)
    storage.open(f"t-1/{file_name(5, LOG)}", create=True).append(b"x" * 7)
    storage.open(f"t-1/{file_name(0, LOG)}{DELETED}", create=True).append(b"x" * 1000)
    listing = LogDirListing(folder, {KEYS[0]: log}).run()
    assert listing.partitions == {KEYS[0]: len(batch(b"a")), KEYS[1]: 77}
    assert (listing.place, listing.error, listing.directory_id) == ("memory", None, folder.properties["directory.id"])
    assert (listing.total_bytes, listing.usable_bytes) == (None, None)


def test_the_volume_size_is_reported_if_known() -> None:
    storage = FaultyStorage(capacity_bytes=10_000)
    folder = folder_of(storage)
    before = LogDirListing(folder, {}).run()
    storage.open(f"t-0/{file_name(0, LOG)}", create=True).append(b"x" * 100)
    after = LogDirListing(folder, {}).run()
    assert before.usable_bytes is not None
    assert (after.total_bytes, after.usable_bytes) == (10_000, before.usable_bytes - 100)


def test_a_partition_that_is_just_being_deleted_holds_nothing() -> None:
    storage = MemoryStorage()
    folder = folder_of(storage)
    storage.rename("t-1", "t-1.0123-delete")
    listing = LogDirListing(folder, {}).run()
    assert (listing.error, listing.partitions) == (None, {KEYS[0]: 0, KEYS[1]: 0})


def test_a_partition_whose_folder_a_job_is_to_make_is_listed_as_empty() -> None:
    jobs = SteppedJobs()
    folder = DataFolder(
        MemoryStorage(), node_id=1, cluster_id=None, clock=ManualClock(START_MS), rng=random.Random(1), jobs=jobs
    )
    for key in KEYS:
        folder.create_later(key, ID)
    assert LogDirListing(folder, {}).run().partitions == {KEYS[0]: 0, KEYS[1]: 0}
    jobs.run_all()
    assert LogDirListing(folder, {}).run().partitions == {KEYS[0]: 0, KEYS[1]: 0}


def test_a_folder_that_cannot_be_listed_has_an_error_and_nothing_else() -> None:
    storage = Unlisted()
    folder = folder_of(storage)
    storage.is_broken = True
    listing = LogDirListing(folder, {}).run()
    assert listing[:2] == ("memory", folder.properties["directory.id"])
    with pytest.raises(StorageFailed, match="can't list t-0"):
        raise listing.error or AssertionError
    assert listing[3:] == (None, None, {}, {}, None)
