"""Values are decoded by the schemas of kqueue's own registry."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kqueue import Broker
from kqueue.schema_registry.rest_client import RegistrySettings
from kqueue.spark.value_formats.registry import Registry
from kqueue.tests.schema_registry.http_calls import call

AVRO = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
SCHEMAS = {
    "avro": ("AVRO", json.dumps(AVRO)),
    "json-schema": ("JSON", '{"type": "object"}'),
    "protobuf": ("PROTOBUF", 'syntax = "proto3";\nmessage Order {\n  int64 id = 1;\n}\n'),
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Broker(schema_registry=True) as broker:
        yield broker.schema_registry


@pytest.mark.parametrize("format", SCHEMAS)
def test_a_schema_of_each_format_is_found_by_subject_and_id(url: str, format: str) -> None:
    kind, text = SCHEMAS[format]
    answer = call(f"{url}/subjects/{format}-value/versions", "POST", {"schemaType": kind, "schema": text})
    registry = Registry(RegistrySettings(url), format)
    newest = registry.newest(f"{format}-value")
    assert registry.by_id(answer.body["id"]).text == newest.text
    assert registry.format_of(answer.body["id"]) == format
    assert f"{format}-value" in registry.subjects()
