from __future__ import annotations

from collections.abc import Iterator

import pytest

from kqueue.cli.decoded_records import WARNINGS_MAX, DecodedRecord, RecordDecoder
from kqueue.cli.formats import formatter
from kqueue.console.messages.schema_values import SchemaSettings
from kqueue.schema_registry.rest_client import RegistrySettings
from kqueue.tests.spark.value_formats.registry_server import RegistryServer


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


def framed(schema_id: int, data: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + data


def record(key: bytes | None, value: bytes | None, offset: int = 7) -> DecodedRecord:
    return DecodedRecord("orders", 0, offset, None, None, key, value, [])


def test_framed_keys_and_values_are_printed_as_json(registry: RegistryServer) -> None:
    schema_id = registry.register("orders-value", "{}", "JSON")
    decoder = RecordDecoder(SchemaSettings(RegistrySettings(registry.url)))
    write = decoder.writing(formatter("{offset} {key}={value}"))
    framed_record = record(framed(schema_id, b'"k"'), framed(schema_id, '{ "a": "é" }'.encode()))
    assert write(framed_record) == '7 "k"={"a": "é"}\n'.encode()


def test_what_has_no_frame_stays_as_it_is(registry: RegistryServer) -> None:
    decoder = RecordDecoder(SchemaSettings(RegistrySettings(registry.url)))
    assert decoder.decode(record(None, b"plain")) == record(None, b"plain")
    assert registry.asked == []


def test_what_can_not_be_decoded_stays_as_it_is_with_a_warning(
    registry: RegistryServer, capsys: pytest.CaptureFixture[str]
) -> None:
    schema_id = registry.register("orders-value", "{}", "JSON")
    decoder = RecordDecoder(SchemaSettings(RegistrySettings(registry.url)))
    broken = record(framed(99, b"k"), framed(schema_id, b"{"))
    assert decoder.decode(broken) == broken
    assert decoder.decode(broken) == broken
    warnings = capsys.readouterr().err.splitlines()
    assert len(warnings) == 2
    assert warnings[0].startswith("Warning: the key of offset 7 in partition 0 is printed as it is: the registry has")
    for number in range(100, 200):
        decoder.decode(record(framed(number, b"k"), None))
    assert len(capsys.readouterr().err.splitlines()) == WARNINGS_MAX - 2
