"""S3.6: files are listed by kind; leftovers and orphans are reported."""

from __future__ import annotations

from kqueue.log.formats.filenames import CLEANED, DELETED, INDEX, LOG, SNAPSHOT, SWAP, TIMEINDEX, file_name
from kqueue.log_tools.verify.partition_files import LEFTOVERS_NAMED, PartitionFiles, list_files
from kqueue.log_tools.verify.report import ERROR, NOTE
from kqueue.storage import MemoryStorage
from kqueue.tests.tables import for_each


def listed(*names: str, is_clean: bool = True) -> tuple[PartitionFiles, list[tuple[str, str]]]:
    """The files of a folder with these names, and (name, severity) of each report."""
    storage = MemoryStorage()
    storage.make_folder("t-0")
    for name in names:
        storage.open(f"t-0/{name}", create=True).close()
    reports: list[tuple[str, str]] = []
    files = list_files(
        storage,
        "t-0",
        lambda name, position, expected, found, severity: reports.append((name, severity)),
        is_clean=is_clean,
    )
    return files, reports


def test_files_are_listed_by_kind() -> None:
    names = [file_name(0, LOG), file_name(0, INDEX), file_name(7, SNAPSHOT), file_name(0, LOG) + DELETED]
    files, reports = listed(*names)
    assert (files.segments, files.snapshots, files.swapping) == ({0: {LOG: 0, INDEX: 0}}, [7], False)
    assert files.names == set(names)
    assert reports == []


@for_each("is_clean, severity", [(True, ERROR), (False, NOTE)])
def test_an_index_without_its_log_is_an_error_after_a_clean_shutdown(is_clean: bool, severity: str) -> None:
    _, reports = listed(file_name(3, INDEX), file_name(3, TIMEINDEX), is_clean=is_clean)
    assert sorted(reports) == [(file_name(3, INDEX), severity), (file_name(3, TIMEINDEX), severity)]


def test_while_a_compaction_is_installed_no_log_is_missing() -> None:
    files, reports = listed(file_name(3, INDEX), file_name(0, LOG) + SWAP)
    assert files.swapping
    assert reports == [(file_name(0, LOG) + SWAP, NOTE)]


def test_leftovers_beyond_the_first_are_counted() -> None:
    names = [file_name(base, LOG) + CLEANED for base in range(LEFTOVERS_NAMED + 2)]
    _, reports = listed(*names)
    assert reports == [*((name, NOTE) for name in names[:LEFTOVERS_NAMED]), ("", NOTE)]


def test_other_files_are_notes() -> None:
    _, reports = listed("notes.txt", "leader-epoch-checkpoint", "00000000000000000012-0000000001.checkpoint")
    assert reports == [("notes.txt", NOTE)]
