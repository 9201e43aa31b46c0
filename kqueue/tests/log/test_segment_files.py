"""The files of one segment; what is in them is tested in `test_segment`."""

from __future__ import annotations

import errno

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.log.segment_files import SegmentFiles
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.tests.tables import for_each

BASE = "00000000000000000042"


def storage_with_folder() -> FaultyStorage:
    storage = FaultyStorage()
    storage.make_folder("t-0")
    return storage


def names(storage: FaultyStorage) -> list[str]:
    return [entry.name for entry in storage.list("t-0")]


def test_a_segment_has_three_files_and_a_fourth_with_its_first_aborted_transaction() -> None:
    """S3.1"""
    storage = storage_with_folder()
    segment = SegmentFiles.make(storage, "t-0", 42)
    assert segment.names() == [f"{BASE}.log", f"{BASE}.index", f"{BASE}.timeindex"]
    assert sorted(names(storage)) == sorted(segment.names())
    segment.txnindex.append(AbortedTxn(1, 42, 43, 44))
    assert segment.names()[-1] == f"{BASE}.txnindex"
    assert (len(segment.all()), segment.all()[0]) == (4, segment.log)
    reopened = SegmentFiles(storage, "t-0", 42, sizes={f"{BASE}.txnindex": 1})
    assert reopened.txnindex.read() == [AbortedTxn(1, 42, 43, 44)]


@for_each("suffix", [".log", ".index", ".timeindex"])
def test_a_segment_that_can_not_be_made_leaves_no_file(suffix: str) -> None:
    storage = storage_with_folder()
    storage.fail("create", lambda path: path.endswith(suffix), number=errno.EMFILE)
    with pytest.raises(StorageFailed):
        SegmentFiles.make(storage, "t-0", 42)
    assert names(storage) == []


def test_the_log_file_is_removed_first() -> None:
    storage = storage_with_folder()
    segment = SegmentFiles.make(storage, "t-0", 42)
    storage.steps.clear()
    segment.remove()
    assert [step.path.rpartition(".")[2] for step in storage.steps] == ["log", "index", "timeindex"]
    assert names(storage) == []


def test_a_missing_file_is_reported_unless_it_is_to_be_created() -> None:
    storage = storage_with_folder()
    with pytest.raises(FileNotFoundError):
        SegmentFiles(storage, "t-0", 42)
    SegmentFiles(storage, "t-0", 42, create=True)
    assert len(names(storage)) == 3
