"""Messages of the console by schemas in Avro and Protobuf, whose packages these tests have."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kqueue.cli.console_schemas import schema_settings
from kqueue.console.messages.schema_values import GivenSchema, SchemaSettings, SchemaValues
from kqueue.schema_registry.rest_client import RegistrySettings
from kqueue.spark.value_formats.protobuf_files import from_set
from kqueue.tests.spark.value_formats.registry_server import RegistryServer

ORDER = {
    "type": "record", "name": "shop.Order", "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "note", "type": ["null", "string"]},
    ],
}  # fmt: skip


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


def values(registry: RegistryServer) -> SchemaValues:
    return SchemaValues(SchemaSettings(RegistrySettings(registry.url)))


def avro(row: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(ORDER), row)
    return file.getvalue()


def framed(schema_id: int, data: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + data


def order() -> bytes:
    from datetime import UTC, datetime
    from decimal import Decimal

    return avro({"id": 2**40, "at": datetime(2026, 1, 31, tzinfo=UTC), "price": Decimal("1.50"), "note": "é"})


PLAIN_ORDER = {"id": 2**40, "at": "2026-01-31T00:00:00+00:00", "price": "1.50", "note": "é"}


def descriptors() -> bytes:
    """Two messages, one in the other."""
    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="shop.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=4, label=1)  # uint64
    inner = message.nested_type.add(name="Item")
    inner.field.add(name="sku", number=1, type=9, label=1)  # string
    return files.SerializeToString()


def protobuf(name: str, **fields: Any) -> bytes:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors()).file:
        pool.Add(file)
    data: bytes = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))(**fields).SerializeToString()
    return data


def test_avro_is_decoded_by_the_schema_of_its_frame(registry: RegistryServer) -> None:
    schema_id = registry.register("orders-value", json.dumps(ORDER))
    decoded = values(registry).decode(framed(schema_id, order()), is_key=False)
    assert decoded == (PLAIN_ORDER, f"Avro shop.Order (schema {schema_id})")


def test_protobuf_is_decoded_by_the_message_of_its_frame(registry: RegistryServer) -> None:
    schema_id = registry.register("orders-value", from_set(descriptors()).text, "PROTOBUF")
    reader = values(registry)
    outer = reader.decode(framed(schema_id, b"\0" + protobuf("shop.Order", id=2**63)), is_key=False)
    inner = reader.decode(framed(schema_id, b"\x04\0\0" + protobuf("shop.Order.Item", sku="A")), is_key=False)
    assert (outer.value, inner.value) == ({"id": "9223372036854775808"}, {"sku": "A"})
    assert outer.schema == f"Protobuf shop.Order (schema {schema_id})"


@pytest.mark.parametrize("data", [b"", b"\xff" * 20, order() + b"x", b"\x80" * 30])
def test_bytes_that_are_not_of_the_schema_have_a_reason(registry: RegistryServer, data: bytes) -> None:
    schema_id = registry.register("orders-value", json.dumps(ORDER))
    with pytest.raises(ValueError, match="not Avro of shop.Order"):
        values(registry).decode(framed(schema_id, data), is_key=False)


def test_a_schema_by_which_short_values_do_harm_is_refused(registry: RegistryServer) -> None:
    schema_id = registry.register("bombs-value", json.dumps({"type": "array", "items": "null"}))
    with pytest.raises(ValueError, match="take no bytes"):
        values(registry).decode(framed(schema_id, b"\xfe\xff\xff\xff\x0f\0"), is_key=False)


def test_a_schema_is_asked_for_once(registry: RegistryServer) -> None:
    schema_id = registry.register("orders-value", json.dumps(ORDER))
    reader = values(registry)
    for _ in range(3):
        reader.decode(framed(schema_id, order()), is_key=False)
    assert len(registry.asked) == 2, "its type, and its text"


def test_a_given_schema_is_for_values_without_a_frame(tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    (tmp_path / "shop.desc").write_bytes(descriptors())
    by_avro = SchemaValues(SchemaSettings(given=GivenSchema("avro", str(tmp_path / "order.avsc"))))
    by_protobuf = SchemaValues(SchemaSettings(given=GivenSchema("protobuf", str(tmp_path / "shop.desc"), "shop.Order")))
    first = SchemaValues(SchemaSettings(given=GivenSchema("protobuf", str(tmp_path / "shop.desc"))))
    assert by_avro.decode(order(), is_key=False).value == PLAIN_ORDER
    assert by_protobuf.decode(protobuf("shop.Order", id=5), is_key=False).value == {"id": "5"}
    assert first.decode(protobuf("shop.Order", id=6), is_key=False).value == {"id": "6"}
    assert not by_avro.applies_to(order(), is_key=False)


def test_options_of_the_command_become_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KQUEUE_REGISTRY_USER", "ann")
    monkeypatch.setenv("KQUEUE_REGISTRY_PASSWORD", "secret")
    settings = schema_settings("http://localhost:8081", None, "avro", "order.avsc", None)
    registry = RegistrySettings("http://localhost:8081", "ann", "secret")
    assert settings == SchemaSettings(registry, GivenSchema("avro", "order.avsc"))
    assert "secret" not in repr(settings)


@pytest.mark.parametrize("url", ["localhost:8081", "ftp://host", "http://ann:secret@host"])
def test_an_address_that_is_none_of_a_registry_is_refused(url: str) -> None:
    with pytest.raises(click.UsageError, match="--schema-registry"):
        schema_settings(url, None, None, None, None)
