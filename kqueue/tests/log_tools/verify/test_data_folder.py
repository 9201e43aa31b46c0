"""S3.1, S5.3: a data folder's own files, and its checkpoints against the ends of the logs."""

from __future__ import annotations

import pytest

from kqueue.log.formats.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_STARTS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    encode_offsets,
    encode_partition_metadata,
    encode_properties,
)
from kqueue.log.formats.filenames import PARTITION_METADATA
from kqueue.log_tools.verify import data_folder
from kqueue.log_tools.verify.data_folder import (
    CHECKPOINTS,
    CLEANED_TO,
    DataFolderState,
    check_checkpoints,
    read_data_folder,
)
from kqueue.log_tools.verify.partition import CheckpointedState, LogRange
from kqueue.log_tools.verify.report import ERROR, NOTE, VerificationReport
from kqueue.storage import MemoryStorage
from kqueue.tests.log.helpers import START_MS
from kqueue.tests.tables import for_each

IDENTITY = {"version": "1", "node.id": "1", "cluster.id": "A" * 22}
KEY = ("t", 0)


def a_folder(clean: bool = True, identity: dict[str, str] | None = None) -> MemoryStorage:
    """A data folder with two valid partitions of `t`."""
    storage = MemoryStorage()
    storage.write_atomic(META_PROPERTIES, encode_properties(IDENTITY if identity is None else identity, START_MS))
    for number, name in enumerate(CHECKPOINTS):
        storage.write_atomic(name, encode_offsets({KEY: 10 + number}))
    if clean:
        storage.write_atomic(CLEAN_SHUTDOWN, b'{"version":0,"brokerEpoch":1}')
    for path in ("t-0", "t-1"):
        storage.make_folder(path)
        storage.write_atomic(f"{path}/{PARTITION_METADATA}", encode_partition_metadata(bytes(range(16))))
    return storage


def read(storage: MemoryStorage) -> tuple[DataFolderState, list[tuple[str, str, str]]]:
    report = VerificationReport("")
    folder = read_data_folder(storage, report)
    return folder, [(finding.severity, finding.file, finding.found) for finding in report.findings]


def test_data_folder_lists_partitions_and_checkpoints() -> None:
    folder, told = read(a_folder())
    assert told == []
    assert folder.partitions == {("t", 0): "t-0", ("t", 1): "t-1"}
    assert folder.offsets == {name: {KEY: 10 + number} for number, name in enumerate(CHECKPOINTS)}
    assert folder.is_one
    assert folder.clean
    assert folder.known("t-0") == CheckpointedState(True, recovery_point=10, log_start=12, cleaned=True)
    assert folder.known("t-1") == CheckpointedState(True, recovery_point=0, log_start=0, cleaned=False)
    assert folder.known("t-1", allow_gaps=True).cleaned


def test_a_folder_of_partitions_alone_says_nothing_of_them() -> None:
    storage = MemoryStorage()
    storage.make_folder("t-0")
    folder, told = read(storage)
    assert told == []
    assert not folder.is_one
    assert folder.known("t-0") == CheckpointedState()
    assert folder.known("t-0", allow_gaps=True) == CheckpointedState(cleaned=True)
    assert folder.offsets == {name: {} for name in CHECKPOINTS}


def test_without_the_mark_of_a_clean_stop_there_is_a_note() -> None:
    folder, told = read(a_folder(clean=False))
    assert not folder.clean
    assert not folder.known("t-0").clean
    assert told == [(NOTE, CLEAN_SHUTDOWN, "none: a broker uses the folder, or crashed")]


def test_set_aside_folders_are_no_partitions() -> None:
    storage = a_folder()
    for path in ("t-2.0123-delete", "t-3.0123-stray", "t-4.0123-future"):
        storage.make_folder(path)
    storage.write_atomic("left.tmp", b"")
    folder, told = read(storage)
    assert set(folder.partitions) == {("t", 0), ("t", 1)}
    assert {(severity, file) for severity, file, _ in told} == {
        (NOTE, "t-3.0123-stray"), (NOTE, "t-4.0123-future"), (NOTE, "left.tmp")
    }  # fmt: skip


@for_each("name", CHECKPOINTS)
def test_a_checkpoint_that_cannot_be_read_is_empty(name: str) -> None:
    storage = a_folder()
    storage.write_atomic(name, b"0\n7\nt 0 1\n")
    folder, told = read(storage)
    assert [(severity, file) for severity, file, _ in told] == [(ERROR, name)]
    assert folder.offsets[name] == {}
    assert all(folder.offsets[other] for other in CHECKPOINTS if other != name)


def test_a_file_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_folder, "STATE_BYTES_MAX", 1000)
    storage = a_folder()
    storage.write_atomic(RECOVERY_POINTS, encode_offsets({("t" * 200, number): 1 for number in range(5)}))
    folder, told = read(storage)
    assert [(severity, file) for severity, file, _ in told] == [(ERROR, RECOVERY_POINTS)]
    assert folder.offsets[RECOVERY_POINTS] == {}


@for_each(
    "changed, expected",
    [
        ({"cluster.id": ""}, ["a value of cluster.id"]),
        ({"node.id": ""}, ["a value of node.id"]),
        ({"node.id": "", "broker.id": "0", "version": "0"}, []),
        ({"cluster.id": "", "node.id": "", "version": "7"}, ["a value of cluster.id, node.id", "version 0 or 1"]),
    ],
)
def test_folder_identity_is_verified(changed: dict[str, str], expected: list[str]) -> None:
    report = VerificationReport("")
    read_data_folder(a_folder(identity={**IDENTITY, **changed}), report)
    assert [finding.expected for finding in report.errors] == expected
    assert {finding.file for finding in report.findings} <= {META_PROPERTIES}


@for_each("data, notes", [(b"", 0), (b"{", 1), (b"\xff", 1)])
def test_the_mark_of_a_clean_stop_may_be_empty(data: bytes, notes: int) -> None:
    """Older Kafkas leave it empty; invalid content is harmless."""
    storage = a_folder()
    storage.write_atomic(CLEAN_SHUTDOWN, data)
    folder, told = read(storage)
    assert folder.clean
    assert [(severity, file) for severity, file, _ in told] == [(NOTE, CLEAN_SHUTDOWN)] * notes


def test_partitions_of_a_topic_name_the_same_id() -> None:
    storage = a_folder()
    storage.make_folder("u-0")
    for path in ("t-1", "u-0"):
        storage.write_atomic(f"{path}/{PARTITION_METADATA}", encode_partition_metadata(bytes(16)))
    _, told = read(storage)
    assert told == [(ERROR, f"t-1/{PARTITION_METADATA}", "another one")]


@for_each(
    "name, clean, severity",
    [
        (RECOVERY_POINTS, True, ERROR),
        (RECOVERY_POINTS, False, ERROR),
        (LOG_STARTS, False, ERROR),
        (HIGH_WATERMARKS, True, ERROR),
        (HIGH_WATERMARKS, False, NOTE),
        (CLEANED_TO, True, NOTE),
    ],
)
def test_offsets_beyond_the_end(name: str, clean: bool, severity: str) -> None:
    """After a crash a log may have lost unflushed data, but none below its recovery point."""
    folder = DataFolderState(offsets={each: {KEY: 5} for each in CHECKPOINTS}, is_one=True, clean=clean)
    report = VerificationReport("")
    check_checkpoints(folder, {KEY: LogRange(0, 5)}, report)
    assert report.findings == []
    folder.offsets[name] = {KEY: 6}
    check_checkpoints(folder, {KEY: LogRange(0, 5)}, report)
    assert [(finding.severity, finding.file, finding.found) for finding in report.findings] == [(severity, name, "6")]


def test_offsets_of_partitions_without_a_log_or_that_are_not_there() -> None:
    offsets = {CLEANED_TO: {}, LOG_STARTS: {}, HIGH_WATERMARKS: {("gone", 3): 9}, RECOVERY_POINTS: {KEY: 1}}
    report = VerificationReport("")
    check_checkpoints(DataFolderState(offsets=offsets, clean=True), {KEY: None}, report)
    assert [(finding.severity, finding.file) for finding in report.findings] == [
        (ERROR, RECOVERY_POINTS),
        (NOTE, HIGH_WATERMARKS),
    ]
    assert "unlike gone-3" in report.notes[0].expected
