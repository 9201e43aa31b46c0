from __future__ import annotations

import random
import tracemalloc

import pytest

from kqueue.base.errors import (
    CorruptBatch,
    DiskFull,
    OffsetOutOfRange,
    OutOfOrderSequence,
    StorageFailed,
)
from kqueue.base.sliced_task import run_to_end
from kqueue.log.config import LogConfig
from kqueue.log.deletion import remove_folder
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.log.log import Log
from kqueue.log.log_state import LogState
from kqueue.records.batch import ABORT, COMMIT, BatchHeader, check_crc, iter_batches, read_header
from kqueue.storage import MemoryStorage
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.helpers import (
    START_MS,
    append,
    batch,
    check_log,
    end_transaction,
    flush,
    open_log,
    read_batches,
    read_values,
    stable_end,
)
from kqueue.tests.tables import for_each


def names(log: Log) -> list[str]:
    return [entry.name for entry in log.storage.list("t-0")]


# --- appending


def test_batches_get_the_next_offsets_and_the_leaders_epoch() -> None:
    log = open_log()
    first = append(log, b"a", b"b", b"c", leader_epoch=4)
    second = append(log, b"d", leader_epoch=5)
    assert tuple(first) == (0, 2, -1, 0, False, 3)
    assert tuple(second) == (3, 3, -1, 0, False, 4)
    assert [(header.base_offset, header.leader_epoch) for header, _ in read_batches(log)] == [(0, 4), (3, 5)]
    assert log.epochs.entries() == [(4, 0), (5, 3)]
    assert log.epochs.end_offset_for(4, log.end_offset) == (4, 3)
    check_log(log)


def test_the_bytes_in_the_file_are_the_bytes_that_came_but_for_offset_and_epoch() -> None:
    log = open_log()
    append(log, b"zero")
    data = batch(b"hello", codec="gzip")
    came = bytes(data)
    log.append(memoryview(data), read_header(data), leader_epoch=7)
    stored = log.read(1, 1000, end_offset=2).read()
    assert stored[16:] == came[16:]
    assert stored[:16].hex() == "0000000000000001" + came[8:12].hex() + "00000007"


def test_a_topic_of_append_time_stamps_the_time_and_the_checksum() -> None:
    clock = ManualClock(START_MS)
    log = open_log(clock=clock, message_timestamp_type="LogAppendTime")
    clock.advance(1234)
    appended = append(log, b"a", b"b", time_ms=5)
    assert appended.log_append_time_ms == START_MS + 1234
    (header, records), *_ = read_batches(log)
    assert header.is_log_append_time
    assert [record.timestamp for record in records] == [START_MS + 1234] * 2
    assert run_to_end(log.offset_for_time(START_MS + 1234, 2)) == (START_MS + 1234, 0, 0)
    check_log(log)


def test_a_repeated_batch_gets_its_first_offsets_and_is_not_stored_again() -> None:
    log = open_log()
    append(log, b"other")
    for sequence in range(3):
        append(log, b"x", producer_id=1, epoch=0, base_sequence=sequence)
    again = append(log, b"x", producer_id=1, epoch=0, base_sequence=1)
    assert (again.base_offset, again.last_offset, again.duplicate, again.next_offset) == (2, 2, True, 4)
    assert log.end_offset == 4
    with pytest.raises(OutOfOrderSequence):
        append(log, b"x", producer_id=1, epoch=0, base_sequence=9)
    assert log.end_offset == 4
    ours = append(log, b"x", producer_id=1, epoch=0, base_sequence=9, client=False)
    assert ours.base_offset == 4, "the broker's own batches are not checked"


def test_producers_are_known_after_a_restart() -> None:
    storage = MemoryStorage()
    log = open_log(storage)
    append(log, b"a", b"b", producer_id=1, epoch=2, base_sequence=0)
    log.close()
    assert "00000000000000000002.snapshot" in names(log)
    for clean in (True, False):
        log = open_log(storage, clean=clean)
        assert append(log, b"a", b"b", producer_id=1, epoch=2, base_sequence=0).duplicate
        with pytest.raises(OutOfOrderSequence):
            append(log, b"a", producer_id=1, epoch=2, base_sequence=3)


def test_idle_producers_expire() -> None:
    clock = ManualClock(START_MS)
    storage = MemoryStorage()
    log = open_log(storage, clock, producer_expiration_ms=1000)
    append(log, b"a", producer_id=1, epoch=0, base_sequence=0)
    log.close()
    clock.advance(999)
    assert len(open_log(storage, clock, clean=True, producer_expiration_ms=1000).producers) == 1
    clock.advance(1)
    log = open_log(storage, clock, clean=True, producer_expiration_ms=1000)
    assert len(log.producers) == 0
    append(log, b"a", producer_id=1, epoch=0, base_sequence=77)
    clock.advance(1000)
    assert log.producers.expire(clock.wall_ms(), 1000) == 1


# --- segments


@for_each("settings", [{"segment_bytes": 300}, {"segment_index_bytes": 24, "index_interval_bytes": 0}])
def test_segments_end_by_size_and_by_full_indexes(settings: dict[str, int]) -> None:
    """S3.5"""
    log = open_log(**settings)
    for number in range(20):
        append(log, b"%d" % number, time_ms=START_MS + number)
    segments = log.segments
    assert len(segments) > 4
    for segment in segments:
        assert f"{segment.base:020d}.log" in names(log)
        assert segment.size <= settings.get("segment_bytes", 10**9)
    assert [segment.max_timestamp for segment in segments] == [START_MS + one.base - 1 for one in segments[1:]] + [  # type: ignore[attr-defined]
        START_MS + 19
    ]
    check_log(log)


def test_segments_end_by_the_time_of_their_first_batch_less_the_jitter() -> None:
    """S3.5"""
    log = open_log(segment_ms=1000)
    for time in (0, 1000, 500, 1001):
        append(log, b"x", time_ms=START_MS + time)
    assert [segment.base for segment in log.segments] == [0, 3]
    early = Log.open(
        MemoryStorage(),
        "t-0",
        LogConfig.of(segment_ms=1000, segment_jitter_ms=900),
        ManualClock(START_MS),
        rng=random.Random(4),
    )
    assert 0 < early._jitter_ms < 900
    for time in (0, 1000 - early._jitter_ms, 1001 - early._jitter_ms):
        append(early, b"x", time_ms=START_MS + time)
    assert [segment.base for segment in early.segments] == [0, 2]


def test_rolling_writes_the_snapshot_and_nothing_where_the_segment_is_empty() -> None:
    log = open_log()
    log.roll()
    assert [segment.base for segment in log.segments] == [0]
    append(log, b"a", b"b")
    log.roll()
    log.roll()
    assert [segment.base for segment in log.segments] == [0, 2]
    assert [name for name in names(log) if name.endswith(".snapshot")] == ["00000000000000000002.snapshot"]


def test_changed_settings_hold_from_the_next_batch_on() -> None:
    log = open_log()
    append(log, b"x" * 100)
    log.config = LogConfig.of(segment_bytes=200)
    append(log, b"x" * 100)
    assert len(log.segments) == 2


def test_closing_ends_the_time_index_of_the_active_segment() -> None:
    log = open_log()
    append(log, b"a", time_ms=START_MS + 7)
    append(log, b"b", time_ms=START_MS)
    log.close()
    assert log.storage.read("t-0/00000000000000000000.timeindex").hex() == f"{START_MS + 7:016x}" + "00000000"


# --- transactions


def test_open_transactions_hold_the_last_stable_offset() -> None:
    log = open_log()
    append(log, b"plain")
    append(log, b"a", producer_id=1, epoch=0, base_sequence=0, transactional=True)
    append(log, b"b", producer_id=2, epoch=0, base_sequence=0, transactional=True)
    append(log, b"plain")
    assert stable_end(log) == 1
    end_transaction(log, ABORT, 1)
    assert stable_end(log) == 2
    assert log.last_stable_offset(3) == 1, "the marker is not below the high watermark yet"
    assert log.last_stable_offset(5) == 2
    end_transaction(log, COMMIT, 2)
    assert stable_end(log) == 6
    assert log.last_stable_offset(5) == 2
    assert log.last_stable_offset(6) == 6
    assert log.reader.aborted(0, 6) == [AbortedTxn(1, 1, 4, 2)]
    assert log.reader.aborted(5, 6) == []
    check_log(log)


def test_aborted_transactions_are_found_across_segments_and_restarts() -> None:
    storage = MemoryStorage()
    log = open_log(storage, segment_bytes=200)
    expected = []
    for number in range(6):
        first = append(log, b"x" * 50, producer_id=1, epoch=0, base_sequence=number, transactional=True).base_offset
        append(log, b"y" * 50)
        last = end_transaction(log, ABORT, 1).base_offset
        expected.append(AbortedTxn(1, first, last, last + 1))
    for _ in range(2):
        assert log.reader.aborted(0, log.end_offset) == expected
        for one in expected:
            assert log.reader.aborted(one.first_offset, one.last_offset + 1) == [one]
        check_log(log)
        log.close()
        log = open_log(storage, segment_bytes=200)


def test_a_malformed_marker_writes_nothing() -> None:
    log = open_log()
    append(log, b"a")
    data = batch(b"no marker", producer_id=1, epoch=0, transactional=True, control=True)
    with pytest.raises(CorruptBatch):
        log.append(data, read_header(data), leader_epoch=0, client=False)
    append(log, b"b")
    assert read_values(log) == [b"a", b"b"]
    check_log(log)


# --- cutting


@for_each("offset, end", [(0, 0), (1, 0), (4, 3), (6, 6), (7, 6), (99, 12)])
def test_truncation_cuts_whole_batches(offset: int, end: int) -> None:
    storage = FaultyStorage()
    log = open_log(storage, segment_bytes=250, index_interval_bytes=0)
    for number in range(4):
        append(log, b"a", b"b", b"c", leader_epoch=number, producer_id=1, epoch=0, base_sequence=3 * number)
    flush(log)
    log.truncate_to(offset)
    assert (log.end_offset, log.flushed_offset) == (end, end)
    assert len(read_values(log)) == end
    check_log(log)
    if end < 12:
        assert append(log, b"d", leader_epoch=9, producer_id=1, epoch=0, base_sequence=end).base_offset == end
        check_log(log)


def test_the_recovery_point_is_lowered_before_anything_is_cut() -> None:
    storage = FaultyStorage()
    log = open_log(storage)
    append(log, b"a")
    append(log, b"b")
    flush(log)
    storage.steps.clear()
    heard: list[tuple[int, int]] = []
    log.on_truncate = lambda offset: heard.append((offset, len(storage.steps)))
    log.truncate_to(1)
    assert heard == [(1, 0)]


def test_truncation_at_the_log_end_removes_epochs_without_a_batch() -> None:
    """Else a follower would name such an epoch in each fetch, and be told to truncate each time."""
    log = open_log()
    append(log, b"a", leader_epoch=1)
    log.epochs.assign(2, 1)
    log.truncate_to(1)
    assert (log.end_offset, log.epochs.entries()) == (1, [(1, 0)])


def test_truncation_below_the_start_is_refused() -> None:
    log = open_log()
    append(log, b"a")
    append(log, b"b")
    log.advance_start(1)
    with pytest.raises(OffsetOutOfRange):
        log.truncate_to(0)


def test_the_start_moves_forward_only() -> None:
    log = open_log()
    append(log, b"a", leader_epoch=1)
    append(log, b"b", leader_epoch=2)
    append(log, b"c", leader_epoch=3)
    log.advance_start(1)
    log.advance_start(0)
    assert log.start_offset == 1
    assert read_values(log) == [b"b", b"c"]
    assert log.epochs.entries() == [(2, 1), (3, 2)]
    with pytest.raises(OffsetOutOfRange):
        log.read(0, 100, end_offset=3)
    with pytest.raises(OffsetOutOfRange):
        log.advance_start(4)


# --- a disk that fails


@for_each("kind", ["append", "create", "sync_folder"])
def test_a_failed_write_makes_the_log_read_only_and_a_failed_truncation_takes_it_offline(kind: str) -> None:
    storage = FaultyStorage()
    log = open_log(storage, segment_bytes=200)
    append(log, b"flushed")
    flush(log)
    append(log, b"a")
    heard: list[bool] = []
    log.on_flushed = lambda: heard.append(log.health.failure is not None)
    storage.fail(kind)
    use = (
        (lambda: log.truncate_to(1)) if kind == "sync_folder" else (lambda: [append(log, b"x" * 100) for _ in range(3)])
    )
    with pytest.raises(StorageFailed, match=f"can't {kind}"):
        use()
    storage.mend()
    assert heard == [True]
    with pytest.raises(StorageFailed):
        append(log, b"b")
    with pytest.raises(StorageFailed):
        log.read(1, 100, end_offset=2)
    if kind == "sync_folder":
        assert log.health.state is LogState.OFFLINE
        with pytest.raises(StorageFailed):
            log.read(0, 100, end_offset=1)
    else:
        assert log.health.state is LogState.READ_ONLY
        assert read_values(log, end_offset=1) == [b"flushed"]


def test_a_full_disk_does_not_end_a_flush_for_good() -> None:
    """There is room for the batch and none for the epochs beside it: they are written once there
    is.
    """
    storage = FaultyStorage()
    log = open_log(storage)
    append(log, b"a", leader_epoch=1)
    storage.capacity_bytes = sum(entry.size for entry in storage.list("t-0"))
    job = log.flush_job()
    assert job is not None
    with pytest.raises(DiskFull) as full:
        job.run()
    job.finish(None, full.value)
    assert (log.health.state, log.flush_refused, log.flushed_offset) == (LogState.ONLINE, True, 0)
    storage.capacity_bytes = None
    flush(log)
    assert log.flushed_offset == 1


def test_a_full_disk_loses_no_stored_records() -> None:
    storage = FaultyStorage(capacity_bytes=1000)
    log = open_log(storage)
    with pytest.raises(StorageFailed, match="ENOSPC"):
        [append(log, b"x" * 100) for _ in range(100)]
    count = log.end_offset
    storage.capacity_bytes = None
    log = open_log(storage)
    assert read_values(log) == [b"x" * 100] * count
    assert count > 3
    check_log(log)


# --- the rest


def test_an_empty_log_costs_a_few_kilobytes_of_memory() -> None:
    storage, clock, config = MemoryStorage(), ManualClock(START_MS), LogConfig.of()
    Log.open(storage, "warm-0", config, clock)
    tracemalloc.start()
    logs = [Log.open(storage, f"t-{number}", config, clock) for number in range(100)]
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(logs) == 100
    assert grown / 100 < 8000


def test_a_deleted_log_has_no_files_and_serves_no_reads() -> None:
    storage = MemoryStorage()
    log = open_log(storage)
    append(log, b"a")
    log.abandon()
    remove_folder(storage, "t-0")
    assert not storage.exists("t-0")
    with pytest.raises(StorageFailed, match="deleted"):
        append(log, b"b")
    assert log.flush_job() is None


def test_the_sizes_of_segments_add_up() -> None:
    log = open_log(segment_bytes=200)
    total = 0
    for number in range(5):
        data = batch(b"x" * number * 20)
        log.append(data, read_header(data), leader_epoch=0)
        total += len(data)
    assert log.segments.size == total == sum(segment.size for segment in log.segments)
    assert log.segments.base_offset == 0


def test_every_stored_batch_is_whole() -> None:
    log = open_log(segment_bytes=500)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        append(log, b"x" * 300, b"y", codec=codec)
    for header, _ in read_batches(log):
        assert isinstance(header, BatchHeader)
    data = log.read(0, 10**6, end_offset=10).read()
    for position, header in iter_batches(data):
        check_crc(data, position, header)
