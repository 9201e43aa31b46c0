"""Protobuf messages as columns, compared with what Google's package writes."""

from __future__ import annotations

import functools
import json
import math
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import json_format, message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.schema_registry.rest_client import RegistrySettings
from kqueue.spark.errors import SchemaRefused
from kqueue.spark.value_formats.contract import SchemaText, ValueSettings
from kqueue.spark.value_formats.decoder import ValueDecoder
from kqueue.spark.value_formats.opening import find_schema
from kqueue.spark.value_formats.protobuf import ProtobufFormat
from kqueue.spark.value_formats.protobuf_files import messages_of, serialized
from kqueue.tests.spark.value_formats.registry_server import RegistryServer
from kqueue.tests.spark.value_formats.test_framing import framed
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/duration.proto";
enum State { NEW = 0; PAID = 1; }
message Order {
  message Item { string sku = 1; optional int32 n = 2; google.protobuf.Timestamp at = 3; }
  int32 i32 = 1; sint64 i64 = 2; uint32 u32 = 3; fixed64 u64 = 4; float f = 5; double d = 6; bool b = 7;
  string s = 8; bytes by = 9; State state = 10;
  google.protobuf.Timestamp at = 11; google.protobuf.Int64Value wrapped = 12; google.protobuf.Struct any = 13;
  repeated Item items = 14; repeated int64 numbers = 15; repeated State states = 16;
  map<string, int32> tags = 17; map<int64, Item> by_id = 18;
  oneof how { string card = 19; Item voucher = 20; Nothing cash = 21; }
  google.protobuf.Duration took = 22;
}
message Nothing {}
message Other { int32 x = 1; }
"""
TYPE = (
    "struct<i32: int32, i64: int64, u32: int64, u64: decimal128(20, 0), f: float, d: double, b: bool, s: string, "
    "by: binary, state: string, at: timestamp[us, tz=UTC], wrapped: int64, any: string, "
    "items: list<element: ITEM>, numbers: list<element: int64>, states: list<element: string>, "
    "tags: map<string, int32>, by_id: map<int64, ITEM>, card: string, voucher: ITEM, cash: bool, "
    "took: struct<seconds: int64, nanos: int32>>"
).replace("ITEM", "struct<sku: string, n: int32, at: timestamp[us, tz=UTC]>")


@functools.cache
def compiled() -> SchemaText:
    return serialized(SchemaText(PROTO))


@pytest.fixture
def schema() -> SchemaText:
    return compiled()


def message(schema: SchemaText, fields: dict[str, Any], name: str = "shop.Order") -> bytes:
    _, pool = messages_of(schema)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))()
    data: bytes = json_format.ParseDict(fields, made, descriptor_pool=pool).SerializeToString()
    return data


def test_every_protobuf_type_is_decoded(schema: SchemaText) -> None:
    format = ProtobufFormat(schema, None)
    assert str(format.type).replace(" not null", "") == TYPE
    item = {"sku": "a", "n": 0, "at": "2024-05-01T12:00:00.000001500Z"}
    whole = {
        "i32": -1, "i64": -(2**63), "u32": 2**32 - 1, "u64": 2**64 - 1, "f": 0.5, "d": 0.25, "b": True, "s": "é",
        "by": "AQ==", "state": "PAID", "at": "2024-05-01T12:00:00Z", "wrapped": 0, "any": {"x": [1, None]},
        "items": [item, {}], "numbers": [1, 2], "states": ["PAID", "NEW"], "tags": {"t": 1}, "byId": {"7": item},
        "voucher": item, "took": "1.5s",
    }  # fmt: skip
    values, errors = format.decoder(None).decode([message(schema, whole), b"", message(schema, {"cash": {}})])
    assert not errors
    first, empty, cash = values.to_pylist()
    assert [item | {"at": str(item["at"])} for item in first["items"]] == [
        {"sku": "a", "n": 0, "at": "2024-05-01 12:00:00.000001+00:00"}, {"sku": "", "n": None, "at": "None"},
    ]  # fmt: skip
    assert (first["i64"], first["u32"], int(first["u64"]), first["by"]) == (-(2**63), 2**32 - 1, 2**64 - 1, b"\1")
    assert (first["state"], first["states"], first["wrapped"]) == ("PAID", ["PAID", "NEW"], 0)
    assert (json.loads(first["any"]), first["tags"], first["card"]) == ({"x": [1, None]}, [("t", 1)], None)
    assert (first["by_id"][0][0], first["voucher"]["sku"], first["took"]) == (
        7,
        "a",
        {"seconds": 1, "nanos": 500_000_000},
    )
    assert (empty["i32"], empty["s"], empty["state"], empty["items"]) == (0, "", "NEW", [])
    assert all(empty[name] is None for name in ("at", "wrapped", "any", "card", "voucher", "cash", "took"))
    assert (cash["cash"], cash["card"]) == (True, None)


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(st.binary(max_size=60), max_size=4), st.floats(allow_nan=False), st.integers(-(2**63), 2**63 - 1))
def test_any_bytes_are_errors_or_values(values: list[bytes], number: float, large: int) -> None:
    schema = compiled()
    fine = message(schema, {"d": number if math.isfinite(number) else str(number).replace("inf", "Infinity")})
    fine += message(schema, {"i64": large})
    rows, errors = ProtobufFormat(schema, None).decoder(None).decode([*values, fine, b"\xff"])
    assert len(rows) == len(values) + 2
    assert (rows[len(values)].as_py()["d"], rows[len(values)].as_py()["i64"]) == (number, large)
    assert errors[len(values) + 1].startswith("not a shop.Order: ")
    assert {index for index, one in enumerate(rows.is_valid().to_pylist()) if not one} == set(errors)


def test_times_of_no_year_and_missing_fields_are_wrong(schema: SchemaText) -> None:
    seconds = b"\x5a\x0a\x08" + b"\xff" * 8 + b"\x7f"  # at { seconds: 2^63 - 1 }, of 10 bytes
    _, errors = ProtobufFormat(schema, "shop.Order").decoder(None).decode([seconds, b"\x50\x07"])
    assert list(errors) == [0]
    needed = serialized(SchemaText('syntax = "proto2"; message A { required int32 x = 1; enum E { Z = 0; } }'))
    _, errors = ProtobufFormat(needed, None).decoder(None).decode([b"", b"\x08\x01"])
    assert (list(errors), errors[0]) == ([0], "not a A: missing: x")


@pytest.mark.parametrize("gives_descriptors", [True, False])
def test_messages_are_decoded_by_schemas_of_a_registry(gives_descriptors: bool, schema: SchemaText) -> None:
    text = PROTO.replace("google/protobuf/duration.proto", "shop/item.proto").replace("google.protobuf.Duration", "Sku")
    sku = 'syntax = "proto3"; package shop; message Sku { string code = 1; }'
    with RegistryServer() as server:
        if gives_descriptors:
            server.serialize = {PROTO: schema.text}.__getitem__
            schema_id = server.register("orders-value", PROTO, "PROTOBUF")
            fields = {"i32": 5}
        else:
            server.register("sku", sku, "PROTOBUF")
            references = [{"name": "shop/item.proto", "subject": "sku", "version": 1}]
            schema_id = server.register("orders-value", text, "PROTOBUF", references)
            fields = {"i32": 5, "took": {"code": "c"}}
        given = ValueSettings("protobuf", None, RegistrySettings(server.url), "orders-value", permissive=True)
        registered = find_schema(given)
        value = message(registered.schema, fields)
        decoder = ValueDecoder(registered)
        values = [
            framed(schema_id, value).replace(value, b"\0" + value), framed(schema_id, value, [0]),
            framed(schema_id, b"", [2]), framed(schema_id, b"", [9]), framed(schema_id, b"", [0, 0]),
        ]  # fmt: skip
        rows, errors = decoder.decode(pa.array(values, pa.binary()))
        assert [row and row["i32"] for row in rows.to_pylist()] == [5, 5, None, None, None]
        assert errors == {
            2: "it is a shop.Other, expected shop.Order",
            3: "its schema has no message at 9",
            4: "it is a shop.Order.Item, expected shop.Order",
        }
        if not gives_descriptors:
            assert rows.to_pylist()[0]["took"] == {"code": "c"}


REFUSED = [
    ('syntax = "proto3"; message A { A next = 1; int32 x = 2; }', "A is in itself"),
    ('syntax = "proto3"; message A {}', "A has no fields"),
    ('syntax = "proto3";', "has no message"),
    ('syntax = "proto3"; message A { int32 x = 1; int32 X = 2; }', "'x' and 'X', which Spark takes for one"),
    ('syntax = "proto3"; message A { strin x = 1; }', "can't be compiled: line:1:"),
    ('import "none.proto"; message A { int32 x = 1; }', "can't be compiled: "),
]


@for_each("text, words", REFUSED)
def test_invalid_schema_is_refused(text: str, words: str) -> None:
    with pytest.raises(SchemaRefused, match=words):
        ProtobufFormat(SchemaText(text), None)


def test_unknown_message_is_refused_with_the_known_ones(schema: SchemaText) -> None:
    with pytest.raises(SchemaRefused, match=r"no message 'Order'; there are shop.Order, shop.Nothing, shop.Other"):
        ProtobufFormat(schema, "Order")
