"""The compiled decoder makes of any bytes what fastavro makes of them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.spark.value_formats import avro
from kqueue.spark.value_formats.avro import AvroDecoder, AvroFormat
from kqueue.spark.value_formats.avro_plan import plan_of
from kqueue.spark.value_formats.contract import Decoded, SchemaText
from kqueue.tests.spark.value_formats.test_avro import ALL, ROWS, encoded, in_avro, in_columns, record, text

pytest.importorskip("numba")

from kqueue.spark.value_formats.avro_fast import FastAvroDecoder
from kqueue.tests.thorough import examples

SLOW_ONLY = ("either", "number")
MOST = {**ALL, "fields": [field for field in ALL["fields"] if field["name"] not in SLOW_ONLY]}


def both(schema: dict[str, Any], values: list[bytes]) -> tuple[Decoded, Decoded]:
    """Return what fastavro makes of values, and what the kernel makes of them."""
    format = AvroFormat(text(schema))
    slow = AvroDecoder(format, format.own)
    plan = plan_of(*format.side, format.type)
    return slow.decode(values), FastAvroDecoder(plan, slow).decode(values)


def same(schema: dict[str, Any], values: list[bytes]) -> Decoded:
    slow, fast = both(schema, values)
    fast.values.validate(full=True)
    assert fast.values.type == slow.values.type
    assert fast.errors == slow.errors
    assert shown(fast) == shown(slow)
    return fast


def shown(decoded: Decoded) -> str:
    """All values as text.

    Instants are shown as numbers: a changed byte makes some that Python has no date for.
    """
    return repr(decoded.values.cast(of_numbers(decoded.values.type)).to_pylist())


def of_numbers(kind: pa.DataType) -> pa.DataType:
    """The type with whole numbers in place of dates, times and instants, at any depth."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(of_numbers(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, of_numbers(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(of_numbers(kind.value_type))
    if pa.types.is_temporal(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    return kind


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(ROWS, max_size=4), st.data())
def test_values_whole_cut_and_changed(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    values = [encoded(MOST, in_avro(row)) for row in rows]
    whole = same(MOST, values)
    expected = [in_columns(row | {"either": None}) for row in rows]
    assert whole.values.to_pylist() == [
        {name: value for name, value in row.items() if name not in SLOW_ONLY} for row in expected
    ]
    if values:
        first = bytearray(values[0])
        place = data.draw(st.integers(0, len(first) - 1))
        first[place] = data.draw(st.integers(0, 255))
        same(MOST, [*values, values[0][:place], bytes(first), values[0] + b"\0", *values])


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(st.binary(max_size=40), max_size=6))
def test_any_bytes(values: list[bytes]) -> None:
    lists = record(
        ("a", {"type": "array", "items": {"type": "array", "items": ["int", "null"]}}),
        ("m", {"type": "map", "values": ["null", "string"]}),
        ("x", ["null", {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 1}]),
    )
    same(lists, values)


def test_blocks_with_sizes_and_several_blocks() -> None:
    schema = record(("a", {"type": "array", "items": "int"}), ("b", "int"))
    value = b"\x04\x02\x04" + b"\x03\x04\x06\x08" + b"\x00" + b"\x0a"  # a block of 2, and 2 of 2 bytes
    assert same(schema, [value, b"\x00\x02"]).values.to_pylist() == [{"a": [1, 2, 3, 4], "b": 5}, {"a": [], "b": 1}]


def test_bounds_of_numbers() -> None:
    schema = record(
        ("n", "int"), ("at", {"type": "long", "logicalType": "timestamp-millis"}), ("s", "string"), ("f", "float")
    )
    plain = record(("n", "long"), ("at", "long"), ("s", "bytes"), ("f", "float"))
    rows = [
        (2**31 - 1, 0, b"a", 0.5), (2**31, 0, b"a", 0.5), (-(2**31), -1, b"", -0.0), (0, 2**62, b"a", 1.5),
        (0, -(2**63), b"a", 1.5), (7, 5, "é".encode(), 3.5),
    ]  # fmt: skip
    values = [encoded(plain, {"n": n, "at": at, "s": s, "f": f}) for n, at, s, f in rows]
    assert sorted(same(schema, values).errors) == [1, 3, 4]
    values.append(encoded(plain, {"n": 0, "at": 0, "s": b"\xff", "f": 0.0}))
    assert sorted(same(schema, values).errors) == [1, 3, 4, 6]


def test_many_values_take_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = record(("n", "int"))
    monkeypatch.setattr(avro, "FEW", 2)
    monkeypatch.setattr(avro, "FAST", "kqueue.spark.value_formats.avro_fast")
    decoder: Any = AvroFormat(SchemaText(json.dumps(schema))).decoder(None)
    for _ in range(3):
        assert decoder.decode([b"\x02", b"\x04"]).values.to_pylist() == [{"n": 1}, {"n": 2}]
    assert isinstance(decoder._decoder, FastAvroDecoder)
    monkeypatch.setattr(avro, "FAST", "kqueue.none")
    decoder = AvroFormat(SchemaText(json.dumps(schema))).decoder(None)
    for _ in range(3):
        assert decoder.decode([b"\x02", b"\x04"]).values.to_pylist() == [{"n": 1}, {"n": 2}]
    assert isinstance(decoder._decoder, AvroDecoder)
