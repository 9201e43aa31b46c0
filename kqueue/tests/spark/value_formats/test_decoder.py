from __future__ import annotations

import base64
import json

import pyarrow as pa
import pytest

from kqueue.schema_registry.rest_client import RegistrySettings
from kqueue.spark.errors import RegistryFailed
from kqueue.spark.value_formats.contract import SchemaText
from kqueue.spark.value_formats.decoder import UNKNOWN_MAX, ValueDecoder, ValueSchema
from kqueue.tests.spark.value_formats.registry_server import RegistryServer
from kqueue.tests.spark.value_formats.test_framing import framed

SCHEMA = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})


def test_values_stay_in_their_rows() -> None:
    decoder = ValueDecoder(ValueSchema("avro", SchemaText(SCHEMA), None, None, True))
    for _ in range(2):
        values, errors = decoder.decode(pa.array([None, b"\2", b"", b"\4"], pa.binary()))
        assert values.to_pylist() == [None, {"id": 1}, None, {"id": 2}]
        assert list(errors) == [2]
    assert decoder.decode(pa.array([None, None], pa.binary())).values.to_pylist() == [None, None]
    assert decoder.decode(pa.array([b"\2"], pa.binary())).values.type == decoder.type


def test_writers_schemas_come_from_the_registry_once() -> None:
    wider = json.dumps({"type": "record", "name": "Order", "fields": [
        {"name": "shop", "type": "string"}, {"name": "id", "type": "int"}]})  # fmt: skip
    with RegistryServer() as server:
        first, second = server.register("orders-value", SCHEMA), server.register("orders-value", wider)
        other = server.register("people-value", '{"type": "object"}', "JSON")
        useless = server.register("useless-value", "{}")
        schema = ValueSchema("avro", SchemaText(SCHEMA), None, RegistrySettings(server.url), True)
        decoder = ValueDecoder(schema)
        values = [
            framed(first, b"\2"), framed(second, b"\2x\4"), None, framed(first, b"\6"), b"\2", framed(77, b""),
            framed(other, b"{}"), framed(useless, b""), framed(second, b"\2"),
        ]  # fmt: skip
        for _ in range(2):
            rows, errors = decoder.decode(pa.array(values, pa.binary()))
            assert [one and one["id"] for one in rows.to_pylist()] == [1, 2, None, 3, *[None] * 5]
            assert sorted(errors) == [4, 5, 6, 7, 8]
            assert errors[5] == "the registry has no schema 77"
            assert "expected the" in errors[4] or "no frame" in errors[4]
            assert "is JSON, expected AVRO" in errors[6]
            assert "can't be used" in errors[7]
        assert len(server.asked) == 5
        many = pa.array([framed(number, b"") for number in range(1_000, 1_000 + UNKNOWN_MAX + 5)], pa.binary())
        _, errors = decoder.decode(many)
        assert len(errors) == len(many)
        assert len(server.asked) == 5 + UNKNOWN_MAX - 3
        assert "was not looked for" in errors[len(many) - 1]
        assert decoder.decode(pa.array([framed(first, b"\2")], pa.binary())).values.to_pylist() == [{"id": 1}]
    with pytest.raises(RegistryFailed):
        ValueDecoder(schema).decode(pa.array(values, pa.binary()))


def test_a_schema_with_several_messages_is_asked_for_once() -> None:
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    file = descriptor_pb2.FileDescriptorProto(name="orders.proto", package="shop", syntax="proto3")
    for name in ("Order", "Refund"):
        file.message_type.add(name=name).field.add(name="id", number=1, type=3, label=1)
    text = base64.b64encode(file.SerializeToString()).decode()
    with RegistryServer() as server:
        known = server.register("orders-value", text, "PROTOBUF")
        decoder = ValueDecoder(
            ValueSchema("protobuf", SchemaText(text), None, RegistrySettings(server.url), permissive=True)
        )
        values = [framed(known, b"\0\x08\1"), framed(known, b"\2\2\x08\1"), framed(known, b"\2\4\x08\1")]
        values += [framed(known + 1, bytes([2, 2 * index])) for index in range(1, 50)]
        rows, errors = decoder.decode(pa.array(values, pa.binary()))
        assert rows.to_pylist() == [{"id": 1}, *[None] * 51]
        assert errors[1] == "it is a shop.Refund, expected shop.Order"
        assert errors[2] == "its schema has no message at 2"
        assert {errors[row] for row in range(3, 52)} == {"the registry has no schema 2"}
        assert len(server.asked) == 2


def test_json_values_are_decoded_and_malformed_ones_reported() -> None:
    text = SchemaText('{"properties": {"id": {"type": "integer"}}}')
    decoder = ValueDecoder(ValueSchema("json-schema", text, None, None, True))
    values, errors = decoder.decode(pa.array([b'{"id": 1}', b"{"], pa.binary()))
    assert (values.to_pylist(), list(errors)) == ([{"id": 1}, None], [1])
