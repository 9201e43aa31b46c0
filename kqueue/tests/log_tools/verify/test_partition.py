"""S3.6, S5.3: one partition's files against each other and the data folder's state.

test_verify has all kinds of damage.
"""

from __future__ import annotations

from typing import Any

from kqueue.log.formats.filenames import DELETED, INDEX, LOG, SNAPSHOT, file_name
from kqueue.log_tools.repaired_gaps import GAPS, encode_gaps
from kqueue.log_tools.verify.partition import CheckpointedState, LogRange, PartitionVerifier
from kqueue.log_tools.verify.report import ERROR, NOTE, Finding, VerificationReport
from kqueue.storage import MemoryStorage, Storage
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.tests.log_tools.logs import FOLDER, content, made, names, replace
from kqueue.tests.tables import for_each


def checked(
    storage: Storage,
    known: CheckpointedState = CheckpointedState(),  # noqa: B008
    folder: str = FOLDER,
    **settings: Any,
) -> tuple[LogRange | None, VerificationReport]:
    report = VerificationReport(folder)
    return PartitionVerifier(storage, folder, report, known, **settings).run(), report


def told(report: VerificationReport) -> list[tuple[str, str]]:
    return [(finding.severity, finding.file.rpartition("/")[2]) for finding in report.findings]


def without_second_segment() -> MemoryStorage:
    """Offsets 9 to 17 are gone."""
    storage, _ = made()
    for entry in storage.list(FOLDER):
        if entry.name.startswith(file_name(9, "")):
            storage.remove(f"{FOLDER}/{entry.name}")
    return storage


@for_each("deep", [False, True])
def test_a_sound_partition_is_counted_and_nothing_is_told(deep: bool) -> None:
    storage, _ = made()
    read: list[int] = []
    bounds, report = checked(storage, deep=deep, progress=read.append)
    assert (bounds, report.findings) == ((0, 36), [])
    assert (report.partitions, report.segments, report.batches, report.records) == (1, 4, 12, 36)
    assert sum(read) == report.bytes == sum(len(content(storage, name)) for name in names(storage))


def test_verification_writes_nothing() -> None:
    source, _ = made()
    storage = FaultyStorage()
    storage.make_folder(FOLDER)
    for entry in source.list(FOLDER):
        storage.write_atomic(f"{FOLDER}/{entry.name}", content(source, entry.name)[:-1])
    storage.steps.clear()
    _, report = checked(storage, deep=True)
    assert report.errors
    assert storage.steps == []


def test_a_folder_without_a_log_is_worth_a_note() -> None:
    storage = MemoryStorage()
    storage.make_folder(FOLDER)
    bounds, report = checked(storage)
    assert bounds is None
    assert report.findings == [Finding(FOLDER, None, "a log", "no segment", NOTE)]


def test_the_storage_itself_may_be_the_partition() -> None:
    storage, _ = made()
    root = MemoryStorage()
    for entry in storage.list(FOLDER):
        root.write_atomic(entry.name, content(storage, entry.name))
    root.remove(file_name(0, INDEX))
    bounds, report = checked(root, folder="")
    assert bounds == (0, 36)
    assert [finding.file for finding in report.findings] == [file_name(0, INDEX)]


@for_each(
    "known, noted, expected",
    [
        (CheckpointedState(), [], [(ERROR, file_name(18, LOG))]),
        (CheckpointedState(cleaned=True), [], []),
        (CheckpointedState(), [(9, 18)], [(NOTE, file_name(18, LOG))]),
        (CheckpointedState(), [(9, 17)], [(ERROR, file_name(18, LOG))]),
    ],
)
def test_missing_offsets(
    known: CheckpointedState, noted: list[tuple[int, int]], expected: list[tuple[str, str]]
) -> None:
    """S5.2: damage, unless the log was compacted, or a repair recorded them as lost."""
    storage = without_second_segment()
    if noted:
        replace(storage, GAPS, encode_gaps(noted))
    bounds, report = checked(storage, known)
    assert bounds == (0, 36)
    assert told(report) == expected


@for_each("clean, severity", [(True, ERROR), (False, NOTE)])
def test_an_end_that_is_cut_off_is_damage_only_after_a_clean_stop(clean: bool, severity: str) -> None:
    storage, _ = made()
    last = names(storage)[-1]
    size = len(content(storage, last))
    replace(storage, last, content(storage, last)[:-5])
    _, report = checked(storage, CheckpointedState(clean=clean))
    assert {(finding.severity, finding.file) for finding in report.findings if finding.position is not None} == {
        (severity, f"{FOLDER}/{last}")
    }
    assert report.bytes < size * len(names(storage))


@for_each(
    "known, severity",
    [
        (CheckpointedState(), ERROR),
        (CheckpointedState(False, recovery_point=19), ERROR),
        (CheckpointedState(False, recovery_point=18), NOTE),
    ],
)
def test_flushed_snapshot_must_be_whole(known: CheckpointedState, severity: str) -> None:
    storage, _ = made()
    replace(storage, file_name(18, SNAPSHOT), b"half of")
    _, report = checked(storage, known)
    assert told(report) == [(severity, file_name(18, SNAPSHOT))]


def test_bytes_that_are_gone_are_no_reason_to_doubt_what_was_counted_from_them() -> None:
    """One damaged batch is one finding; the snapshots after it are not verified."""
    storage, _ = made()
    name = file_name(0, LOG)
    data = bytearray(content(storage, name))
    data[70] ^= 1
    replace(storage, name, bytes(data))
    bounds, report = checked(storage)
    assert bounds == (0, 36)
    assert told(report) == [(ERROR, name)]
    assert report.batches == 11


def test_files_that_wait_for_their_deletion_are_as_they_should_be() -> None:
    storage, _ = made()
    for number in range(5):
        replace(storage, file_name(number, LOG) + DELETED, b"")
    _, report = checked(storage)
    assert report.findings == []


def test_files_that_were_set_aside_are_named_up_to_three() -> None:
    storage, _ = made()
    for number in range(5):
        replace(storage, file_name(number, LOG) + ".damaged", b"")
    _, report = checked(storage)
    assert len(report.findings) == 4
    assert report.is_sound
    assert report.findings[-1] == Finding(FOLDER, None, "nothing left over", "2 more .damaged files", NOTE)
