"""Whatever a client sends in a well-formed request, at any version, is answered in a way that can
be written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kqueue.api import handler_table
from kqueue.base.errors import AnswerNotExpected, KqueueError
from kqueue.schema import encode
from kqueue.schema.field_types import ArrayType, FieldType, FixedSizeType, StructType, record_data
from kqueue.schema.structs import Field, schema_of
from kqueue.tests.api.access_requests import Deciding, all_but
from kqueue.tests.api.harness import SimulatedClient, batch, old_set
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples

NAMES = [*"tttttttt", "u", "nobody", "new", "", "..", "a b", "__consumer_offsets", "g", "1"]
EDGES = {"b": 7, "h": 15, "i": 31, "q": 63}
RECORDS = [
    b"",
    b"x",
    batch(b"a"),
    batch(b"a", codec="zstd"),
    old_set(0, b"a"),
    old_set(1, b"a", codec_id=1),
    batch(b"a") * 2,
]
COLUMNS: dict[str, Sequence[int]] = {
    "session_epoch": [0, -1, 1, 2],
    "acks": [-1, 0, 1, 9],
    "max_wait_ms": [0, 100],
    "timestamp": [-1, -2, -3, 0, 2**63 - 1],
    **dict.fromkeys(("partition", "partition_index", "index"), (0, 1, 0, 1, -1, 2**31 - 1)),
    **dict.fromkeys(("current_leader_epoch", "last_fetched_epoch"), (-1, -1, -1, 0, 5)),
}


def values(kind: FieldType[Any], version: int) -> st.SearchStrategy[Any]:
    if isinstance(kind, StructType):
        return structs(kind.schema.cls, version)
    if isinstance(kind, ArrayType):
        return st.lists(values(kind.of, version), min_size=1, max_size=3) | st.just([])
    if kind is record_data:
        return st.sampled_from(RECORDS)
    if isinstance(kind, FixedSizeType):
        return numbers(kind)
    return st.sampled_from(NAMES) if kind.name == "string" else st.binary(max_size=8)


def numbers(kind: FixedSizeType[Any]) -> st.SearchStrategy[Any]:
    if kind.name == "uuid":
        return st.sampled_from([*IDS, bytes(16), b"\x05" * 16])
    if kind.name == "boolean":
        return st.booleans()
    if kind.name == "float64":
        return st.floats(allow_nan=False)
    bits = EDGES.get(kind.code, 16)
    return st.one_of(
        st.integers(-2 if kind.code in EDGES else 0, 3),
        st.sampled_from([2**bits - 1, -(2**bits)] if kind.code in EDGES else [2**bits - 1]),
    )


@cache
def structs(cls: type[Any], version: int) -> st.SearchStrategy[Any]:
    schema = schema_of(cls)
    fields = [*schema.fields_at(version), *schema.tagged_at(version)]
    return st.builds(cls, **{field.name: _of(field, version) for field in fields})


def _of(field: Field, version: int) -> st.SearchStrategy[Any]:
    strategy = st.sampled_from(COLUMNS[field.name]) if field.name in COLUMNS else values(field.kind, version)
    return st.none() | strategy if version in field.nullable else strategy


def world() -> SimulatedClient:
    client = SimulatedClient(
        {"kqueue.max.partitions": 60, "offsets.topic.num.partitions": 2, "group.initial.rebalance.delay.ms": 0}
    )
    for name in ("t", "u"):
        client.sim.topic(name, 2)
        client.produce(name, batch(b"a", b"b"))
    return client


IDS = [topic.id for topic in world().sim.broker.topics]  # one seed, the same ids


@for_each("row", handler_table.all_handlers())
@settings(max_examples=examples(16, 4), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_request_is_answered(row: handler_table.ApiHandler, data: st.DataObject) -> None:
    client = world()
    for _ in range(2):
        version = data.draw(st.integers(*row.versions), label="version")
        request = data.draw(structs(row.api.request_class, version), label="request")
        try:
            client.ask(request, version)
        except KqueueError as error:  # what a handler may leave to the table, as the server does
            try:
                encode(handler_table.error_response(request, version, error), version)
            except AnswerNotExpected:
                assert request.acks == 0
        client.sim.advance(50)


@pytest.mark.long
@for_each("row", handler_table.all_handlers())
@settings(max_examples=examples(8, 2), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_request_that_is_denied_is_answered(row: handler_table.ApiHandler, data: st.DataObject) -> None:
    client = world()
    client.answers_errors = True
    rules = [rule[:2] for rule in row.access or ()]
    denied = data.draw(st.sets(st.sampled_from(rules))) if rules else set()
    authorizer = client.sim.broker.security.authorizer = Deciding(all_but(*denied))
    for _ in range(2):
        version = data.draw(st.integers(*row.versions), label="version")
        request = data.draw(structs(row.api.request_class, version), label="request")
        with contextlib.suppress(AnswerNotExpected):
            client.ask(request, version)
        client.sim.advance(50)
    assert all(isinstance(action.name, str) for action in authorizer.asked)
