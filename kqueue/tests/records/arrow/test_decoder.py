"""Batches to columns: what a consumer reads of them, the same by both engines, of whole batches and
of whatever bytes.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.base.errors import CorruptBatch, UnsupportedCodec
from kqueue.records.any_format import iter_any_records
from kqueue.records.arrow.contract import ChunkLimits, RecordRange
from kqueue.records.arrow.decoder import ColumnDecoder
from kqueue.records.batch import BATCH_OVERHEAD, iter_batches, iter_records, read_header
from kqueue.records.builder import BatchBuilder, build_batch
from kqueue.records.message_set import encode_set
from kqueue.records.record import ABORT, COMMIT, Record, control_key_value
from kqueue.records.varints import encode
from kqueue.tests import golden
from kqueue.tests.records.arrow.helpers import (
    ENGINES,
    HAS_FAST,
    NEEDS_FAST,
    EngineName,
    as_row,
    decoded,
    in_rows,
    logs,
    one_batch,
    replaced,
    signed,
    with_records,
)
from kqueue.tests.records.strategies import record_lists
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples

pytestmark = pytest.mark.timeout(300)  # the first run compiles

SELECTIONS = st.builds(
    RecordRange,
    start_offset=st.none() | st.integers(0, 40),
    end_offset=st.none() | st.integers(0, 60),
    since_ms=st.none() | st.sampled_from([-1, 0, 1_600_000_050_000, 2**62]),
    until_ms=st.none() | st.sampled_from([0, 1_600_000_050_000, 2**62]),
)
LIMITS = st.sampled_from(
    [
        ChunkLimits(),
        ChunkLimits(1),
        ChunkLimits(3),
        ChunkLimits(5, 700),
        ChunkLimits(100, 1),
        ChunkLimits(100, 2**20, 400),
    ]
)


def told(buf: bytes, bounds: RecordRange) -> list[Any]:
    """What the record by record way gives."""
    return [
        as_row(record)
        for pos, header in iter_batches(buf)
        if not header.is_control and (bounds.since_ms is None or header.max_timestamp >= bounds.since_ms)
        for record in iter_records(buf, pos)
        if bounds.take(record.offset, record.timestamp)
    ]


@for_each("engine", ENGINES)
@settings(max_examples=examples(40), deadline=None)
@given(buf=logs(), bounds=SELECTIONS, cut=st.integers(0, 60))
def test_decoded_columns_equal_the_records(engine: EngineName, buf: bytes, bounds: RecordRange, cut: int) -> None:
    whole = [(pos, header) for pos, header in iter_batches(buf[: len(buf) - cut])]
    columns = decoded(engine, buf[: len(buf) - cut], bounds)
    assert in_rows(columns) == told(buf[: len(buf) - cut], bounds)
    assert columns[1:] == (None, whole[-1][1].next_offset if whole else None)


@pytest.mark.long
@NEEDS_FAST
@settings(max_examples=examples(100), deadline=None)
@given(buf=logs(), bounds=SELECTIONS, limits=LIMITS)
def test_both_engines_make_the_same_pieces(buf: bytes, bounds: RecordRange, limits: ChunkLimits) -> None:
    assert decoded("fast", buf, bounds, limits) == decoded("python", buf, bounds, limits)


@for_each("engine", ENGINES)
@for_each("version", golden.VERSIONS)
def test_columns_of_kafkas_logs_equal_the_records(engine: EngineName, version: str) -> None:
    """Every format and codec, against the records as they are read one by one."""
    seen = set()
    for path in sorted(golden.data_folder(version).glob("v*/*.log")):
        buf = path.read_bytes()
        columns = decoded(engine, buf)
        assert in_rows(columns) == [as_row(record) for record in iter_any_records(buf)]
        seen |= {unit.magic for piece in columns[0] for _, (_, unit) in piece[5]}
    assert seen == ({0, 1, 2} if version == "2.8" else {2})


@for_each("engine", ENGINES)
def test_null_is_not_empty(engine: EngineName) -> None:
    builder = BatchBuilder()
    builder.append(5, None, b"", [("a", None), ("a", b""), ("", b"x")])
    builder.append(-1, b"", None)
    decoder = ColumnDecoder(engine=engine)
    assert list(decoder.feed(builder.build())) == []
    (piece,) = decoder.finish()
    assert piece.key.to_pylist() == [None, b""]
    assert piece.value.to_pylist() == [b"", None]
    assert (piece.key.null_count, piece.value.null_count) == (1, 1)
    assert piece.timestamp.to_pylist() == [5, -1]
    assert [[(one["key"], one["value"]) for one in row] for row in piece.headers.to_pylist()] == [
        [("a", None), ("a", b""), ("", b"x")],
        [],
    ]
    assert [column.type for column in piece[:4]] == [pa.int64(), pa.int64(), pa.binary(), pa.binary()]
    assert list(decoder.finish()) == []


@for_each("engine", ENGINES)
def test_header_names_that_are_no_text(engine: EngineName) -> None:
    builder = BatchBuilder()
    builder.append(1, b"k", b"v", [("\udcff", b"x"), ("caf\u00e9", None)])
    columns = decoded(engine, builder.build())
    assert in_rows(columns)[0][4] == [{"key": "\ufffd", "value": b"x"}, {"key": "caf\u00e9", "value": None}]


# --- pieces


@for_each("engine", ENGINES)
def test_pieces_are_bounded_and_runs_say_whence_rows_come(engine: EngineName) -> None:
    buf = one_batch(*[b"v"] * 5) + one_batch(*[b"v"] * 4, base_offset=5)
    first, second = (header for _, header in iter_batches(buf))
    pieces, _, _ = decoded(engine, buf, limits=ChunkLimits(rows_max=7))
    assert [piece[5] for piece in pieces] == [[(5, ("t", first)), (2, ("t", second))], [(2, ("t", second))]]
    pieces, _, _ = decoded(engine, one_batch(*[b"v" * 1000] * 5), limits=ChunkLimits(bytes_max=2_000))
    assert [len(piece[0]) for piece in pieces] == [2, 2, 1]


@for_each("engine", ENGINES)
def test_no_column_grows_beyond_what_arrow_can_count(engine: EngineName) -> None:
    """A chunk ends before a row that would exceed the limit; a larger row is its own chunk."""
    buf = one_batch(b"a" * 60, b"b" * 30, b"c" * 20, b"d" * 500, b"e")
    pieces, _, _ = decoded(engine, buf, limits=ChunkLimits(data_max=100))
    assert [piece[0] for piece in pieces] == [[0, 1], [2], [3], [4]]
    builder = BatchBuilder()
    for _ in range(3):
        builder.append(1, None, None, [("name" * 10, b"x")])
    pieces, _, _ = decoded(engine, builder.build(), limits=ChunkLimits(data_max=100))
    assert [piece[0] for piece in pieces] == [[0, 1], [2]]


@pytest.mark.long
@NEEDS_FAST
def test_more_than_was_thought_at_first() -> None:
    """Rows, headers and bytes for which there was no room."""
    headers = tuple((f"h{number}", b"x" * number) for number in range(300))
    records = [
        Record(number, number, b"k", None, headers if number in (3, 100, 1_000) else ()) for number in range(66_000)
    ]
    records.append(Record(66_000, 0, b"k" * 8_500_000, b"v" * 9_000_000))
    columns = decoded("fast", build_batch(records), limits=ChunkLimits(10**6))
    assert len(columns[0]) == 1
    assert in_rows(columns) == [as_row(record) for record in records]


@for_each("engine", ENGINES)
def test_pieces_go_over_fetches_and_the_buffer_may_be_used_again(engine: EngineName) -> None:
    buf = bytearray(one_batch(b"first"))
    decoder = ColumnDecoder(engine=engine)
    assert list(decoder.feed(buf, tag=1)) == []
    buf[:] = one_batch(b"other", base_offset=9)
    decoder.bounds = RecordRange(start_offset=9)
    assert list(decoder.feed(memoryview(buf), tag=2)) == []
    buf[:] = bytes(len(buf))
    (piece,) = decoder.finish()
    assert piece.value.to_pylist() == [b"first", b"other"]
    assert [tag[0] for _, tag in piece.runs] == [1, 2]
    assert decoder.next_offset == 10


@pytest.mark.parametrize("engine", ENGINES)
def test_many_small_batches(engine: EngineName, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than are gone through at once, and among them some that need a closer look."""
    parts = [one_batch(b"%d" % number, base_offset=number) for number in range(9_000)]
    parts[4_000] = one_batch(b"4000", base_offset=4_000, codec="lz4")
    parts[4_001] = marker(ABORT, 1, 4_001)
    parts[4_002] = data_of(1, 4_002)
    parts[8_000] = one_batch(b"x" * 5_000, base_offset=8_000)
    bounds = RecordRange(start_offset=2, end_offset=8_999)
    wanted = [number for number in range(2, 8_999) if number != 4_001]
    buf, added = b"".join(parts), []
    if engine == "fast":
        from kqueue.records.arrow.compiled_engine import CompiledChunkBuilder

        add = CompiledChunkBuilder.add
        monkeypatch.setattr(CompiledChunkBuilder, "add", lambda *given: added.append(1) or add(*given))
    columns = decoded(engine, buf, bounds)
    assert [row[0] for row in in_rows(columns)] == wanted
    assert columns[1:] == (None, 9_000)
    assert [header.base_offset for piece in columns[0] for _, (_, header) in piece[5]] == wanted
    assert len(added) == (2 if engine == "fast" else 0)
    broken = with_records(parts[5_000], parts[5_000][BATCH_OVERHEAD:-1] + b"\x07")
    columns = decoded(engine, b"".join([*parts[:5_000], broken, *parts[5_001:]]), bounds)
    assert len(in_rows(columns)) == 5_000 - 2 - 1
    assert (columns[1] or "").startswith(f"the batch at position {sum(map(len, parts[:5_000]))}: ")
    assert columns[2] == 5_000


@for_each("engine", ENGINES)
def test_old_formats_between_new_ones(engine: EngineName) -> None:
    old = [Record(number, 7, b"k", b"v%d" % number) for number in range(3, 6)]
    buf = (
        one_batch(b"a", b"b", b"c")
        + encode_set(old, 1)
        + encode_set([old[0]._replace(offset=6)], 0, 1)
        + one_batch(b"z", base_offset=7)
    )
    columns = decoded(engine, buf)
    assert in_rows(columns) == [as_row(record) for record in iter_any_records(buf)]
    assert columns[2] == 8
    assert [len(piece[0]) for piece in columns[0]] == (
        [8] if engine == "python" else [3, 4, 1]
    )  # old ones stay together
    damaged = bytearray(buf)
    damaged[len(one_batch(b"a", b"b", b"c")) + 20] ^= 1
    assert "checksum" in (decoded(engine, damaged)[1] or "")
    assert decoded(engine, damaged, check=False)[1] is None


@for_each("engine", ENGINES)
def test_a_batch_is_as_late_as_its_header_says(engine: EngineName) -> None:
    for value in (b"small", b"large" * 1_000):
        buf = replaced(one_batch(value), 0, max_timestamp=5)
        assert in_rows(decoded(engine, buf, RecordRange(since_ms=6))) == []
        assert len(in_rows(decoded(engine, buf, RecordRange(since_ms=5)))) == 1


def marker(kind: int, producer_id: int, offset: int) -> bytes:
    builder = BatchBuilder(base_offset=offset, producer_id=producer_id, epoch=0, transactional=True, control=True)
    builder.append(1, *control_key_value(kind, 0))
    return bytes(builder.build())


def data_of(producer_id: int, offset: int, codec: str = "none") -> bytes:
    return one_batch(
        b"%d" % producer_id, base_offset=offset, producer_id=producer_id, epoch=0, transactional=True, codec=codec
    )


@for_each("engine", ENGINES)
def test_aborted_transactions_are_left_out(engine: EngineName) -> None:
    """One that is aborted, then one of the same producer that is not; another's between them; what
    is not transactional stays.
    """
    parts = [
        data_of(1, 0),
        data_of(2, 1, "lz4"),
        one_batch(b"plain", base_offset=2, producer_id=1, epoch=0),
        marker(ABORT, 1, 3),
        data_of(1, 4),
        marker(COMMIT, 1, 5),
        data_of(2, 6),
        marker(ABORT, 2, 7),
        data_of(2, 8),
        marker(COMMIT, 2, 9),
    ]
    buf = b"".join(parts)
    columns = decoded(engine, buf, aborted=[(2, 1), (1, 0)])
    assert [row[0] for row in in_rows(columns)] == [2, 4, 8]
    assert columns[1:] == (None, 10)
    assert [row[0] for row in in_rows(decoded(engine, buf))] == [0, 1, 2, 4, 6, 8]
    # a fetch that begins in the middle of a transaction
    assert [row[0] for row in in_rows(decoded(engine, b"".join(parts[6:]), aborted=[(2, 1)]))] == [8]


@for_each("engine", ENGINES)
def test_a_codec_that_nobody_has(engine: EngineName) -> None:
    buf = bytearray(one_batch(b"x"))
    buf[22] |= 7
    with pytest.raises(UnsupportedCodec):
        list(ColumnDecoder(engine=engine, check=False).feed(buf))


# --- bytes that are no batches


@for_each("engine", ENGINES)
def test_damage_is_named_and_what_stands_before_it_is_taken(engine: EngineName) -> None:
    first, second = one_batch(b"a", b"b"), one_batch(b"c", b"d", base_offset=2)
    for codec in ("none", "gzip"):
        third = bytearray(one_batch(b"e", base_offset=4, codec=codec))
        third[-1] ^= 1
        columns = decoded(engine, first + second + third)
        assert [row[0] for row in in_rows(columns)] == [0, 1, 2, 3]
        assert columns[1] is not None
        assert f"position {len(first + second)}" in columns[1]
        assert columns[2] == 4
    broken = with_records(second, second[BATCH_OVERHEAD:-1] + b"\x07")  # one header is promised, and none is there
    columns = decoded(engine, first + broken + third)
    assert [row[0] for row in in_rows(columns)] == [0, 1, 2]
    assert (columns[1] or "").startswith(f"the batch at position {len(first)}: ")


def drawn(
    time: bytes = b"\0",
    delta: bytes = b"\2",
    key: bytes = b"\1",
    value: bytes = b"\1",
    headers: bytes = b"\0",
    more: int = 0,
) -> bytes:
    """A record whose parts are as given; its length says `more` than it has."""
    body = b"\0" + time + delta + key + value + headers
    return encode(len(body) + more) + body


WRONG_RECORDS = {
    "the offset again": drawn(delta=encode(0)),
    "an offset below": drawn(delta=encode(-1)),
    "an offset beyond the header's last": drawn(delta=encode(2)),
    "a negative key": drawn(key=encode(-2)),
    "a key beyond the record": drawn(key=encode(9)),
    "a negative value": drawn(value=encode(-2)),
    "a value beyond the record": drawn(value=encode(2)),
    "a number of headers below 0": drawn(headers=encode(-1)),
    "a header without a key": drawn(headers=encode(1) + encode(-1) + encode(0)),
    "a header without anything": drawn(headers=encode(1) + encode(-1)),
    "a header's key beyond the record": drawn(headers=encode(1) + encode(5) + b"a"),
    "a negative header": drawn(headers=encode(1) + encode(0) + encode(-2)),
    "a header beyond the record": drawn(headers=encode(1) + encode(0) + encode(3)),
    "fewer headers than counted": drawn(headers=encode(2) + encode(0) + encode(0)),
    "a record too long": drawn(more=1),
    "a record too short": drawn(more=-1),
    "a length below 0": encode(-3),
    "a number of six bytes": drawn(delta=b"\x82\x80\x80\x80\x80\0"),
    "a number of 33 bits": drawn(delta=b"\x82\x80\x80\x80\x10"),
    "a time of 11 bytes": drawn(time=b"\x80" * 10 + b"\0"),
    "a time of 65 bits": drawn(time=b"\x80" * 9 + b"\2"),
    "bytes left over": drawn() + b"\0",
}


@for_each("name", WRONG_RECORDS)
def test_records_that_are_none(name: str) -> None:
    """By both engines, with the words of the record by record way; the one before is taken."""
    good = one_batch(b"a", b"b")
    first = drawn(delta=encode(0))
    batch = with_records(good, first + WRONG_RECORDS[name])
    with pytest.raises(CorruptBatch) as caught:
        list(iter_records(batch))
    taken = 2 if name == "bytes left over" else 1
    for engine in ("python", "fast") if HAS_FAST else ("python",):
        for buf in (batch, batch + one_batch(b"next", base_offset=2)):
            columns = decoded(engine, buf)
            assert len(in_rows(columns)) == taken
            assert (columns[1], columns[2]) == (f"the batch at position 0: {caught.value}", None)


@for_each("engine", ENGINES)
def test_numbers_need_not_be_short(engine: EngineName) -> None:
    batch = with_records(
        one_batch(b"a"), drawn(time=b"\x80\x80\0", delta=b"\x80\0", key=b"\x82\x80\0k", headers=b"\x80\0")
    )
    assert in_rows(decoded(engine, batch)) == [(0, 1_700_000_000_000, b"k", None, [])]


@for_each("engine", ENGINES)
@for_each("large", [False, True])
def test_a_record_that_reaches_into_the_next_batch(engine: EngineName, large: bool) -> None:
    """It would be whole with the first bytes from there, which are zeros, as a record without
    headers ends.
    """
    first = one_batch(*([b"x" * 5_000] if large else []), b"abc")
    records = bytearray(first[BATCH_OVERHEAD:])
    records[-11] += (
        4  # two bytes more: length, attributes, time, offset, key's length, key, value's length, three bytes, headers
    )
    records[-5] += 4
    buf = with_records(first, bytes(records)) + one_batch(b"next", base_offset=2)
    columns = decoded(engine, buf)
    assert len(in_rows(columns)) == int(large)
    assert "leaves the" in (columns[1] or "")


@for_each("engine", ENGINES)
def test_offsets_and_times_beyond_64_bits(engine: EngineName) -> None:
    buf = one_batch(b"a", b"b")
    assert "64 bits" in (decoded(engine, replaced(buf, 0, base_offset=2**63 - 2))[1] or "")
    assert in_rows(decoded(engine, replaced(buf, 0, base_offset=2**63 - 3)))[1][0] == 2**63 - 2
    assert "64 bits" in (
        decoded(engine, buf + replaced(one_batch(b"a", base_offset=2), 0, base_offset=2**63 - 1))[1] or ""
    )
    late = replaced(buf, 0, base_timestamp=2**63 - 1)
    assert [row[0] for row in in_rows(decoded(engine, late))] == [0]
    assert "64 bits" in (decoded(engine, late)[1] or "")
    # the broker's time is everyone's: then a small difference that leads too far means nothing
    assert len(in_rows(decoded(engine, replaced(late, 0, attributes=8)))) == 2


@for_each("engine", ENGINES)
def test_a_count_of_records_takes_no_memory(engine: EngineName) -> None:
    buf = replaced(one_batch(b"a"), 0, record_count=2**31 - 1, last_offset_delta=2**31 - 2)
    columns = decoded(engine, buf)
    assert len(in_rows(columns)) == 1
    assert "end within a record" in (columns[1] or "")


HOSTILE = st.one_of(
    st.just(b""),
    st.binary(min_size=1, max_size=12),
    st.sampled_from(
        [
            b"\xff" * 12,
            b"\x80" * 12,
            b"\xfe\xff\xff\xff\x0f",
            b"\xff\xff\xff\xff\x0f",
            encode(2**31 - 1),
            encode(-(2**63)),
        ]
    ),
)


@pytest.mark.long
@NEEDS_FAST
@settings(max_examples=examples(300), deadline=None)
@given(
    records=record_lists(gaps=True),
    kind=st.sampled_from([{}, {}, {"timestamp_type": 1}, {"codec": "gzip"}]),
    at=st.floats(0, 1),
    junk=HOSTILE,
    cut=st.integers(0, 12),
    claimed=st.sampled_from([0, 0, 0, -1, 1, 2**31 - 20]),
    base_time=st.sampled_from([None, None, 2**63 - 50, -(2**63) + 50]),
)
def test_bytes_that_are_not_records(
    records: list[Record], kind: dict[str, Any], at: float, junk: bytes, cut: int, claimed: int, base_time: int | None
) -> None:
    """With a right checksum: both engines take as many records, and then say the same."""
    plain = bytes(build_batch(records, **(kind if "codec" not in kind else {})))
    inside = plain[BATCH_OVERHEAD:]
    place = int(at * len(inside))
    inside = inside[:place] + junk + inside[place + cut :]
    header = read_header(plain)
    if "codec" in kind:
        from kqueue.records.codecs import CODECS

        codec = CODECS.get(kind["codec"])
        made = with_records(plain, codec.compress(inside))
        made = replaced(made, 0, attributes=header.attributes | codec.id)
    else:
        made = with_records(plain, inside)
    count = max(header.record_count + claimed, 0)
    changed = {"record_count": count, "last_offset_delta": max(header.last_offset_delta, count - 1)}
    if base_time is not None:
        changed["base_timestamp"] = base_time
    made = replaced(made, 0, **changed)
    buf = one_batch(b"before") + made
    columns = decoded("fast", buf)
    assert columns == decoded("python", buf)
    wanted, said = [], ""
    try:
        wanted += map(as_row, iter_records(made))
    except CorruptBatch as error:
        said = str(error)
    assert in_rows(columns)[1:] == wanted
    assert (columns[1] or "").endswith(said)
    assert (columns[1] is None) == (not said)


@pytest.mark.long
@NEEDS_FAST
@settings(max_examples=examples(150), deadline=None)
@given(
    buf=logs(3),
    flips=st.lists(st.tuples(st.floats(0, 1), st.integers(1, 255)), min_size=1, max_size=3),
    sign=st.booleans(),
    cut=st.booleans(),
)
def test_flipped_and_cut(buf: bytes, flips: list[tuple[float, int]], sign: bool, cut: bool) -> None:
    """Anywhere, headers too; with the checksum of the first batch made right, or none looked at."""
    damaged = bytearray(buf)
    for place, bits in flips:
        damaged[int(place * (len(buf) - 1))] ^= bits
    if cut:
        del damaged[int(flips[0][0] * len(buf)) :]
    if sign and len(damaged) > BATCH_OVERHEAD:
        size = min(max(int.from_bytes(damaged[8:12], "big") + 12, BATCH_OVERHEAD), len(damaged))
        damaged[:size] = signed(damaged[:size])
    assert decoded("fast", damaged, check=sign) == decoded("python", damaged, check=sign)
