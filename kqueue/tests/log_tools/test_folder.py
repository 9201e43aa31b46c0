"""`open_log` on folders that Kafka wrote."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from itertools import count, islice
from pathlib import Path

import pytest

import kqueue
from kqueue.base.errors import OffsetOutOfRange, StorageFailed
from kqueue.base.names import parse_partition_folder, uuid_text
from kqueue.log_tools import LogFolder, folder
from kqueue.log_tools.errors import NotALogFolder
from kqueue.records.batch import iter_batches
from kqueue.storage import File, FolderEntry, MemoryStorage
from kqueue.tests import golden
from kqueue.tests.log_tools.logs import FOLDER, content, made, names, opened, replace
from kqueue.tests.tables import for_each

FOLDERS = [
    (version, topic, partition)
    for version in golden.VERSIONS
    for topic, told in golden.expected(version).items()
    if ":" not in topic
    for partition in told.watermarks
]


def opened_golden(version: str, topic: str, partition: int) -> LogFolder:
    return kqueue.open_log(golden.data_folder(version) / f"{topic}-{partition}")


@for_each("version, topic, partition", FOLDERS)
def test_every_record_that_a_client_read(version: str, topic: str, partition: int) -> None:
    """S3.2, S3.3, S3.6: every format and codec of Kafka 2.8 and 4.3."""
    told = golden.expected(version)[topic]
    log = opened_golden(version, topic, partition)
    assert (log.topic, log.partition) == (topic, partition)
    assert (log.start_offset, log.end_offset) == told.watermarks[partition]
    records = [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in log]
    assert records == [
        (r.offset, r.timestamp if r.timestamp_type else -1, r.key, r.value, r.headers)
        for r in told.of_partition(partition)
    ]


@for_each("version", golden.VERSIONS)
def test_aborted_transactions_are_left_out(version: str) -> None:
    told = golden.expected(version)["txn:committed"]
    for partition in told.watermarks:
        records = opened_golden(version, "txn", partition).records(isolation="read_committed")
        assert [r.offset for r in records] == [r.offset for r in told.of_partition(partition)]


@for_each("version", golden.VERSIONS)
@for_each("topic", ["compacted", "v2-gzip", "txn"])
def test_reading_begins_and_ends_where_told(version: str, topic: str) -> None:
    """S4.1, S5.2: in a gap the next record counts."""
    log = opened_golden(version, topic, 0)
    offsets = [r.offset for r in log]
    for wanted in range(log.start_offset, log.end_offset, 61):
        rest = [offset for offset in offsets if offset >= wanted]
        assert [r.offset for r in islice(log.records(start_offset=wanted), 3)] == rest[:3]
        assert [r.offset for r in log.records(start_offset=wanted, end_offset=wanted + 50)] == [
            o for o in rest if o < wanted + 50
        ]


def test_below_the_start_is_refused() -> None:
    log = opened_golden("2.8", "v2-gzip", 0)
    with pytest.raises(OffsetOutOfRange, match="-5 lies before the start of .*v2-gzip-0, which is 0"):
        log.records(start_offset=-5)
    with pytest.raises(ValueError, match="isolation is one of read_uncommitted, read_committed"):
        log.records(isolation="serializable")  # type: ignore[arg-type]


def test_every_partition_folder_opens() -> None:
    for version in golden.VERSIONS:
        for path in golden.data_folder(version).iterdir():
            if path.is_dir() and parse_partition_folder(path.name):
                log = kqueue.open_log(path)
                assert sum(batch.size for batch in log.batches()) == sum(segment.size for segment in log.segments)


def test_path_without_a_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, sentence in (("nowhere", "there is no folder"), ("file", "is a file"), ("", "holds no log")):
        with pytest.raises(NotALogFolder, match=sentence):
            kqueue.open_log(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# --- a folder in which compaction is at work, or was when the power went


def test_new_segments_stand_for_those_that_they_cover() -> None:
    """S5.2: `.swap` files count as soon as all of them exist, `.cleaned` files never."""
    storage, values = made()
    whole = {name: content(storage, name) for name in names(storage)}
    first, second, third, _ = sorted(whole)
    compacted = whole[first][:106] + whole[second][106:]
    rest = values[:3] + values[12:]

    replace(storage, f"{first}.cleaned", compacted)
    assert [record.value for record in opened(storage)] == values
    storage.rename(f"{FOLDER}/{first}.cleaned", f"{FOLDER}/{first}.swap")
    assert [record.value for record in opened(storage)] == rest
    replace(storage, f"{first.replace('.log', '.index')}.cleaned", b"")
    assert [record.value for record in opened(storage)] == values, "the commit was cut short"
    storage.remove(f"{FOLDER}/{first.replace('.log', '.index')}.cleaned")
    storage.rename(f"{FOLDER}/{first}", f"{FOLDER}/{first}.deleted")
    assert [record.value for record in opened(storage)] == rest
    storage.rename(f"{FOLDER}/{first}.swap", f"{FOLDER}/{first}")
    assert [record.value for record in opened(storage)] == rest, "the second was left behind"
    storage.rename(f"{FOLDER}/{second}", f"{FOLDER}/{second}.deleted")
    assert [record.value for record in opened(storage)] == rest
    assert [segment.base_offset for segment in opened(storage).segments] == [0, 18, 27]
    assert third in str(opened(storage).segments[1])


def at_work(
    monkeypatch: pytest.MonkeyPatch,
    storage: MemoryStorage,
    change: Callable[[int, list[FolderEntry]], list[FolderEntry]],
) -> None:
    """Change the listing of `storage` from call to call, as a broker that renames files does."""
    whole, looks = storage.list, count()
    monkeypatch.setattr(
        storage, "list", lambda path: change(next(looks), whole(path)) if path == FOLDER else whole(path)
    )
    monkeypatch.setattr(folder, "PAUSES_S", (0.0,) * 20)


def test_listings_that_miss_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing may miss a renamed file: it is used only if a second one confirms it."""
    storage, values = made()
    logs = names(storage)
    at_work(
        monkeypatch,
        storage,
        lambda look, all_of_it: [one for one in all_of_it if look > 12 or one.name != logs[look % len(logs)]],
    )
    assert [record.value for record in opened(storage)] == values


def test_a_folder_that_does_not_come_to_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, _ = made()
    at_work(monkeypatch, storage, lambda look, all_of_it: all_of_it[look % 2 :])
    with pytest.raises(StorageFailed, match="t-0: its files are renamed faster than they can be listed; try again"):
        opened(storage)


def test_a_segment_that_is_replaced_while_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The part of the new segment within the old size covers a deleted segment, but is not all."""
    storage, values = made()
    first, second, *_ = names(storage)
    old = content(storage, first)
    replace(storage, f"{first}.deleted", b"left of a compaction before")
    *_, (last, _) = iter_batches(old)
    compacted = old[last:] + content(storage, second)
    assert len(compacted) > len(old)
    open_file = storage.open

    def open_replaced(path: str, **options: bool) -> File:
        monkeypatch.setattr(storage, "open", open_file)
        storage.remove(f"{FOLDER}/{second}")
        replace(storage, first, compacted)
        return open_file(path, **options)

    monkeypatch.setattr(storage, "open", open_replaced)
    assert [record.value for record in opened(storage)] == values[6:]


def test_deleted_records_do_not_come_back(tmp_path: Path) -> None:
    """S5.1: records below the log start, which is stored beside the folder."""
    folder = golden.copy_folder("4.3", tmp_path)
    (folder / "log-start-offset-checkpoint").write_text("0\n2\nv2-gzip 0 57\nother 3 9\n")
    log = kqueue.open_log(folder / "v2-gzip-0")
    assert log.start_offset == 57
    assert [record.offset for record in log] == list(range(57, 300))
    with pytest.raises(OffsetOutOfRange, match="offset 56 lies before the start"):
        log.batches(start_offset=56)
    (folder / "log-start-offset-checkpoint").write_text("nonsense")
    assert kqueue.open_log(folder / "v2-gzip-0").start_offset == 0


def test_the_folder_tells_its_topic(tmp_path: Path) -> None:
    log = opened_golden("4.3", "v2-gzip", 0)
    assert log.topic_id is not None
    assert uuid_text(log.topic_id) == "hkGRbaiNSCqd_Az48o7EyA"
    assert opened_golden("2.8", "v0-none", 0).topic_id is None
    (tmp_path / "any name").mkdir()
    (tmp_path / "any name" / "00000000000000000007.log").touch()
    log = kqueue.open_log(tmp_path / "any name")
    assert (log.topic, log.partition, log.start_offset, log.end_offset, list(log)) == (None, None, 7, 7, [])


def test_a_segment_that_a_broker_deletes_meanwhile() -> None:
    storage, _ = made()
    log = opened(storage)
    storage.remove(f"{FOLDER}/{names(storage)[1]}")
    with pytest.raises(FileNotFoundError):
        list(log)


def test_nothing_is_written(tmp_path: Path) -> None:
    folder = golden.copy_folder("4.3", tmp_path)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(folder.rglob("*"))}
    for path in list(before):
        if path.is_dir() and parse_partition_folder(path.name):
            list(kqueue.open_log(path).records(isolation="read_committed"))
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(folder.rglob("*"))} == before


def test_importing_kqueue_does_not_import_it() -> None:
    code = "import sys, kqueue; assert 'kqueue.log_tools' not in sys.modules; print(kqueue.open_log.__module__)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "kqueue.log_tools.folder\n"
    with pytest.raises(AttributeError, match="no attribute 'opn_log'"):
        _ = kqueue.opn_log  # type: ignore[attr-defined]
