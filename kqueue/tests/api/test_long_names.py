"""A name as long as a request can carry is answered at every API, also where errors repeat it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from kqueue.api import handler_table
from kqueue.base.errors import AnswerNotExpected
from kqueue.schema.field_types import ArrayType, FieldType, StructType, string
from kqueue.schema.runtime import STRING_SIZE_MAX
from kqueue.schema.structs import schema_of
from kqueue.tests.api.access_requests import Deciding, nothing
from kqueue.tests.api.harness import SimulatedClient, batch
from kqueue.tests.tables import for_each

LONG = "n" * STRING_SIZE_MAX
SHORT = "t"

Path = tuple[str, ...]


def string_paths(cls: type[Any], version: int) -> Iterator[Path]:
    """The strings of a message: the names of the fields that lead to each."""
    schema = schema_of(cls)
    for field in [*schema.fields_at(version), *schema.tagged_at(version)]:
        kind: FieldType[Any] = field.kind.of if isinstance(field.kind, ArrayType) else field.kind
        if isinstance(kind, StructType):
            for path in string_paths(kind.schema.cls, version):
                yield field.name, *path
        elif kind is string:
            yield (field.name,)


def struct_classes(cls: type[Any]) -> Iterator[type[Any]]:
    """A message and the structs in it."""
    yield cls
    for field in schema_of(cls).fields:
        kind: FieldType[Any] = field.kind.of if isinstance(field.kind, ArrayType) else field.kind
        if isinstance(kind, StructType):
            yield from struct_classes(kind.schema.cls)


def filled(cls: type[Any], version: int, path: Path | None) -> Any:
    """A message with one element in each array: LONG where `path` leads, else SHORT."""
    schema = schema_of(cls)
    values: dict[str, Any] = {}
    for field in [*schema.fields_at(version), *schema.tagged_at(version)]:
        is_on_path = path is not None and path[0] == field.name
        of: FieldType[Any] = field.kind.of if isinstance(field.kind, ArrayType) else field.kind
        if isinstance(of, StructType):
            value = filled(of.schema.cls, version, path[1:] if path is not None and is_on_path else None)
        elif of is string:
            value = LONG if is_on_path else SHORT
        elif isinstance(field.kind, ArrayType):
            value = of.zero
        else:
            continue
        values[field.name] = [value] if isinstance(field.kind, ArrayType) else value
    return cls(**values)


def test_every_text_about_an_error_is_shortened_where_it_is_too_long() -> None:
    for row in handler_table.all_handlers():
        for cls in struct_classes(row.api.response_class):
            for field in schema_of(cls).fields:
                is_text = field.name.endswith(("error_message", "status_detail"))
                assert field.shortened == is_text, f"{cls.__name__}.{field.name}"


@for_each("is_denied", [False, True])
@for_each("row", handler_table.all_handlers())
def test_request_with_a_name_of_maximal_length_is_answered(row: handler_table.ApiHandler, is_denied: bool) -> None:
    client = SimulatedClient({"offsets.topic.num.partitions": 1, "group.initial.rebalance.delay.ms": 0})
    client.answers_errors = True
    client.sim.topic(SHORT, 1)
    client.produce(SHORT, batch(b"a"))
    if is_denied:
        client.sim.broker.security.authorizer = Deciding(nothing)
    for version in {*row.versions}:
        for path in string_paths(row.api.request_class, version):
            with contextlib.suppress(AnswerNotExpected):
                client.ask(filled(row.api.request_class, version, path), version)
            client.sim.advance(50)
