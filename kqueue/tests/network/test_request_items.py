"""The list entries of a request are counted before decoding, for every served API and version."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from kqueue.api import handler_table
from kqueue.base.clock import SystemClock
from kqueue.base.errors import TooManyItems
from kqueue.base.timers import Timers
from kqueue.broker.purgatory import Purgatory
from kqueue.network.client_log import ClientLog
from kqueue.network.dispatch import Dispatcher
from kqueue.schema import decode
from kqueue.schema.field_types import ArrayType, StructType
from kqueue.schema.reader_codegen import least_size
from kqueue.schema.structs import Schema, message_schema_of
from kqueue.tests.costliest import Body, Case, cases
from kqueue.tests.network.test_dispatch import Caller
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import corners
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.headers import has_error_code, read_response_header, request_header

ITEMS = 1000
SIZE = 128 * 1024
SERVED = [
    (row, version) for row in handler_table.all_handlers() for version in range(row.versions[0], row.versions[1] + 1)
]


NEWEST = [(row, row.versions[1]) for row in handler_table.all_handlers()]
"""What the default tests send: each API in its newest version."""


def name_of(value: Any) -> str:
    return value.api.name if isinstance(value, handler_table.ApiHandler) else str(value)


def dispatcher(handle: Any) -> Dispatcher:
    def lookup(api_key: int, version: int) -> handler_table.ApiHandler:
        row = handler_table.lookup(api_key, version)
        return handler_table.ApiHandler(row.api, row.versions, handle, row.error_response)

    client_log = ClientLog(logging.getLogger("kqueue.server"), SystemClock())
    waiting = Purgatory(Timers(), SystemClock())
    return Dispatcher("the broker", waiting, client_log, lookup, items_max=ITEMS)  # type: ignore[arg-type]


def frame(row: handler_table.ApiHandler, version: int, case: Case, items: int | None) -> memoryview:
    body = Body(row.api.request_class, version, case, size_max=SIZE, items_max=items, topic_id=bytes(range(16)))
    return memoryview(bytearray(request_header(row.api.key, version, 7, "me") + body.bytes()))


def many(row: handler_table.ApiHandler, version: int) -> Iterator[Case]:
    """Return the cases whose entries are small enough for more than `ITEMS` of them."""
    return (case for case in cases(row.api.request_class, version) if case.mode != "long")


@pytest.mark.parametrize(("row", "version"), corners(SERVED, *NEWEST), ids=name_of)
def test_too_many_items_never_reach_the_handler(
    row: handler_table.ApiHandler, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    def handle(request: Any, call: Any) -> Any:
        raise AssertionError(f"{case} was handled")

    for case in many(row, version):
        asked = dispatcher(handle)
        if has_error_code(row.api.response_class, version):
            (head, body) = asked.start(frame(row, version, case, None), Caller())  # type: ignore[arg-type, misc]
            _, position = read_response_header(memoryview(head + body)[4:], row.api.key, version)
            response = decode(row.api.response_class, version, (head + body)[4 + position :])
            assert response.error_code == ErrorCode.INVALID_REQUEST
            assert f"kqueue.request.max.items={ITEMS}" in caplog.text
        else:
            with pytest.raises(
                TooManyItems, match=f"at most {ITEMS} list entries in one {row.api.name} .kqueue.request.max.items"
            ):
                asked.start(frame(row, version, case, None), Caller())  # type: ignore[arg-type]


@pytest.mark.parametrize(("row", "version"), corners(SERVED, *NEWEST), ids=name_of)
def test_allowed_number_of_items_is_handled(row: handler_table.ApiHandler, version: int) -> None:
    handled = []
    asked = dispatcher(lambda request, call: handled.append(request))
    expected = 0
    for case in many(row, version):
        asked.start(frame(row, version, case, ITEMS - 3), Caller())  # type: ignore[arg-type]
        expected += 1
    assert len(handled) == expected


@for_each("row, version", SERVED)
def test_every_item_takes_at_least_one_byte(row: handler_table.ApiHandler, version: int) -> None:
    """Every item takes at least one byte, so a request holds at most as many items as bytes."""
    schema = message_schema_of(row.api.request_class)

    def check(part: Schema) -> None:
        for each in [*part.fields_at(version), *part.tagged_at(version)]:
            kind = each.kind.of if isinstance(each.kind, ArrayType) else each.kind
            if isinstance(each.kind, ArrayType):
                assert least_size(kind, version, version in schema.flexible) >= 1, f"{part.name}.{each.name}"
            if isinstance(kind, StructType):
                check(kind.schema)

    check(schema)


def test_api_with_costly_items_has_a_lower_limit() -> None:
    row = handler_table.load("list_offsets")
    heavy = handler_table.ApiHandler(
        row.api, row.versions, lambda request, call: None, row.error_response, item_weight=10
    )
    client_log = ClientLog(logging.getLogger("kqueue.server"), SystemClock())
    asked = Dispatcher("the broker", Purgatory(Timers(), SystemClock()), client_log, lambda *_: heavy, items_max=ITEMS)  # type: ignore[arg-type]
    case = Case(("topics", "partitions"), "same")
    assert asked.start(frame(row, 7, case, 99), Caller()) is None  # type: ignore[arg-type]
    with pytest.raises(TooManyItems, match="each entry of ListOffsets counts 10"):
        asked.start(frame(row, 7, case, 100), Caller())  # type: ignore[arg-type]


def test_header_tagged_fields_count_as_items() -> None:
    row = handler_table.load("heartbeat")
    header = request_header(row.api.key, 4, 7, "me")[:-1] + b"\xd0\x0f" + b"\x7f\0" * 2000
    with pytest.raises(TooManyItems):
        dispatcher(None).start(memoryview(bytearray(header)), Caller())  # type: ignore[arg-type]
