"""S5.2: compaction of sealed segments as a whole, example by example, and on folders that Kafka
wrote.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from kqueue.base.errors import CorruptBatch, StorageFailed
from kqueue.log.compaction.compaction_task import CompactionTask
from kqueue.log.formats.filenames import CLEANED, file_name
from kqueue.records.batch import ABORT, COMMIT, Record
from kqueue.records.message_set import encode_set
from kqueue.storage import LocalStorage, MemoryStorage
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.tests import golden
from kqueue.tests.log.compaction.helpers import (
    DAY_MS,
    FOLDER,
    committed,
    compact,
    data_records,
    is_control,
    new_log,
    open_compacted,
    put,
    sources_of,
    swap_in,
    table,
    task,
    units,
)
from kqueue.tests.log.helpers import START_MS, end_transaction
from kqueue.tests.tables import for_each


def keys_and_values(storage: MemoryStorage) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in data_records(storage)]


def test_the_last_value_of_each_key_stays_at_its_offset() -> None:
    """S5.2"""
    storage, log = new_log()
    for number in range(20):
        put(log, (b"a", b"%d" % number), (b"b%d" % (number % 3), b"%d" % number))
    log.roll()
    put(log, (b"a", b"active"))
    before = data_records(storage)
    done = compact(storage)
    after = data_records(storage)
    assert table(after) == table(before)
    assert [(record.offset, record.key) for record in after] == [
        (35, b"b2"), (37, b"b0"), (38, b"a"), (39, b"b1"), (40, b"a"),
    ]  # fmt: skip
    assert done.clean_to == 40
    assert (done.stats.records_read, done.stats.records_kept, done.stats.map_entries) == (40, 4, 4)
    log = open_compacted(storage, recovery_point=41)
    assert (log.start_offset, log.end_offset) == (0, 41)
    assert [record.key for record in committed(log)] == [b"b2", b"b0", b"a", b"b1", b"a"]


def test_a_read_in_a_gap_continues_at_the_next_offset() -> None:
    """S5.2"""
    storage, log = new_log()
    for number in range(30):
        put(log, (b"%d" % (number % 2), b"x" * 50))
    log.roll()
    compact(storage)
    log = open_compacted(storage, recovery_point=30)
    for offset in range(29):
        fetched = log.read(offset, 1, end_offset=30)
        assert fetched.next_offset == (29 if offset <= 28 else 30)


def test_tombstones_are_removed_after_delete_retention() -> None:
    """S5.2"""
    storage, log = new_log()
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None))
    log.roll()
    clean_to = compact(storage).clean_to
    assert keys_and_values(storage) == [(b"b", b"1"), (b"a", None)]
    for hours in (1, 23):
        compact(storage, first_dirty=clean_to, now_ms=START_MS + hours * 3_600_000)
        assert keys_and_values(storage) == [(b"b", b"1"), (b"a", None)]
    compact(storage, first_dirty=clean_to, now_ms=START_MS + DAY_MS)
    assert keys_and_values(storage) == [(b"b", b"1")]


def test_a_small_map_completes_in_several_passes() -> None:
    """S5.2: the offset map of bounded memory"""
    storage, log = new_log()
    for number in range(40):
        put(log, (b"%d" % (number % 10), b"%d" % number))
        if number % 7 == 0:
            log.roll()
    log.roll()
    first_dirty, passes = 0, 0
    while first_dirty < 40:
        done = compact(storage, first_dirty=first_dirty, dedupe_bytes=130)
        assert done.clean_to > first_dirty
        assert done.stats.map_entries <= 4
        first_dirty, passes = done.clean_to, passes + 1
    assert passes >= 8
    assert sorted(keys_and_values(storage)) == [(b"%d" % number, b"%d" % (30 + number)) for number in range(10)]


def test_an_abort_marker_in_the_active_segment_is_applied() -> None:
    """S5.2: or its data would take the place of what was committed before"""
    storage, log = new_log()
    put(log, (b"a", b"committed"))
    put(log, (b"a", b"aborted"), producer_id=7, epoch=0, base_sequence=0, transactional=True)
    log.roll()
    end_transaction(log, ABORT, 7)
    compact(storage)
    assert keys_and_values(storage) == [(b"a", b"committed")]


def test_aborted_data_is_removed_at_once_and_its_marker_in_two_passes() -> None:
    """S5.2"""
    storage, log = new_log()
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"), producer_id=7, epoch=0, base_sequence=0, transactional=True)
    end_transaction(log, ABORT, 7)
    put(log, (b"b", b"1"), producer_id=8, epoch=0, base_sequence=0, transactional=True)
    end_transaction(log, COMMIT, 8)
    log.roll()

    def left() -> list[int]:
        return [unit.last_offset for unit, records in units(storage) if records]

    clean_to = compact(storage).clean_to
    assert left() == [0, 2, 3, 4]
    for _ in range(2):
        compact(storage, first_dirty=clean_to)
        assert left() == [0, 2, 3, 4], "it has a horizon from the second time on"
    compact(storage, first_dirty=clean_to, now_ms=START_MS + DAY_MS)
    assert left() == [0, 3, 4], "a marker stays as long as its data does"


def test_the_last_batch_of_a_producer_is_retained_without_records() -> None:
    storage, log = new_log()
    put(log, (b"a", b"1"), (b"a", b"2"), producer_id=7, epoch=3, base_sequence=4)
    put(log, (b"a", b"3"))
    log.roll()
    compact(storage, last_batches={7: 1})
    empty, _ = next(units(storage))
    assert (empty.producer_id, empty.producer_epoch, empty.last_sequence, empty.record_count) == (7, 3, 5, 0)  # type: ignore[union-attr]
    producers = dict(open_compacted(storage).producers.items())
    assert producers[7].batches[-1].last_sequence == 5
    compact(storage)
    assert all(unit.producer_id == -1 for unit, _ in units(storage))  # type: ignore[union-attr]


def test_records_below_the_log_start_or_without_a_key_are_removed() -> None:
    storage, log = new_log()
    put(log, (b"a", b"1"), (b"b", b"1"), (None, b"no key"), (b"c", b"1"))
    log.roll()
    compact(storage, start_offset=1)
    assert keys_and_values(storage) == [(b"b", b"1"), (b"c", b"1")]


def has_good_value(record: Record) -> bool:
    return record.value == b"good"


def test_a_filter_decides_instead_of_keys() -> None:
    storage, log = new_log()
    put(log, (None, b"good"), (b"a", b"bad"), (b"a", b"good"), (b"a", None))
    log.roll()
    done = compact(storage, keep=has_good_value, first_dirty=4)
    assert keys_and_values(storage) == [(None, b"good"), (b"a", b"good")]
    assert done.clean_to == 4
    assert compact(storage, keep=has_good_value).groups == ()


def test_segments_that_lose_nothing_are_not_rewritten() -> None:
    storage, log = new_log()
    put(log, (b"a", b"1"))
    log.roll()
    put(log, (b"b", b"1"))
    log.roll()
    before = storage.list(FOLDER)
    done = task(storage, segment_bytes=1)()
    assert done.groups == ()
    assert done.clean_to == 2
    assert storage.list(FOLDER) == before


def test_segments_beyond_the_end_of_the_map_are_not_rewritten() -> None:
    storage, log = new_log()
    for number in range(6):
        put(log, (b"%d" % number, b"1"), (b"%d" % number, b"2"))
        log.roll()
    done = task(storage, segment_bytes=1, dedupe_bytes=80)()
    assert done.clean_to == 4
    assert [group.sources for group in done.groups] == [(0,), (2,)]


def test_a_task_without_work_succeeds() -> None:
    storage, log = new_log()
    assert task(storage, sources=())().clean_to == 0
    put(log, (b"a", b"1"))
    log.roll()
    assert task(storage, first_dirty=1)().groups == ()


def test_a_task_and_its_result_can_be_sent_to_another_process(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    log = open_compacted(storage)
    for number in range(10):
        put(log, (b"a", b"%d" % number))
    log.roll()
    made = replace(task(storage), opener=storage.opener)
    filtering: CompactionTask = pickle.loads(pickle.dumps(replace(made, keep=has_good_value)))
    assert filtering.keep is has_good_value
    sent: CompactionTask = pickle.loads(pickle.dumps(made))
    done = pickle.loads(pickle.dumps(sent()))
    log.close()
    swap_in(storage, done)
    assert [record.value for record in data_records(storage)] == [b"9"]


def test_reads_and_writes_are_throttled() -> None:
    """S5.2: log.cleaner.io.max.bytes.per.second"""
    storage, log = new_log()
    for number in range(50):
        put(log, (b"a%d" % (number % 10), b"x" * 100))
    log.roll()
    slept: list[float] = []
    done = task(storage, io_bytes_per_second=1000.0, sleep=slept.append, monotonic=lambda: 0.0)()
    moved = done.stats.bytes_read + done.stats.bytes_written
    assert sum(slept) == pytest.approx(moved / 1000, abs=0.5)
    assert moved >= 2 * 50 * 100


def test_a_wrapper_of_old_format_keeps_codec_and_kind_of_time() -> None:
    """S3.3, S5.2"""
    storage, _ = new_log()
    records = [Record(number, START_MS, b"%d" % (number % 2), b"v%d" % number) for number in range(5)]
    data = encode_set(records, 1, 2, log_append_time=True) + encode_set([Record(5, START_MS + 1, b"0", b"last")], 1)
    storage.write_atomic(f"{FOLDER}/{file_name(0, '.log')}", data)
    storage.open(f"{FOLDER}/{file_name(6, '.log')}", create=True)
    compact(storage)
    (wrapper, inside), (single, _) = units(storage)
    assert (wrapper.magic, wrapper.codec_id, wrapper.is_log_append_time, wrapper.max_timestamp) == (
        1,
        2,
        True,
        START_MS,
    )
    assert wrapper.last_offset == 3
    assert inside == [records[3]]
    assert (single.codec_id, single.last_offset) == (0, 5)


# --- what goes wrong


def test_damage_is_reported_and_temporary_files_are_removed() -> None:
    storage, log = new_log()
    for number in range(5):
        put(log, (b"a", b"%d" % number))
        log.roll()
    sources = sources_of(storage)
    path = f"{FOLDER}/{file_name(sources[3].base, '.log')}"
    data = bytearray(storage.read(path))
    data[-1] ^= 1
    storage.write_atomic(path, bytes(data))
    before = storage.list(FOLDER)
    for first_dirty in (0, 5):
        with pytest.raises(CorruptBatch, match=rf"{path}, batch at position 0: expected checksum"):
            task(storage, first_dirty=first_dirty, segment_bytes=1)()
        assert storage.list(FOLDER) == before


def test_a_disk_failure_leaves_no_temporary_files() -> None:
    storage = FaultyStorage()
    log = open_compacted(storage)
    for number in range(6):
        put(log, (b"a", b"%d" % number))
        log.roll()
    before = storage.list(FOLDER)
    job = task(storage, segment_bytes=1)
    for kind in ("append", "sync", "sync_folder", "create"):
        for number in range(2):
            seen = [0]

            def fails(path: str, seen: list[int] = seen, number: int = number) -> bool:
                seen[0] += 1
                return seen[0] > number

            storage.fail(kind, fails)
            if kind != "sync_folder" or number == 0:
                with pytest.raises(StorageFailed):
                    job()
            storage.mend()
            for entry in storage.list(FOLDER):
                if entry.name.endswith(CLEANED) and (kind, number) == (
                    "sync_folder",
                    1,
                ):  # the only case that went well
                    storage.remove(f"{FOLDER}/{entry.name}")
            assert storage.list(FOLDER) == before


def test_a_missing_transaction_index_is_an_error() -> None:
    storage, log = new_log()
    put(log, (b"a", b"1"), producer_id=7, epoch=0, base_sequence=0, transactional=True)
    end_transaction(log, ABORT, 7)
    log.roll()
    job = task(storage)
    storage.remove(f"{FOLDER}/{file_name(0, '.txnindex')}")
    with pytest.raises(FileNotFoundError):
        job()


def test_files_of_an_earlier_job_are_removed() -> None:
    storage, log = new_log()
    put(log, (b"a", b"1"))
    log.roll()
    storage.open(f"{FOLDER}/{file_name(77, '.log')}{CLEANED}", create=True)
    task(storage)()
    assert not [entry for entry in storage.list(FOLDER) if entry.name.endswith(CLEANED)]


# --- folders of Kafka's

PARTITIONS = [
    (version, path.name)
    for version in golden.VERSIONS
    for path in sorted(golden.data_folder(version).iterdir())
    if path.is_dir() and not path.name.startswith("__")
]


def loaded(version: str, folder: str) -> MemoryStorage:
    """A copy of the folder, in which an empty segment follows the last, so that all of it is
    sealed.
    """
    storage = MemoryStorage()
    storage.make_folder(folder)
    for path in sorted((golden.data_folder(version) / folder).iterdir()):
        if not path.name.endswith(".deleted"):
            storage.open(f"{folder}/{path.name}", create=True).append(path.read_bytes())
    end = max(unit.last_offset for unit, _ in units(storage, folder)) + 1 if list(units(storage, folder)) else 0
    storage.open(f"{folder}/{file_name(end, '.log')}", create=True)
    return storage


@for_each("version, folder", PARTITIONS)
def test_folders_of_kafka_are_compacted(version: str, folder: str) -> None:
    """S5.2, S3.6, S3.3: every codec and format, Kafka's transactions and its own compacted topic"""
    storage = loaded(version, folder)
    topic, _, partition = folder.rpartition("-")
    read = golden.expected(version)[f"{topic}:committed" if topic == "txn" else topic].of_partition(int(partition))
    state = table(Record(record.offset, record.timestamp, record.key, record.value) for record in read)
    sources = sources_of(storage, folder=folder)
    first_dirty = 0
    for _ in range(3):
        done = task(storage, folder=folder, sources=sources, first_dirty=first_dirty, segment_bytes=1 << 14)()
        swap_in(storage, done, folder)
        sources, first_dirty = sources_of(storage, folder=folder), done.clean_to
    records = data_records(storage, folder)
    assert table(records) == state
    by_offset = {record.offset: record for record in read}
    for record in records:
        assert record.key is not None
        expected = by_offset[record.offset]
        assert (record.key, record.value, record.headers) == (expected.key, expected.value, expected.headers)
        assert record.timestamp == expected.timestamp or expected.timestamp_type == 0
    assert len({record.key for record in records}) == len(records)
    markers = sum(is_control(unit) for unit, _ in units(storage, folder))
    assert (markers > 0) == (topic == "txn")


def test_kafkas_own_compaction_is_continued() -> None:
    """S5.2, S3.6: what Kafka has compacted already loses no more than what came after its last
    cleaning took the place of
    """
    storage = loaded("4.3", "compacted-0")
    before = data_records(storage, "compacted-0")
    latest = {record.key: record.offset for record in before}
    swap_in(
        storage, task(storage, folder="compacted-0", sources=sources_of(storage, folder="compacted-0"))(), "compacted-0"
    )
    assert data_records(storage, "compacted-0") == [record for record in before if latest[record.key] == record.offset]
    assert len(before) > len(latest)
