"""An archive: its batches tell its state."""

from __future__ import annotations

from pathlib import Path

import pytest

from kqueue.base.errors import FolderInUse
from kqueue.client.topic_partition import TopicPartition
from kqueue.spark.batches import Batches
from kqueue.spark.errors import PipelineFailed
from kqueue.spark.jobs.archive_layout import Archive, ArchivedBatch
from kqueue.spark.stores import Location
from kqueue.tests.spark.batches.cut_stores import CutStore, Killed

FILE = "topic=a/date=2026-01-31/00000001-1.parquet"


def archive_in(folder: Path) -> tuple[Archive, CutStore]:
    """Return an archive that stages ids in place of frames."""
    archive = Archive(None, Location(str(folder)))
    store = CutStore(archive.store)
    archive.store, archive._batches = store, Batches(store, "records")
    return archive, store


def test_archived_batch_records_the_state_after_it(tmp_path: Path) -> None:
    archive, store = archive_in(tmp_path)
    assert (archive.last(), archive.batches()) == (None, [])
    ends = {TopicPartition("a", 1): 7, TopicPartition("a", 0): 3}
    staged = archive.stage({"topic=a/date=2026-01-31/part-1.parquet": [1, 2]}, 1, "zstd")
    done = archive.commit(staged, "me", ends, 12)
    assert done == ArchivedBatch(1, "me", ends, 2, 12, (FILE,))
    assert done.partitions == {"a": 2}
    again, _ = archive_in(tmp_path)
    assert (again.last(), again.batches()) == (done, [done])
    assert again.recover(2) is None

    def die(change: str) -> None:
        if change.startswith("move"):
            raise Killed

    staged = archive.stage({}, 2, "zstd")
    store.before = die
    assert archive.commit(staged, "me", ends, 12).rows == 0  # without a file nothing is moved
    store.before = lambda change: None
    staged = archive.stage({"topic=a/date=2026-01-31/part-1.parquet": [3]}, 3, "zstd")
    store.before = die
    with pytest.raises(Killed):
        archive.commit(staged, "me", ends, 13)
    whole = again.recover(3)
    assert whole is not None
    assert (whole, whole.rows_total) == (again.last(), 13)


def test_second_archive_job_and_unknown_form_are_refused(tmp_path: Path) -> None:
    archive, store = archive_in(tmp_path)
    with (
        archive.held(),
        pytest.raises(FolderInUse, match="another archive is at work on"),
        archive_in(tmp_path)[0].held(),
    ):
        pass
    store.put_new("batches/00000001.json", b'{"version": 1, "batch": 1, "rows": 1, "files": []}')
    with pytest.raises(PipelineFailed, match="batch 1 of .* is no description of an archive's batch: KeyError"):
        archive.last()
