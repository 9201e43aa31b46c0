"""S3.3, S3.4, S5.3, S7.2: valid folders have no findings, and each kind of damage is named."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from kqueue.log.formats.offset_index import ENTRY as INDEX_ENTRY
from kqueue.log.formats.time_index import ENTRY as TIME_ENTRY
from kqueue.log.scanner.header_validation import validated_batches
from kqueue.log_tools.errors import NotALogFolder
from kqueue.log_tools.verify import resolve_target, verify
from kqueue.log_tools.verify.report import NOTE
from kqueue.storage import LocalStorage
from kqueue.tests.golden import VERSIONS, data_folder, expected
from kqueue.tests.log_tools.damage import NONE, TXN, cut, flip, put, replace, some_of
from kqueue.tests.tables import for_each


@for_each("version", VERSIONS)
@for_each("deep", [False, True])
def test_folders_of_kafka_are_sound(version: str, deep: bool) -> None:
    """S3.6."""
    report = verify(data_folder(version), deep=deep)
    assert report.is_sound, report.errors
    assert report.partitions == len([path for path in data_folder(version).iterdir() if path.is_dir()])
    assert report.notes == []
    if deep:  # wrappers of old magic tell how many they hold only to those who look
        assert report.records >= sum(len(topic.records) for name, topic in expected(version).items() if ":" not in name)


@for_each("version", VERSIONS)
def test_partitions_alone_are_sound_too(version: str) -> None:
    for path in data_folder(version).iterdir():
        if path.is_dir():
            report = verify(path)
            assert report.is_sound, report.errors
            assert report.partitions == 1


def test_nothing_is_written(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "txn-0")
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*")}
    verify(folder, deep=True)
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*")} == before


def test_progress_reaches_the_end() -> None:
    seen: list[tuple[int, int]] = []
    report = verify(data_folder("4.3"), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] == report.bytes


EPOCHS = "v2-none-0/leader-epoch-checkpoint"
METADATA = "v2-none-0/partition.metadata"
POINTS = "recovery-point-offset-checkpoint"
WATERMARKS = "replication-offset-checkpoint"
STARTS = "log-start-offset-checkpoint"
NEXT = "txn-0/00000000000000000246.log"
V0 = "v0-none-0/00000000000000000000.log"
V1 = "v1-gzip-0/00000000000000000000.log"
LAST = "txn-0/00000000000000000267.snapshot"
BEYOND = "txn-0/00000000000000000999.snapshot"


class Case(NamedTuple):
    """One kind of damage, and the expected file, position and words of the finding."""

    name: str
    harm: Callable[[Path], object]
    file: str
    position: int | None
    words: str
    version: str = "4.3"


def _index(number: int, offset: int, position: int) -> Callable[[Path], object]:
    return lambda folder: put(folder / f"{NONE}.index", number * 8, INDEX_ENTRY.pack(offset, position))


def _time(number: int, shift_ms: int, offset: int) -> Callable[[Path], object]:
    def harm(folder: Path) -> None:
        path = folder / f"{NONE}.timeindex"
        timestamp, _ = TIME_ENTRY.unpack_from(path.read_bytes(), number * 12)
        put(path, number * 12, TIME_ENTRY.pack(timestamp + shift_ms, offset))

    return harm


CASES = [
    Case("a payload", lambda d: flip(d / f"{NONE}.log", 3300), f"{NONE}.log", 3180, "bytes that give"),
    Case(
        "a length that leaves the file",
        lambda d: put(d / f"{NONE}.log", 3188, b"\x7f"),
        f"{NONE}.log",
        3180,
        "up to the end of the",
    ),
    Case(
        "a length that is too small", lambda d: put(d / f"{NONE}.log", 3188, bytes(4)), f"{NONE}.log", 3180, "length 0"
    ),
    Case("a magic", lambda d: flip(d / f"{NONE}.log", 3180 + 16, 0x40), f"{NONE}.log", 3180, "magic 66"),
    Case("another magic", lambda d: flip(d / f"{NONE}.log", 3180 + 16, 0x03), f"{NONE}.log", 3180, "a valid batch"),
    Case(
        "counts",
        lambda d: flip(d / f"{NONE}.log", 3180 + 57, 0x80),
        f"{NONE}.log",
        3180,
        "records with a last offset delta",
    ),
    Case("a base offset, higher", lambda d: flip(d / f"{NONE}.log", 3180 + 6), f"{NONE}.log", 3180, "296 to 335"),
    Case("a base offset, lower", lambda d: flip(d / f"{NONE}.log", 6386 + 7, 64), f"{NONE}.log", 6386, "16 to 55"),
    Case(
        "a base offset of the first batch",
        lambda d: flip(d / f"{NONE}.log", 0, 0x40),
        f"{NONE}.log",
        0,
        "4611686018427387904",
    ),
    Case(
        "a leader epoch",
        lambda d: flip(d / f"{NONE}.log", 3180 + 15),
        f"{NONE}.log",
        3180,
        "expected leader epoch 0, found 1",
    ),
    Case(
        "a leader epoch below none",
        lambda d: flip(d / f"{NONE}.log", 3180 + 12, 0x80),
        f"{NONE}.log",
        3180,
        "expected leader epoch 0",
    ),
    Case(
        "a torn tail",
        lambda d: cut(d / f"{NONE}.log", -20),
        f"{NONE}.log",
        22840,
        "1700 bytes up to the end of the file",
    ),
    Case(
        "a tail without a header",
        lambda d: cut(d / f"{NONE}.log", 22850),
        f"{NONE}.log",
        22840,
        "the last 10 bytes of the file",
    ),
    Case(
        "zeros at the end", lambda d: put(d / f"{NONE}.log", 24560, bytes(100)), f"{NONE}.log", 24560, "100 zero bytes"
    ),
    Case("an old message", lambda d: flip(d / V0, 100), V0, 90, "the message", "2.8"),
    Case("an old wrapper", lambda d: flip(d / V1, 99), V1, 0, "", "2.8"),
    Case("a lost segment", lambda d: _remove(d, "txn-0/00000000000000000025"), NEXT, None, "221 offsets", "2.8"),
    Case("a lost first log", lambda d: (d / f"{TXN}.log").unlink(), f"{TXN}.index", None, "expected its log"),
    Case("no index", lambda d: (d / f"{NONE}.index").unlink(), f"{NONE}.index", None, "no such file"),
    Case("no time index", lambda d: (d / f"{NONE}.timeindex").unlink(), f"{NONE}.timeindex", None, "no such file"),
    Case("an index cut short", lambda d: cut(d / f"{NONE}.index", -3), f"{NONE}.index", 48, "5 bytes left over"),
    Case("an index of zeros", lambda d: put(d / f"{NONE}.index", 56, bytes(16)), f"{NONE}.index", None, "2 empty ones"),
    Case("an index position", _index(0, 79, 3181), f"{NONE}.index", 0, "3181, where none begins"),
    Case("an index position beyond the end", _index(6, 299, 99999), f"{NONE}.index", 48, "99999"),
    Case(
        "an index offset, too low",
        _index(1, 79 + 1, 6386),
        f"{NONE}.index",
        8,
        "expected offset 119 at position 6386, found 80",
    ),
    Case(
        "an index offset before its batch",
        _index(0, 20, 3180),
        f"{NONE}.index",
        0,
        "expected offset 79 at position 3180, found 20",
    ),
    Case(
        "an index offset that is no batch's",
        _index(6, 320, 22840),
        f"{NONE}.index",
        None,
        "expected offsets up to 299, found 320",
    ),
    Case("an index offset, much too high", _index(0, 200, 3180), f"{NONE}.index", 0, "found (200, 3180)"),
    Case("an index out of order", _index(2, 1, 1), f"{NONE}.index", 16, "in order, above (119, 6386)"),
    Case("a time", _time(0, 1, 79), f"{NONE}.timeindex", 0, "up to offset 79"),
    Case("a time's offset", _time(0, 0, 20), f"{NONE}.timeindex", 0, "up to offset 20"),
    Case(
        "a time's offset beyond the end",
        _time(6, 0, 400),
        f"{NONE}.timeindex",
        72,
        "expected offsets up to 299, found 400",
    ),
    Case("times out of order", _time(3, -(10**9), 199), f"{NONE}.timeindex", 36, "an entry in order, above"),
    Case(
        "a time index cut short", lambda d: cut(d / f"{NONE}.timeindex", -12), f"{NONE}.timeindex", None, "a last entry"
    ),
    Case(
        "a time index cut within",
        lambda d: cut(d / f"{NONE}.timeindex", -5),
        f"{NONE}.timeindex",
        72,
        "7 bytes left over",
    ),
    Case(
        "an aborted transaction's producer",
        lambda d: flip(d / f"{TXN}.txnindex", 9),
        f"{TXN}.txnindex",
        0,
        "producer 1,",
    ),
    Case("an aborted transaction's start", lambda d: flip(d / f"{TXN}.txnindex", 17), f"{TXN}.txnindex", 0, "aborted"),
    Case("an aborted transaction's end", lambda d: flip(d / f"{TXN}.txnindex", 24), f"{TXN}.txnindex", 0, "aborted"),
    Case(
        "a last stable offset",
        lambda d: flip(d / f"{TXN}.txnindex", 33, 0x40),
        f"{TXN}.txnindex",
        0,
        "last stable offset",
    ),
    Case(
        "a version of aborted transactions",
        lambda d: flip(d / f"{TXN}.txnindex", 1),
        f"{TXN}.txnindex",
        None,
        "version",
    ),
    Case(
        "aborted transactions cut short",
        lambda d: cut(d / f"{TXN}.txnindex", -34),
        f"{TXN}.txnindex",
        None,
        "nothing of it",
    ),
    Case(
        "no aborted transactions", lambda d: (d / f"{TXN}.txnindex").unlink(), f"{TXN}.txnindex", None, "no such file"
    ),
    Case("a snapshot", lambda d: flip(d / f"{TXN}.snapshot", 30), f"{TXN}.snapshot", None, "checksum"),
    Case("a snapshot of another time", lambda d: _copy(d, LAST), LAST, None, "sequence"),
    Case("a snapshot beyond the end", lambda d: _copy(d, BEYOND), BEYOND, None, "999"),
    Case("leader epochs", lambda d: _write(d / EPOCHS, "0\n1\n0 100\n"), EPOCHS, None, ""),
    Case("other leader epochs", lambda d: _write(d / EPOCHS, "0\n1\n4 0\n"), EPOCHS, None, "epoch 0 at offset 0"),
    Case("leader epochs to come", lambda d: _write(d / EPOCHS, "0\n2\n0 0\n1 900\n"), EPOCHS, None, "from 900"),
    Case("leader epochs as they can't be", lambda d: _write(d / EPOCHS, "0\n7\n0 0\n"), EPOCHS, None, "can't be read"),
    Case("no leader epochs", lambda d: (d / EPOCHS).unlink(), EPOCHS, None, "no such file"),
    Case("a topic id", lambda d: replace(d / METADATA, "topic_id", "topic-id"), METADATA, None, "can't be read"),
    Case(
        "a recovery point",
        lambda d: replace(d / POINTS, "v2-none 0 300", "v2-none 0 301"),
        POINTS,
        None,
        "up to its end, 300",
    ),
    Case(
        "a high watermark",
        lambda d: replace(d / WATERMARKS, "v2-none 0 300", "v2-none 0 3000"),
        WATERMARKS,
        None,
        "3000",
    ),
    Case("a log start", lambda d: _write(d / STARTS, "0\n1\nv2-none 0 301\n"), STARTS, None, "301"),
    Case("a checkpoint", lambda d: replace(d / POINTS, "v2-none 0", "v2-none x"), POINTS, None, "can't be read"),
    Case(
        "meta.properties",
        lambda d: replace(d / "meta.properties", "node.id=1", "node.id"),
        "meta.properties",
        None,
        "node.id",
    ),
    Case(
        "an owner",
        lambda d: replace(d / "meta.properties", "cluster.id=", "other="),
        "meta.properties",
        None,
        "cluster.id",
    ),
]


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def _remove(folder: Path, name: str) -> None:
    for path in (folder / name).parent.glob(f"{Path(name).name}.*"):
        path.unlink()


def _copy(folder: Path, new: str) -> None:
    (folder / new).write_bytes((folder / f"{TXN}.snapshot").read_bytes())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_kind_of_damage_is_found_and_named(case: Case, tmp_path: Path) -> None:
    partition = case.file.partition("/")[0] if "/" in case.file else "v2-none-0"
    folder = some_of(case.version, tmp_path, partition)
    assert verify(folder).is_sound
    case.harm(folder)
    report = verify(folder)
    assert not report.is_sound
    findings = [finding for finding in report.errors if finding.file == case.file]
    assert findings, report.errors
    assert findings[0].position == case.position
    assert case.words in str(findings[0])


def test_batches_after_damage_are_still_checked(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    put(folder / f"{NONE}.log", 3188, b"\x7f")
    flip(folder / f"{NONE}.log", 10000)
    report = verify(folder)
    assert [finding.position for finding in report.errors] == [3180, 9649]
    assert report.batches == 6


def test_bad_batch_is_the_only_finding(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "txn-0")
    flip(folder / f"{TXN}.log", 1500)
    assert [finding.file for finding in verify(folder).errors] == [f"{TXN}.log"]


def test_records_that_contradict_their_header_are_found_deep_down_only(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    path = folder / f"{NONE}.log"
    _with_right_checksum(path, 0, 61, b"\x7f")  # the first record's length
    assert verify(folder).is_sound
    (finding,) = verify(folder, deep=True).errors
    assert (finding.file, finding.position) == (f"{NONE}.log", 0)


def test_a_wrong_max_timestamp_is_a_note(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-gzip-0")
    path = folder / "v2-gzip-0/00000000000000000000.log"
    (greatest,) = struct.unpack_from(">q", path.read_bytes(), 35)
    _with_right_checksum(path, 0, 35, struct.pack(">q", greatest - 1))
    notes = verify(folder, deep=True).notes
    assert any(f"max timestamp {greatest - 1}, but the latest record's is {greatest}" in str(note) for note in notes)


def _with_right_checksum(path: Path, start: int, position: int, new: bytes) -> None:
    from crc32c import crc32c

    put(path, start + position, new)
    data = path.read_bytes()
    size = struct.unpack_from(">i", data, start + 8)[0] + 12
    put(path, start + 17, struct.pack(">I", crc32c(data[start + 21 : start + size])))


def test_folder_of_a_running_broker_is_sound(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    (folder / ".kafka_cleanshutdown").unlink()
    cut(folder / f"{NONE}.log", -20)
    for suffix, count in ((".index", 80), (".timeindex", 120)):
        with (folder / (NONE + suffix)).open("ab") as file:
            file.write(bytes(count))
    cut(folder / f"{NONE}.log", 22850)
    put(folder / f"{NONE}.index", 48, bytes(8))
    put(folder / f"{NONE}.timeindex", 72, bytes(12))
    (folder / POINTS).write_text("0\n0\n")
    report = verify(folder)
    assert report.is_sound, report.errors
    assert {(note.file, note.position) for note in report.notes} >= {(f"{NONE}.log", 22840), (f"{NONE}.index", None)}
    (folder / ".kafka_cleanshutdown").touch()
    assert not verify(folder).is_sound


def test_flushed_records_that_are_gone_are_damage_after_a_crash_too(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    (folder / ".kafka_cleanshutdown").unlink()
    cut(folder / f"{NONE}.log", 22840)
    assert POINTS in {finding.file for finding in verify(folder).errors}


def test_leftovers_are_named(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    names = [
        "00000000000000000000.log.cleaned",
        "00000000000000000000.log.swap",
        "x.tmp",
        "00000000000000000900.log.damaged",
        "what",
    ]
    for name in [*names, *(f"{number:020}.log.cleaned" for number in range(9))]:
        (folder / "v2-none-0" / name).touch()
    (folder / "old-0.0123-delete").mkdir()
    (folder / "old-1.0123-stray").mkdir()
    report = verify(folder)
    assert report.is_sound
    named = {note.file for note in report.notes}
    assert named >= {f"v2-none-0/{name}" for name in names} | {"old-1.0123-stray"}
    assert {note.found for note in report.notes if note.file == "v2-none-0"} == {"6 more .cleaned files"}


def test_gaps_are_fine_where_compaction_was(tmp_path: Path) -> None:
    """S5.2."""
    folder = some_of("2.8", tmp_path, "compacted-0")
    assert verify(folder).is_sound
    (folder / "cleaner-offset-checkpoint").unlink()
    assert [finding.found for finding in verify(folder).errors] == ["1160: 1160 offsets are missing"]
    assert verify(folder, allow_gaps=True).is_sound


def test_topic_ids_must_agree(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-three-partitions-0", "v2-three-partitions-1")
    (folder / "v2-three-partitions-1/partition.metadata").write_bytes(
        (data_folder("4.3") / "txn-0/partition.metadata").read_bytes()
    )
    assert [finding.file for finding in verify(folder).errors] == ["v2-three-partitions-1/partition.metadata"]


def test_a_file_that_is_wrong_everywhere_does_not_fill_the_screen(tmp_path: Path) -> None:
    folder = some_of("2.8", tmp_path, "v0-none-0")
    path = folder / V0
    storage = LocalStorage(path.parent)
    messages = [one.position for one in validated_batches(storage.open(path.name), path.stat().st_size, 0)]
    for position in messages[::2]:
        flip(path, position + 20)
    errors = [finding for finding in verify(folder).errors if finding.file.endswith("0.log")]
    assert len(errors) == 21
    assert errors[-1].found == f"{len(messages) // 2 - 20} more like these"


def test_a_file_that_cannot_be_read_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0", "v2-gzip-0")
    (folder / f"{NONE}.log").unlink()
    (folder / f"{NONE}.log").symlink_to("nowhere")
    report = verify(folder)
    assert f"{NONE}.log" in {finding.file for finding in report.errors}
    assert report.partitions == 2


def test_path_without_a_log_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "nothing", tmp_path / "file"):
        with pytest.raises(NotALogFolder):
            resolve_target(path)


def test_notes_alone_leave_a_folder_sound(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    (folder / "v2-none-0/notes.txt").touch()
    report = verify(folder / "v2-none-0")
    assert [(note.file, note.severity) for note in report.notes] == [("v2-none-0/notes.txt", NOTE)]
    assert report.is_sound
    assert report.as_json()["sound"] is True


def test_deletion_under_way_is_no_damage(tmp_path: Path) -> None:
    """S5.1: a broker deletes the log file first.

    Log start and leader epochs have advanced by then.
    """
    folder = some_of("2.8", tmp_path, "txn-0")
    (folder / "txn-0/00000000000000000000.log").unlink()
    (folder / "txn-0/00000000000000000025.log").unlink()
    (folder / "txn-0/leader-epoch-checkpoint").write_text("0\n1\n0 246\n")
    assert not verify(folder).is_sound
    (folder / ".kafka_cleanshutdown").unlink()
    report = verify(folder)
    assert report.is_sound, report.errors
    assert "txn-0/00000000000000000025.txnindex" in {note.file for note in report.notes}


def test_a_snapshot_that_is_just_being_written_is_no_damage(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    (folder / "v2-none-0/00000000000000000300.snapshot").write_bytes(b"")
    (folder / ".kafka_cleanshutdown").unlink()
    assert verify(folder).is_sound
    (folder / ".kafka_cleanshutdown").touch()
    assert not verify(folder).is_sound
