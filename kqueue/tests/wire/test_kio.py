"""Against kio, an implementation generated from Kafka's own definitions: every message and version
that both have.

Ours writes, kio reads: field by field the same names, in the same order, with the same values. kio
writes that again: the same bytes, which ours reads to the same message.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import io
import uuid
from collections.abc import Iterator
from pkgutil import resolve_name
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from kqueue.schema import Field, decode, encode
from kqueue.tests.schema.strategies import messages, plain
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples
from kqueue.wire.apis import ALL, Api

pytestmark = pytest.mark.long

CASES = [(api, kind) for api in ALL for kind in (EntityType.request, EntityType.response)]
DURATIONS = (
    *("session_lifetime_ms", "retention_time_ms"),
    *("max_lifetime_ms", "renew_period_ms", "expiry_time_period_ms"),
)
TIMES = (
    "log_append_time_ms",
    "expiry_timestamp_ms",
    "issue_timestamp_ms",
    "max_timestamp_ms",
    "expiry_timestamp",
    "issue_timestamp",
    "max_timestamp",
    "transaction_start_time_ms",
)


def narrow(each: Field) -> st.SearchStrategy[Any] | None:
    """kio makes objects of some numbers, which hold less: known error codes, whole seconds, finite
    floats.
    """
    if each.name.endswith("error_code"):
        return st.sampled_from([int(code) for code in ErrorCode])
    if each.name in TIMES:
        return st.integers(0, 2**31).map(lambda seconds: seconds * 1000)
    if each.name in DURATIONS:
        return st.integers(-(2**40), 2**40)
    if each.kind.name == "float64":
        return st.floats(allow_nan=False, allow_infinity=False)
    return None


def of_kio(value: Any) -> Any:
    """A value of kio's in the terms of `plain`."""
    if isinstance(value, tuple):
        return [of_kio(item) for item in value]
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    if dataclasses.is_dataclass(value):
        return {each.name: of_kio(getattr(value, each.name)) for each in dataclasses.fields(value)}
    return value


def renamed(value: Any) -> Any:
    """Our values as kio has them: its names lack the unit; zero uuids and times of -1 are None
    there.
    """
    if isinstance(value, dict):
        return {name.removesuffix("_ms"): renamed(item) for name, item in value.items()}
    if isinstance(value, list):
        return [renamed(item) for item in value]
    return None if value == bytes(16) else value


def versions(api: Api, kind: EntityType) -> Iterator[tuple[int, Any]]:
    for version, paths in schema_name_map[api.module_name].items():
        if version <= api.versions[1]:
            yield version, resolve_name(paths[kind])


def test_kio_has_nearly_all_versions_that_we_have() -> None:
    ours = sum(api.versions[1] + 1 for api in ALL)
    both = sum(len(list(versions(api, EntityType.request))) for api in ALL)
    assert both > ours * 0.85
    assert all(list(versions(api, kind)) for api, kind in CASES)


@for_each("api, kind", CASES)
@settings(max_examples=examples(8, 2), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_both_say_the_same(api: Api, kind: EntityType, data: st.DataObject) -> None:
    cls = api.request_class if kind is EntityType.request else api.response_class
    for version, theirs in versions(api, kind):
        message = data.draw(messages(cls, version, narrow))
        written = encode(message, version)
        read, size = entity_reader(theirs)(written, 0)
        assert size == len(written)
        assert of_kio(read) == renamed(plain(message, version))
        out = io.BytesIO()
        entity_writer(theirs)(out, read)
        assert out.getvalue() == written
        assert decode(cls, version, out.getvalue()) == message
