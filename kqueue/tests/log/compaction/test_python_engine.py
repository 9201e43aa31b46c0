"""S5.2: the hot loops against the plain decoder of records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import CorruptBatch
from kqueue.log.compaction.offset_map import SLOT_BYTES, OffsetMap
from kqueue.log.compaction.python_engine import NOTHING, index_records, kept, pick, read_keys
from kqueue.records.batch import BATCH_OVERHEAD, BatchHeader, Record, read_header
from kqueue.records.builder import BatchBuilder
from kqueue.records.record import decode_records
from kqueue.tests.tables import for_each

KEYS = st.one_of(st.none(), st.sampled_from([b"", b"a", b"b", b"c" * 70, b"d" * 9000]))
VALUES = st.one_of(st.none(), st.binary(max_size=3), st.just(b"v" * 100), st.just(b"v" * 20_000))
HEADERS = st.sampled_from([(), (("h", None),), (("h", b"x" * 200),)])
TIMES = st.one_of(st.integers(0, 100), st.integers(-(2**61), 2**61))
ROWS = st.lists(st.tuples(KEYS, VALUES, HEADERS, TIMES, st.integers(1, 3)), min_size=1, max_size=12)
Rows = list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int, int]]


def build(
    rows: Rows, base: int = 1000, *, dense: bool = False, timestamp_type: int = 0
) -> tuple[BatchHeader, bytes, list[Record]]:
    builder = BatchBuilder(base_offset=base, timestamp_type=timestamp_type)
    offset = base - 1
    for key, value, headers, time, step in rows:
        offset += 1 if dense else step
        builder.append(time, key, value, headers, offset)
    batch = bytes(builder.build(last_offset=offset if dense else offset + 2))
    header = read_header(batch)
    return header, batch[BATCH_OVERHEAD:], list(decode_records(batch[BATCH_OVERHEAD:], header))


@given(rows=ROWS)
def test_keys_and_offsets_are_those_of_the_records(rows: Rows) -> None:
    header, data, records = build(rows)
    keys, deltas = read_keys(data, header)
    assert keys == [record.key for record in records]
    assert [1000 + delta for delta in deltas] == [record.offset for record in records]


@given(rows=ROWS, first=st.integers(0, 1040), slots=st.sampled_from([3, 100]))
def test_a_batch_goes_into_the_map_from_the_first_dirty_offset_until_it_is_full(
    rows: Rows, first: int, slots: int
) -> None:
    header, data, records = build(rows)
    offset_map = OffsetMap(slots * SLOT_BYTES)
    expected: dict[bytes, int] = {}
    end = header.next_offset
    for record in records:
        if record.offset >= first and record.key is not None:
            if record.key not in expected and len(expected) == offset_map.capacity:
                end = record.offset
                break
            expected[record.key] = record.offset
    assert index_records(offset_map, data, header, first) == end
    assert {key: offset_map.get(key) for key in expected} == expected
    assert offset_map.count == len(expected)


@given(
    rows=ROWS,
    later=st.dictionaries(st.sampled_from([b"", b"a", b"b"]), st.integers(0, 2000)),
    dense=st.booleans(),
    timestamp_type=st.integers(0, 1),
    end=st.one_of(st.just(3000), st.integers(995, 1040)),
    first=st.one_of(st.just(0), st.integers(995, 1040)),
    start=st.one_of(st.just(0), st.integers(995, 1040)),
    keep_tombstones=st.booleans(),
)
def test_the_latest_records_are_retained(
    rows: Rows,
    later: dict[bytes, int],
    dense: bool,
    timestamp_type: int,
    end: int,
    first: int,
    start: int,
    keep_tombstones: bool,
) -> None:
    header, data, records = build(rows, dense=dense, timestamp_type=timestamp_type)
    latest = {
        record.key: record.offset for record in records if record.key is not None and first <= record.offset < end
    }
    latest |= {key: offset for key, offset in later.items() if header.next_offset <= offset < end}
    offset_map = OffsetMap(100 * SLOT_BYTES, start_offset=first)
    for key, offset in sorted(latest.items(), key=lambda item: item[1]):
        offset_map.put(key, offset)
    offset_map.end_offset = max(end, first)

    def stays(record: Record) -> bool:
        if record.offset >= offset_map.end_offset:
            return record.offset >= start
        if record.offset < start or record.key is None or record.offset < latest.get(record.key, -1):
            return False
        return record.value is not None or keep_tombstones or header.last_offset >= offset_map.end_offset

    expected = [record for record in records if stays(record)]
    retained = kept(offset_map, data, header, start, keep_tombstones)
    assert retained.records == len(expected)
    assert list(decode_records(retained.data, header._replace(record_count=retained.records))) == expected
    if expected:
        assert retained.max_timestamp == max(record.timestamp for record in expected)
        assert retained.has_tombstones == any(record.value is None for record in expected)
    else:
        assert retained == NOTHING


def test_batches_that_lose_no_record_are_returned_unchanged() -> None:
    header, data, _ = build([(b"a", b"1", (), 5, 1), (b"b", None, (), 7, 1)], dense=True)
    retained = pick(data, header, [1, 1])
    assert retained.data is data
    assert retained.max_timestamp == 7
    assert retained.has_tombstones


@given(rows=ROWS, cut=st.floats(0, 1, exclude_max=True))
def test_truncated_records_are_refused(rows: Rows, cut: float) -> None:
    header, data, _ = build(rows)
    short = data[: int(len(data) * cut)]
    with pytest.raises(CorruptBatch):
        read_keys(short, header)


@given(rows=ROWS, at=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_wrong_bytes_are_refused_or_read_as_the_decoder_reads_them(rows: Rows, at: float, byte: int) -> None:
    header, data, _ = build(rows)
    wrong = bytearray(data)
    wrong[int(len(data) * at)] = byte
    try:
        records = list(decode_records(bytes(wrong), header))
    except CorruptBatch:
        for read in (
            lambda: read_keys(bytes(wrong), header),
            lambda: pick(bytes(wrong), header, [1] * header.record_count),
        ):
            try:
                read()
            except CorruptBatch:
                continue
        return
    keys, deltas = read_keys(bytes(wrong), header)
    assert (keys, [1000 + delta for delta in deltas]) == (
        [record.key for record in records],
        [record.offset for record in records],
    )


@for_each(
    "data, why",
    [
        (b"\x01", "length leaves"),
        (b"\x7f", "length leaves"),
        (bytes([14, 0, 0, 2, 1, 1, 0, 0]), "offset deltas have to rise up to 0"),
        (bytes([14, 0, 0, 0, 40, 97, 1, 0]), "key's length leaves"),
        (bytes([12, 0, 0, 0, 1, 1, 0, 9]), "1 bytes are left over"),
        (b"\xff\xff\xff\xff\xff\xff", "more than 32 bits"),
        (b"", "end within a record"),
    ],
)
def test_errors_describe_the_problem(data: bytes, why: str) -> None:
    header = BatchHeader(0, 0, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1)
    with pytest.raises(CorruptBatch, match=why):
        read_keys(data, header)
