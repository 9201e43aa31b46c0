"""Columns to batches: the bytes that the builder makes of the same records, by both engines."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.base.errors import InvalidRecord, PluginError
from kqueue.records.arrow.decoder import ColumnDecoder
from kqueue.records.arrow.encoder import EncodedBatch, encode_batches
from kqueue.records.batch import BATCH_OVERHEAD, check_crc, iter_records, read_header
from kqueue.records.builder import BatchBuilder
from kqueue.records.record import Record
from kqueue.tests.records.arrow.helpers import ENGINES, NEEDS_FAST, EngineName
from kqueue.tests.records.strategies import CODEC_NAMES, record_lists
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples

pytestmark = pytest.mark.timeout(300)  # the first run compiles

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))

TYPES = [
    pa.binary(),
    pa.string(),
    pa.large_binary(),
    pa.large_string(),
    pa.binary(3),
    pa.binary_view(),
    pa.string_view(),
]


def table_of(records: list[Record]) -> pa.RecordBatch:
    headers = [[{"key": name, "value": value} for name, value in record.headers] for record in records]
    columns = {
        "key": pa.array([record.key for record in records], pa.binary()),
        "value": pa.array([record.value for record in records], pa.binary()),
        "timestamp": pa.array([record.timestamp for record in records], pa.int64()),
        "headers": pa.array(headers, HEADERS),
    }
    return pa.RecordBatch.from_pydict(columns)


def built(records: list[Record], **producer: Any) -> bytes:
    builder = BatchBuilder(**producer)
    for record in records:
        builder.append(record.timestamp, record.key, record.value, record.headers)
    return bytes(builder.build())


def values(batches: list[EncodedBatch]) -> list[list[bytes | None]]:
    return [[record.value for record in iter_records(batch)] for batch, _ in batches]


@for_each("engine", ENGINES)
@settings(max_examples=examples(100), deadline=None)
@given(
    records=record_lists(),
    skipped=st.integers(0, 3),
    batch_bytes=st.sampled_from([1, 100, 500, 5_000, 10**9]),
    batch_records=st.sampled_from([1, 2, 5, 100]),
    codec=st.sampled_from(CODEC_NAMES),
    sequence=st.sampled_from([-1, 0, 2**31 - 3]),
)
def test_the_bytes_are_the_builders(
    engine: EngineName,
    records: list[Record],
    skipped: int,
    batch_bytes: int,
    batch_records: int,
    codec: str,
    sequence: int,
) -> None:
    """And each batch takes as many records as it may: the next would have been too much."""
    table, records = table_of(records).slice(skipped), records[skipped:]
    producer: dict[str, Any] = {"codec": codec, "producer_id": 5, "epoch": 1, "base_sequence": sequence}
    at = 0
    for batch, count in encode_batches(
        table, batch_bytes=batch_bytes, batch_records=batch_records, engine=engine, **producer
    ):
        assert bytes(batch) == built(records[at : at + count], **producer)
        plain = {**producer, "codec": "none"}
        assert count == 1 or (count <= batch_records and len(built(records[at : at + count], **plain)) <= batch_bytes)
        more = records[at : at + count + 1]
        assert len(more) == count or count == batch_records or len(built(more, **plain)) > batch_bytes
        at += count
        if sequence >= 0:
            producer["base_sequence"] = (producer["base_sequence"] + count) % 2**31
    assert at == len(records)


@for_each("engine", ENGINES)
@settings(max_examples=examples(30), deadline=None)
@given(records=record_lists())
def test_encoded_table_decodes_to_the_same(engine: EngineName, records: list[Record]) -> None:
    decoder = ColumnDecoder(engine=engine)
    pieces = []
    for batch, _ in encode_batches(table_of(records), batch_bytes=2_000, engine=engine):
        check_crc(batch, 0, read_header(batch))
        pieces += decoder.feed(batch)
    (piece,) = [*pieces, *decoder.finish()]
    table = table_of(records)
    assert [piece.key, piece.value, piece.headers] == [table["key"], table["value"], table["headers"]]
    assert piece.timestamp == table["timestamp"]


@for_each("engine", ENGINES)
@for_each(
    "kind",
    [pa.binary(), pa.string(), pa.large_binary(), pa.large_string(), pa.binary(3), pa.binary_view(), pa.string_view()],
)
def test_bytes_and_texts_of_every_kind(engine: EngineName, kind: pa.DataType) -> None:
    table = pa.RecordBatch.from_pydict({"value": pa.array(["abc", None, "xyz"]).cast(pa.binary()).cast(kind)}).slice(1)
    assert values(list(encode_batches(table, engine=engine))) == [[None, b"xyz"]]


@for_each("engine", ENGINES)
def test_times_of_every_kind(engine: EngineName) -> None:
    for kind, times, wanted in (
        (pa.timestamp("s"), [5, None], [5_000, 77]),
        (pa.timestamp("ms", "UTC"), [5, None], [5, 77]),
        (pa.timestamp("us", "Europe/Berlin"), [5_999, -1], [5, -1]),
        (pa.timestamp("ns"), [5_999_999, -1_000_001], [5, -2]),
        (pa.int32(), [5, None], [5, 77]),
        (pa.null(), [None, None], [77, 77]),
    ):
        table = pa.table({"timestamp": pa.array(times, kind), "value": ["a", "b"]})
        ((batch, _),) = encode_batches(table, engine=engine, default_ms=77)
        assert [record.timestamp for record in iter_records(batch)] == wanted


@for_each("engine", ENGINES)
def test_headers_of_every_kind(engine: EngineName) -> None:
    fields = [pa.field("value", pa.string()), pa.field("key", pa.large_string())]
    rows = [[{"key": "a", "value": "x"}], None, [], [{"key": "b", "value": None}, {"key": "", "value": ""}]]
    wanted = [(), (), (("b", None), ("", b""))]
    for kind in (pa.list_(pa.struct(fields)), pa.large_list(pa.struct(fields))):
        table = pa.table({"headers": pa.array(rows, kind)}).slice(1)
        ((batch, _),) = encode_batches(table, engine=engine)
        assert [record.headers for record in iter_records(batch)] == wanted
    ((batch, _),) = encode_batches(pa.table({"headers": pa.nulls(1)}), engine=engine)
    assert list(iter_records(batch)) == [Record(0, -1, None, None)]


@for_each("engine", ENGINES)
def test_lists_that_are_null_may_cover_headers(engine: EngineName) -> None:
    """What stands below a null means nothing."""
    inside = pa.StructArray.from_arrays([pa.array(["a", "b"]), pa.array([b"x", b"y"])], names=["key", "value"])
    headers = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), inside, mask=pa.array([True, False]))
    ((batch, _),) = encode_batches(pa.table({"headers": headers}), engine=engine)
    assert [record.headers for record in iter_records(batch)] == [(), (("b", b"y"),)]


@for_each("engine", ENGINES)
def test_empty_table_and_chunks_give_no_batches(engine: EngineName) -> None:
    assert list(encode_batches(pa.table({"value": pa.array([], pa.binary())}), engine=engine)) == []
    chunks = pa.chunked_array([["a"], [], ["b", "c"]])
    assert values(list(encode_batches(pa.table({"value": chunks}), engine=engine))) == [[b"a", b"b", b"c"]]


@for_each("engine", ENGINES)
def test_a_row_that_alone_is_too_large_stands_alone(engine: EngineName) -> None:
    table = pa.table({"value": [b"a", b"b" * 30_000_000, b"c"]})
    batches = list(encode_batches(table, batch_bytes=20_000_000, engine=engine))
    assert [one.records for one in batches] == [1, 1, 1]
    assert len(batches[1].batch) == 30_000_000 + BATCH_OVERHEAD + 13


@for_each("engine", ENGINES)
def test_invalid_columns_and_options_are_refused(engine: EngineName) -> None:
    def refused(columns: dict[str, Any], **args: Any) -> None:
        list(encode_batches(pa.table(columns), engine=engine, **args))

    for name, column in (("value", [1]), ("key", [1.5]), ("timestamp", ["x"]), ("headers", ["x"]), ("headers", [[1]])):
        with pytest.raises(ValueError, match=f"column {name}"):
            refused({name: column})
    with pytest.raises(ValueError, match="1 record"):
        refused({"value": ["a"]}, batch_records=0)
    with pytest.raises(PluginError):
        refused({"value": ["a"]}, codec="nothing")
    kind = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
    for header in ({"key": None, "value": b"x"}, None):
        with pytest.raises(InvalidRecord, match="row 1"):
            refused({"headers": pa.array([[], [header]], kind)})
    with pytest.raises(InvalidRecord, match="64 bits"):
        refused({"timestamp": [-(2**63), 2**63 - 1]})


@NEEDS_FAST
def test_columns_that_do_not_fit_together_are_not_followed() -> None:
    """Positions beyond the data: never read, the plain way gets them, and Arrow says what it thinks
    of them.
    """
    from kqueue.records.arrow import encode_kernels
    from kqueue.records.arrow.compiled_engine import CompiledBatchEncoder
    from kqueue.records.arrow.encoder import _rows_of

    ends = pa.py_buffer(b"".join(number.to_bytes(4, "little", signed=True) for number in (0, 1, 2**31 - 1, 2)))
    broken = pa.Array.from_buffers(pa.binary(), 3, [None, ends, pa.py_buffer(b"ab")])
    fine = pa.array([b"a", b"b", b"c"])
    for columns in ({"key": broken, "value": fine}, {"key": fine, "value": broken}):
        encoder = CompiledBatchEncoder(_rows_of(pa.RecordBatch.from_pydict(columns), 0), 1_000, 10)
        assert [encoder.fill(BatchBuilder(), row) for row in (0, 1, 2)] == [False] * 3
        assert encode_kernels.encode(*encoder._columns, 0, 1, 1_000, encoder._out)[0] == 1
