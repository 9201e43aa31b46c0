"""Against the encoders and decoders of two stock clients: kafka-python (any version of a message)
and aiokafka (old ones).
"""

from __future__ import annotations

import importlib
import io
import pkgutil
import uuid
from collections.abc import Iterator
from typing import Any

import aiokafka.protocol
import pytest
from aiokafka.protocol.api import RequestStruct, Response
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.protocol import admin, consumer, metadata, producer, sasl
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.data_container import DataContainer

from kqueue.schema import Field, decode, encode
from kqueue.tests.schema.strategies import messages, plain
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import corners
from kqueue.wire.apis import BY_KEY

few = settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))


def ours(key: int, *, is_request: bool) -> type[Any]:
    return BY_KEY[key].request_class if is_request else BY_KEY[key].response_class


# --- kafka-python: one class per message, versions given when it is written


def kafka_python_classes() -> Iterator[type[ApiMessage]]:
    for module in (admin, consumer, metadata, producer, sasl):
        for name in module.__all__:
            cls = getattr(module, name)
            if isinstance(cls, type) and issubclass(cls, ApiMessage) and cls.API_KEY in BY_KEY:  # type: ignore[attr-defined]
                yield cls


def of_kafka_python(value: Any, name: str = "") -> Any:
    if isinstance(value, DataContainer):
        fields = [each for each in value._struct._fields if each.for_version_q(value._version)]
        return {each.name: of_kafka_python(getattr(value, each.name), each.name) for each in fields}
    if name in ("authorized_operations", "topic_authorized_operations") and not isinstance(value, int):
        return sum(1 << bit if bit < 31 else -(1 << 31) for bit in ({31} if value is None else value))
    if isinstance(value, (list, tuple)):
        return [of_kafka_python(item) for item in value]
    if isinstance(value, uuid.UUID):
        return value.bytes
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else value


def renamed(value: Any) -> Any:
    """Values as kafka-python has them: it shortens one name in some messages, and a zero uuid is
    None there.
    """
    if isinstance(value, dict):
        long = ("cluster_authorized_operations", "topic_authorized_operations")
        return {"authorized_operations" if name in long else name: renamed(item) for name, item in value.items()}
    if isinstance(value, list):
        return [renamed(item) for item in value]
    return None if value == bytes(16) else value


def anything(each: Field) -> None:
    return None


def no_error(each: Field) -> st.SearchStrategy[int] | None:
    """With an error, an answer to ApiVersions is taken as one of version 0, whatever was asked."""
    return st.just(0) if each.name == "error_code" else None


@pytest.mark.long
@for_each("theirs", list(kafka_python_classes()))
@few
@given(data=st.data())
def test_kafka_python_and_we_say_the_same(theirs: type[ApiMessage], data: st.DataObject) -> None:
    cls = ours(theirs.API_KEY, is_request=theirs.is_request())
    low, high = theirs.valid_versions
    narrow = no_error if theirs is metadata.ApiVersionsResponse else anything
    for version in range(low, high + 1):
        message = data.draw(messages(cls, version, narrow))
        written = encode(message, version)
        read = theirs.decode(written, version=version)
        assert renamed(of_kafka_python(read)) == renamed(plain(message, version))
        read._header = None  # their decoder leaves it unset, their encoder looks at it
        assert decode(cls, version, bytes(read.encode(version=version))) == message


# --- aiokafka: one class per message and version, values by place


UNFINISHED = {"DescribeAclsRequest_v2", "DescribeAclsResponse_v2", "OffsetRequest_v4", "OffsetRequest_v5"}
"""Classes that aiokafka has but never sends, because they do not follow the protocol yet."""
NO_TAGS: dict[int, bytes] = {}


def aiokafka_classes() -> list[type[Any]]:
    for module in pkgutil.iter_modules(aiokafka.protocol.__path__):
        importlib.import_module(f"aiokafka.protocol.{module.name}")
    classes = [cls for base in (RequestStruct, Response) for cls in base.__subclasses__()]
    return [cls for cls in classes if cls.API_KEY in BY_KEY and cls.__name__ not in UNFINISHED]


def by_place(value: Any) -> Any:
    """Values without names: a struct is a tuple, and one in another or of one field alone is no
    struct of its own.
    """
    if isinstance(value, list):
        return [by_place(item) for item in value]
    if not isinstance(value, (dict, tuple)):
        return value
    items = [by_place(item) for item in (value.values() if isinstance(value, dict) else value) if item != NO_TAGS]
    spliced = [each for item in items for each in (item if isinstance(item, tuple) else (item,))]
    return tuple(spliced) if len(spliced) != 1 else spliced[0]


def newest(classes: list[type[Any]]) -> list[type[Any]]:
    """Return the class of the newest version of each message."""
    by_message = {(cls.API_KEY, issubclass(cls, RequestStruct)): cls for cls in sorted(classes, key=version_of)}
    return list(by_message.values())


def version_of(cls: type[Any]) -> int:
    return int(cls.API_VERSION)


@pytest.mark.parametrize(
    "theirs", corners(aiokafka_classes(), *newest(aiokafka_classes())), ids=lambda cls: cls.__name__
)
@few
@given(data=st.data())
def test_aiokafka_and_we_say_the_same(theirs: type[Any], data: st.DataObject) -> None:
    cls, version = ours(theirs.API_KEY, is_request=issubclass(theirs, RequestStruct)), theirs.API_VERSION
    message = data.draw(messages(cls, version))
    written = encode(message, version)
    read = theirs.decode(io.BytesIO(written))
    assert by_place(tuple(getattr(read, name) for name in theirs.SCHEMA.names)) == by_place(plain(message, version))
    assert read.encode() == written
