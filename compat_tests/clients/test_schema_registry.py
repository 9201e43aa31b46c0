"""The registry client and the serializers of confluent-kafka against the registry of a broker:
what one side registers and writes, the other reads.

They need no client of the others, so they run once, where confluent-kafka is among the clients.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kqueue
from compat_tests.clients.conftest import MAIN_CLIENT

pytest.importorskip("confluent_kafka.schema_registry", exc_type=ImportError)
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
}
WITH_COUNT = {**ORDER, "fields": [*ORDER["fields"], {"name": "count", "type": "int", "default": 1}]}  # type: ignore[misc]
WITH_REQUIRED = {**ORDER, "fields": [*ORDER["fields"], {"name": "count", "type": "int"}]}  # type: ignore[misc]
ORDER_JSON = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["id"],
    "additionalProperties": False,
}
VALUE = {"id": 7, "note": "two coffees"}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker(pytestconfig: pytest.Config) -> Iterator[kqueue.Broker]:
    if MAIN_CLIENT not in pytestconfig.getoption("clients"):
        pytest.skip(f"these are tests of {MAIN_CLIENT}")
    with kqueue.Broker(schema_registry=True) as broker:
        yield broker


@pytest.fixture(scope="module")
def registry(broker: kqueue.Broker) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": broker.schema_registry}) as client:
        yield client


@pytest.fixture
def topic(broker: kqueue.Broker) -> str:
    name = f"orders{next(_numbers)}"
    broker.create_topic(name)
    return name


def round_trip(broker: kqueue.Broker, topic: str, serializer: Any, deserializer: Any, value: Any) -> Any:
    """Return a value that was produced with a serializer, as a deserializer returns it."""
    context = SerializationContext(topic, MessageField.VALUE)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, serializer(value, context))
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        return deserializer(message.value(), context)
    finally:
        consumer.close()


def test_avro(broker: kqueue.Broker, registry: SchemaRegistryClient, topic: str) -> None:
    serializer = AvroSerializer(registry, json.dumps(ORDER))
    assert round_trip(broker, topic, serializer, AvroDeserializer(registry), VALUE) == VALUE
    assert registry.get_latest_version(f"{topic}-value").version == 1


def test_avro_is_read_with_a_later_schema(broker: kqueue.Broker, registry: SchemaRegistryClient, topic: str) -> None:
    serializer = AvroSerializer(registry, json.dumps(ORDER))
    deserializer = AvroDeserializer(registry, json.dumps(WITH_COUNT))
    assert round_trip(broker, topic, serializer, deserializer, VALUE) == {**VALUE, "count": 1}


def test_json_schema(broker: kqueue.Broker, registry: SchemaRegistryClient, topic: str) -> None:
    serializer = JSONSerializer(json.dumps(ORDER_JSON), registry)
    deserializer = JSONDeserializer(None, schema_registry_client=registry)
    assert round_trip(broker, topic, serializer, deserializer, VALUE) == VALUE
    assert registry.get_latest_version(f"{topic}-value").schema.schema_type == "JSON"


def test_protobuf_with_a_reference(broker: kqueue.Broker, registry: SchemaRegistryClient, topic: str) -> None:
    serializer = ProtobufSerializer(Struct, registry, {"use.deprecated.format": False})
    deserializer = ProtobufDeserializer(Struct, {"use.deprecated.format": False})
    value = Struct()
    value.update({"id": 7.0, "notes": ["two coffees"]})
    assert round_trip(broker, topic, serializer, deserializer, value) == value
    assert registry.get_latest_version(f"{topic}-value").schema.schema_type == "PROTOBUF"


def test_protobuf_of_another_message(broker: kqueue.Broker, registry: SchemaRegistryClient, topic: str) -> None:
    serializer = ProtobufSerializer(Timestamp, registry, {"use.deprecated.format": False})
    deserializer = ProtobufDeserializer(Timestamp, {"use.deprecated.format": False})
    value = Timestamp(seconds=1_700_000_000, nanos=5)
    assert round_trip(broker, topic, serializer, deserializer, value) == value


def test_subjects_versions_and_deletions(registry: SchemaRegistryClient, topic: str) -> None:
    first = registry.register_schema(topic, Schema(json.dumps(ORDER), "AVRO"))
    second = registry.register_schema(topic, Schema(json.dumps(WITH_COUNT), "AVRO"))
    assert second > first
    assert registry.register_schema(topic, Schema(json.dumps(ORDER, indent=2), "AVRO")) == first
    assert topic in registry.get_subjects()
    assert registry.get_versions(topic) == [1, 2]
    assert registry.get_latest_version(topic).schema_id == second
    assert registry.lookup_schema(topic, Schema(json.dumps(ORDER), "AVRO")).version == 1
    assert registry.delete_version(topic, 1) == 1
    assert registry.get_versions(topic) == [2]
    assert registry.delete_subject(topic) == [2]
    assert registry.delete_subject(topic, permanent=True) == [1, 2]
    assert topic not in registry.get_subjects()


def test_an_incompatible_schema_is_refused_until_the_level_allows_it(
    registry: SchemaRegistryClient, topic: str
) -> None:
    registry.register_schema(topic, Schema(json.dumps(ORDER), "AVRO"))
    incompatible = Schema(json.dumps(WITH_REQUIRED), "AVRO")
    assert not registry.test_compatibility(topic, incompatible)
    with pytest.raises(SchemaRegistryError) as raised:
        registry.register_schema(topic, incompatible)
    assert (raised.value.http_status_code, raised.value.error_code) == (409, 409)
    assert registry.set_compatibility(topic, "NONE")
    assert registry.get_compatibility(topic) == "NONE"
    assert registry.register_schema(topic, incompatible)


def test_a_schema_refers_to_another(registry: SchemaRegistryClient, topic: str) -> None:
    registry.register_schema(topic, Schema(json.dumps(ORDER), "AVRO"))
    text = {
        "type": "record",
        "name": "Basket",
        "fields": [{"name": "orders", "type": {"type": "array", "items": "shop.Order"}}],
    }
    references = [SchemaReference("shop.Order", topic, 1)]
    schema_id = registry.register_schema(f"{topic}-basket", Schema(json.dumps(text), "AVRO", references))
    assert registry.get_schema(schema_id).references == references


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (lambda registry: registry.get_latest_version("nowhere"), 40401),
        (lambda registry: registry.get_schema(1_000_000), 40403),
        (lambda registry: registry.register_schema("bad", Schema('{"type": "no"}', "AVRO")), 42201),
        (lambda registry: registry.set_compatibility(level="SOME"), 42203),
    ],
)
def test_errors_have_the_numbers_that_clients_compare(
    registry: SchemaRegistryClient, ask: Callable[[SchemaRegistryClient], Any], code: int
) -> None:
    with pytest.raises(SchemaRegistryError) as raised:
        ask(registry)
    assert raised.value.error_code == code
