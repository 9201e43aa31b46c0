"""What needs no packages of schemas; Avro and Protobuf are in `spark/test_message_schemas.py`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kqueue.console.messages.schema_values import PAUSE_S, SchemaSettings, SchemaValues
from kqueue.schema_registry.rest_client import RegistrySettings
from kqueue.tests.spark.value_formats.registry_server import RegistryServer


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


def framed(schema_id: int, data: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + data


def test_values_of_json_schema_are_json_after_a_frame(registry: RegistryServer) -> None:
    schema_id = registry.register("orders-value", "{}", "JSON")
    reader = SchemaValues(SchemaSettings(RegistrySettings(registry.url)))
    decoded = reader.decode(framed(schema_id, b'{"a": 1}'), is_key=False)
    assert decoded == ({"a": 1}, f"JSON Schema (schema {schema_id})")
    with pytest.raises(ValueError, match=r".+"):
        reader.decode(framed(schema_id, b"{"), is_key=False)


def test_a_frame_is_recognized_with_a_registry_only(registry: RegistryServer) -> None:
    reader = SchemaValues(SchemaSettings(RegistrySettings(registry.url)))
    assert reader.applies_to(framed(1, b""), is_key=False)
    assert not reader.applies_to(b"\0\0\0\0", is_key=False)
    assert not reader.applies_to(b"{....", is_key=False)
    assert not SchemaValues(SchemaSettings()).applies_to(framed(1, b""), is_key=False)


def test_a_schema_that_is_missing_is_asked_for_once(registry: RegistryServer) -> None:
    reader = SchemaValues(SchemaSettings(RegistrySettings(registry.url)))
    for _ in range(3):
        with pytest.raises(ValueError, match="the registry has no schema 77"):
            reader.decode(framed(77, b"x"), is_key=False)
    assert len(registry.asked) == 1


def test_a_registry_that_fails_is_left_alone_for_a_while(registry: RegistryServer) -> None:
    now_s = 0.0
    schema_id = registry.register("orders-value", "{}", "JSON")
    reader = SchemaValues(SchemaSettings(RegistrySettings(registry.url)), now_s=lambda: now_s)
    registry.statuses = [403]
    for _ in range(3):
        with pytest.raises(ValueError, match="status 403"):
            reader.decode(framed(schema_id, b"{}"), is_key=False)
    assert len(registry.asked) == 1
    now_s = PAUSE_S
    assert reader.decode(framed(schema_id, b"{}"), is_key=False).value == {}


def test_bytes_without_a_frame_or_a_schema_have_a_reason() -> None:
    with pytest.raises(ValueError, match="no frame of a schema registry"):
        SchemaValues(SchemaSettings()).decode(b"x", is_key=False)
