"""S5.2: batches that lose records, and the segment that they are written to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import CorruptBatch, StorageFailed, UnsupportedCodec
from kqueue.log.compaction.python_engine import pick
from kqueue.log.compaction.segment_rewriter import SegmentWriter, empty_batch, encode_kept, rebase_timestamps
from kqueue.log.compaction.throttle import Throttle
from kqueue.log.formats.filenames import CLEANED
from kqueue.records.batch import BATCH_OVERHEAD, CONTROL, TRANSACTIONAL, Record, check_crc, iter_records, read_header
from kqueue.records.builder import LOG_APPEND_TIME_TYPE, BatchBuilder, build_batch
from kqueue.records.message_set import encode_entry, iter_entries
from kqueue.storage import MemoryStorage
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.tests.log.compaction.helpers import config
from kqueue.tests.tables import for_each

RECORDS = [
    Record(10 + number, 1000 + 5 * number, b"k%d" % number, None if number == 1 else b"v%d" % number, (("h", b"x"),))
    for number in range(4)
]
THROTTLE = Throttle(float("inf"), lambda seconds: None, lambda: 0.0)


def test_a_rewritten_batch_changes_only_derived_header_fields() -> None:
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        batch = bytes(
            build_batch(
                RECORDS, codec=codec, producer_id=5, epoch=2, base_sequence=8, leader_epoch=3, transactional=True
            )
        )
        plain = bytes(build_batch(RECORDS))[BATCH_OVERHEAD:]
        header = read_header(batch)
        kept = pick(plain, header, [1, 0, 1, 0])
        out = encode_kept(header, kept, None)
        after = read_header(out)
        check_crc(out, 0, after)
        assert [record._replace(sequence=-1) for record in iter_records(out)] == [RECORDS[0], RECORDS[2]]
        assert [record.sequence for record in iter_records(out)] == [8, 10]
        changed = header._replace(batch_length=after.batch_length, crc=after.crc, max_timestamp=1010, record_count=2)
        assert after == changed
        assert (after.last_offset, after.last_sequence, len(out)) == (13, 11, after.size)


@for_each("timestamp_type", [0, LOG_APPEND_TIME_TYPE])
def test_a_delete_horizon_replaces_the_base_timestamp(timestamp_type: int) -> None:
    """S5.2, KIP-534"""
    batch = bytes(build_batch(RECORDS, timestamp_type=timestamp_type))
    header = read_header(batch)
    before = list(iter_records(batch))
    out = encode_kept(header, pick(batch[BATCH_OVERHEAD:], header, [0, 1, 1, 0]), 2_000_000_000_000)
    after = read_header(out)
    check_crc(out, 0, after)
    assert after.delete_horizon_ms == 2_000_000_000_000
    assert list(iter_records(out)) == before[1:3]


@given(
    times=st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=6),
    base=st.integers(-(2**61), 2**61),
    value=st.sampled_from([None, b"", b"v" * 130]),
)
def test_a_new_base_timestamp_preserves_record_timestamps(times: list[int], base: int, value: bytes | None) -> None:
    batch = bytes(build_batch([Record(at, time, b"k", value, (("h", value),)) for at, time in enumerate(times)]))
    header = read_header(batch)
    moved = header._replace(base_timestamp=base)
    data = rebase_timestamps(batch[BATCH_OVERHEAD:], len(times), header.base_timestamp - base)
    again = encode_kept(moved, pick(data, moved, [1] * len(times)), None)
    assert [record.timestamp for record in iter_records(again)] == times


def test_a_timestamp_out_of_range_is_refused() -> None:
    data = bytes(build_batch([Record(0, 0, b"k", b"v"), Record(1, 2**63 - 1, b"k", b"v")]))[BATCH_OVERHEAD:]
    with pytest.raises(CorruptBatch, match="does not fit in 64 bits"):
        rebase_timestamps(data, 2, 1)


def test_an_unknown_codec_is_an_error() -> None:
    batch = bytes(build_batch(RECORDS))
    header = read_header(batch)
    kept = pick(batch[BATCH_OVERHEAD:], header, [1, 0, 0, 0])
    with pytest.raises(UnsupportedCodec, match="6"):
        encode_kept(header._replace(attributes=6), kept, None)


def test_an_empty_batch_keeps_the_offsets_and_optionally_the_producer() -> None:
    builder = BatchBuilder(
        "zstd",
        producer_id=5,
        epoch=2,
        base_sequence=8,
        leader_epoch=3,
        transactional=True,
        control=True,
        base_offset=10,
        delete_horizon_ms=77,
    )
    builder.append(1000, b"k", b"v", offset=12)
    header = read_header(bytes(builder.build(last_offset=14)))
    for keep_producer in (True, False):
        out = empty_batch(header, keep_producer=keep_producer)
        after = read_header(out)
        check_crc(out, 0, after)
        assert (after.base_offset, after.last_offset, after.leader_epoch, after.max_timestamp) == (10, 14, 3, 1000)
        assert (after.record_count, after.codec_id, after.delete_horizon_ms, after.size) == (0, 0, None, BATCH_OVERHEAD)
        expected = (5, 2, 8, TRANSACTIONAL | CONTROL) if keep_producer else (-1, -1, -1, 0)
        assert (after.producer_id, after.producer_epoch, after.base_sequence, after.attributes) == expected
        assert list(iter_records(out)) == []


def test_an_empty_batch_replaces_a_legacy_message() -> None:
    (entry,) = iter_entries(encode_entry(1, 42, 1000, b"k", b"v"))
    after = read_header(empty_batch(entry))
    assert (after.base_offset, after.last_offset, after.max_timestamp, after.record_count, after.leader_epoch) == (
        42,
        42,
        1000,
        0,
        -1,
    )


# --- the segment


def writer(storage: MemoryStorage | FaultyStorage, **settings: int) -> SegmentWriter:
    storage.make_folder("t-0")
    return SegmentWriter(storage, "t-0", 10, config(**settings), THROTTLE)


def test_indexes_stop_growing_where_they_are_full() -> None:
    storage = MemoryStorage()
    segment = writer(storage, segment_index_bytes=40, index_interval_bytes=1)
    for number in range(20):
        segment.add(b"x" * 50, 10 + number, 1000 + number)
    done = segment.finish(with_txnindex=False)
    sizes = {entry.name.removeprefix(f"{10:020d}"): entry.size for entry in storage.list("t-0")}
    assert sizes == {".log.cleaned": 1000, ".index.cleaned": 16, ".timeindex.cleaned": 36}
    assert (done.size, done.end_offset, done.max_timestamp, done.has_txnindex) == (1000, 30, 1019, False)


def test_an_offset_too_far_from_the_base_is_refused() -> None:
    segment = writer(MemoryStorage())
    segment.add(b"x", 10 + 2**31 - 1, 0)
    with pytest.raises(CorruptBatch, match="too far from its segment's first, 10"):
        segment.add(b"x", 10 + 2**31, 0)


def test_a_transaction_index_is_written_on_request() -> None:
    storage = MemoryStorage()
    assert writer(storage).finish(with_txnindex=True).has_txnindex
    assert storage.read(f"t-0/{10:020d}.txnindex.cleaned") == b""


def test_leftover_files_are_overwritten_and_abandoned_files_removed() -> None:
    storage = MemoryStorage()
    storage.make_folder("t-0")
    path = f"t-0/{10:020d}.log{CLEANED}"
    storage.open(path, create=True).append(b"old")
    segment = writer(storage)
    segment.add(b"new" * 10, 10, 0)
    segment.finish(with_txnindex=True)
    assert storage.read(path) == b"new" * 10
    segment.abandon()
    assert storage.list("t-0") == []


def test_a_full_disk_is_an_error() -> None:
    storage = FaultyStorage(capacity_bytes=500)
    segment = writer(storage, io_buffer_bytes=100)
    with pytest.raises(StorageFailed, match="ENOSPC"):
        segment.add(b"x" * 1000, 10, 0)
    segment.abandon()
    assert storage.list("t-0") == []
