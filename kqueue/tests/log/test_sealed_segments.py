from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.base.errors import CorruptBatch, CorruptIndex, JobCancelled, JobFailed, StorageFailed
from kqueue.log.formats.checkpoints import encode_partition_metadata
from kqueue.log.log import Log
from kqueue.log.policies import SegmentView
from kqueue.log.sealed_segments import CHUNK_BYTES, PreDeleteTask, SealedSegments
from kqueue.records.batch import ABORT, COMMIT, Record
from kqueue.records.message_set import encode_set
from kqueue.storage import LocalStorage, MemoryStorage, Storage
from kqueue.tests.log.helpers import START_MS, append, end_transaction, flush, open_log
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples

ID = bytes(range(16))


def sealed(log: Log, upto: int | None = None, *, start_offset: int | None = None) -> SealedSegments:
    count = len(log.segments.sealed_below(log.end_offset if upto is None else upto))
    views = log.segment_views()[:count]
    storage = log.storage
    return SealedSegments(
        topic="t",
        partition=0,
        topic_id=ID,
        folder=log.folder,
        location=f"{storage.location}/{log.folder}",
        segments=views,
        start_offset=log.start_offset if start_offset is None else start_offset,
        end_offset=views[-1].end_offset,
        opener=storage.opener or (lambda: storage),
    )


def filled(storage: Storage | None = None, count: int = 20, **facts: object) -> Log:
    """Some segments of a few batches of three records each."""
    log = open_log(storage, segment_bytes=400)
    for number in range(count):
        append(log, *(b"%d" % (3 * number + part) for part in range(3)), **facts)
    log.roll()
    flush(log)
    return log


def values(segments: SealedSegments) -> list[bytes | None]:
    return [record.value for record in segments.records()]


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


# --- what is handed out


@for_each("codec", ["none", "gzip", "zstd"])
def test_iteration_can_be_repeated(codec: str) -> None:
    segments = sealed(filled(codec=codec))
    assert len(segments.segments) > 3
    assert values(segments) == values(segments) == numbers(0, 60)
    assert [record.offset for record in segments.records()] == list(range(60))
    assert segments.size == sum(batch.size for batch in segments.batches())


def test_earlier_segments_are_not_read() -> None:
    log = filled()
    bound = log.segment_views()[2].end_offset
    segments = sealed(log, bound)
    assert segments.end_offset == bound
    assert values(segments) == numbers(0, bound)


def test_no_record_below_the_log_start_in_the_middle_of_a_batch() -> None:
    segments = sealed(filled(), start_offset=4)
    assert values(segments) == numbers(4, 60)
    assert next(segments.batches()).base_offset == 3, "a batch is handed out whole"


def test_read_committed_and_aborted_flags() -> None:
    """S6: aborted data and control batches are no consumer's."""
    log = open_log(segment_bytes=300)
    append(log, b"plain")
    for producer, kind in ((1, COMMIT), (2, ABORT), (3, COMMIT)):
        append(
            log, b"of %d" % producer, producer_id=producer, epoch=0, base_sequence=0, transactional=True, client=False
        )
        append(log, b"between")
        end_transaction(log, kind, producer)
    append(log, b"of 2 again", producer_id=2, epoch=0, base_sequence=1, transactional=True, client=False)
    end_transaction(log, COMMIT, 2)
    log.roll()
    flush(log)
    segments = sealed(log)
    assert len(segments.segments) > 1
    assert values(segments) == [b"plain", b"of 1", b"between", b"between", b"of 3", b"between", b"of 2 again"]
    flags = {batch.base_offset: (batch.is_aborted, batch.is_control) for batch in segments.batches()}
    assert [offset for offset, (aborted, _) in flags.items() if aborted] == [4]
    assert [offset for offset, (_, control) in flags.items() if control] == [3, 6, 9, 11]
    assert sorted(flags) == list(range(12))


def test_an_abort_marker_in_a_later_segment_is_applied() -> None:
    log = open_log()
    append(log, b"aborted", producer_id=1, epoch=0, base_sequence=0, transactional=True, client=False)
    append(log, b"plain")
    log.roll()
    end_transaction(log, ABORT, 1)
    assert values(sealed(log)) == [b"plain"]


@for_each("magic, codec", [(0, 0), (0, 1), (1, 0), (1, 2)])
def test_messages_of_old_formats(magic: int, codec: int) -> None:
    records = [Record(number, START_MS if magic else -1, b"k", b"%d" % number) for number in range(6)]
    data = encode_set(records[:3], magic, codec) + encode_set(records[3:], magic, codec)
    storage = MemoryStorage()
    storage.make_folder("t-0")
    storage.open("t-0/00000000000000000000.log", create=True).append(data)
    view = SegmentView(0, 6, len(data), START_MS, False, START_MS)
    segments = SealedSegments("t", 0, None, "t-0", "memory/t-0", (view,), 2, 6, lambda: storage)
    assert [record[:4] for record in segments.records()] == [record[:4] for record in records[2:]]


@given(start=st.integers(0, 59), end=st.integers(1, 60))
@settings(max_examples=examples(30), deadline=None)
def test_any_part_of_a_log_is_what_was_appended(start: int, end: int) -> None:
    log = filled()
    if not log.segments.sealed_below(end) or log.segment_views()[0].end_offset <= start:
        return
    segments = sealed(log, end, start_offset=start)
    assert values(segments) == numbers(start, segments.end_offset)


def test_memory_is_bounded() -> None:
    log = open_log(segment_bytes=1 << 30)
    for _ in range(80):
        append(log, b"x" * 200_000)
    log.roll()
    segments = sealed(log)
    assert segments.size > 15 * CHUNK_BYTES
    tracemalloc.start()
    try:
        assert sum(1 for _ in segments.batches()) == 80
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5 * CHUNK_BYTES


# --- what is wrong


def test_damage_ends_the_iteration_and_names_its_position() -> None:
    log = filled()
    base = log.segment_views()[1].base_offset
    data = log.storage._files[f"t-0/{base:020}.log"]._data  # type: ignore[attr-defined]
    data[70] ^= 1
    with pytest.raises(CorruptBatch, match=rf"^memory/t-0/{base:020}\.log, batch at position 0: expected checksum"):
        list(sealed(log).batches())


def test_a_damaged_transaction_index_ends_the_iteration() -> None:
    """Else aborted records could be taken for committed ones."""
    log = filled()
    log.storage.open("t-0/00000000000000000000.txnindex", create=True).append(b"what")
    with pytest.raises(CorruptIndex):
        list(sealed(log).batches())


def test_a_concurrently_deleted_segment_ends_the_iteration() -> None:
    log = filled()
    segments = sealed(log)
    reading = segments.batches()
    next(reading)
    log.storage.rename(f"t-0/{segments.segments[1].base_offset:020}.log", "t-0/gone")
    with pytest.raises(FileNotFoundError):
        list(reading)


def test_a_recreated_topic_is_not_mistaken_for_the_old_one() -> None:
    log = filled()
    segments = sealed(log)
    log.storage.write_atomic("t-0/partition.metadata", encode_partition_metadata(ID))
    assert values(segments) == numbers(0, 60)
    log.storage.write_atomic("t-0/partition.metadata", encode_partition_metadata(bytes(16)))
    with pytest.raises(StorageFailed, match="another topic"):
        list(segments.batches())


def test_cancellation_ends_the_iteration_at_the_next_batch() -> None:
    segments = sealed(filled())
    reading = segments.batches()
    next(reading)
    segments.cancel()
    with pytest.raises(JobCancelled):
        next(reading)


# --- as a job


def test_sealed_segments_can_be_pickled(tmp_path: Path) -> None:
    log = filled(LocalStorage(tmp_path))
    segments = sealed(log)
    copy = pickle.loads(pickle.dumps(segments))
    assert copy == segments
    assert values(copy) == numbers(0, 60)
    assert copy.storage.read("t-0/00000000000000000000.log")


class OwnError(Exception):
    """As a plugin may have it: it can't be made from its arguments alone."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)


def _raise(error: BaseException) -> Callable[[SealedSegments], None]:
    def first(segments: SealedSegments) -> None:
        raise error

    return first


def test_plugin_errors_return_as_text_and_read_errors_unchanged() -> None:
    segments = sealed(filled())
    for error in (OwnError("no room", ""), SystemExit("no room")):
        with pytest.raises(
            JobFailed, match=rf"{type(error).__name__}: no room \(test_sealed_segments.py, line \d+\)"
        ) as caught:
            PreDeleteTask(_raise(error), segments)()
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    for ours in (CorruptBatch("damaged"), JobCancelled("stop"), FileNotFoundError("gone")):
        with pytest.raises(type(ours)):
            PreDeleteTask(_raise(ours), segments)()


def test_the_result_of_the_work_is_not_sent_back() -> None:
    assert PreDeleteTask(lambda segments: object(), sealed(filled()))() is None  # type: ignore[func-returns-value]
