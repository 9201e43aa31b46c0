from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.cli.formats import RecordToSend, formatter, parse_json, parse_line, parse_time, time_text
from kqueue.tests.tables import for_each


class Record(NamedTuple):
    value: bytes | None = b"v"
    key: bytes | None = b"k"
    headers: list[tuple[str, bytes | None]] = []  # noqa: RUF012
    topic: str = "orders"
    partition: int = 2
    offset: int = 77
    timestamp: int | None = 1_700_000_000_123
    timestamp_type: int | None = 0


DATA = st.none() | st.binary(max_size=40) | st.text(max_size=20).map(str.encode)


@given(DATA, DATA, st.lists(st.tuples(st.text(max_size=8), DATA)), st.just(-1) | st.integers(0, 2**62))
def test_json_goes_round_unharmed(
    value: bytes | None, key: bytes | None, headers: list[tuple[str, bytes | None]], timestamp: int
) -> None:
    line = formatter("json")(Record(value, key, headers, timestamp=timestamp))
    assert line.count(b"\n") == 1
    assert parse_json(line) == RecordToSend(value, key, tuple(headers), 2, timestamp)


def test_json_is_readable() -> None:
    row = json.loads(formatter("json")(Record("grün".encode(), None, [("a", b"\xff")])))
    assert row == {
        "topic": "orders",
        "partition": 2,
        "offset": 77,
        "timestamp": 1_700_000_000_123,
        "timestamp_type": "CreateTime",
        "key": None,
        "value": "grün",
        "headers": [["a", {"base64": "/w=="}]],
    }


def test_json_headers_may_be_an_object_and_a_null_header_stays_null() -> None:
    assert parse_json(b'{"value": "v", "headers": {"a": "1", "b": null}}').headers == (("a", b"1"), ("b", None))


@for_each(
    "line",
    [
        b"hello",
        b"[]",
        b"{}",
        b'{"topic": "x"}',
        b'{"value": 3}',
        b'{"value": {"base64": 3}}',
        b'{"value": {"base64": "x"}}',
        b'{"value": {"base64": "eA==", "more": 1}}',
        b'{"value": "v", "headers": 3}',
        b'{"value": "v", "headers": [["a"]]}',
        b'{"value": "v", "headers": [[1, "a"]]}',
        b'{"value": "v", "partition": -1}',
        b'{"value": "v", "partition": true}',
        b'{"value": "v", "timestamp": "now"}',
        b"\xff",
    ],
)
def test_json_that_is_no_record_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(line)


@given(st.binary())
def test_any_line_is_a_record_or_a_value_error(line: bytes) -> None:
    try:
        record = parse_json(line)
    except ValueError:
        return
    assert record.value is not None or record.key is not None or b"null" in line


def test_lines_with_and_without_a_key() -> None:
    assert parse_line(b"a:b:c", None) == RecordToSend(b"a:b:c")
    assert parse_line(b"a:b:c", b":") == RecordToSend(b"b:c", b"a")
    with pytest.raises(ValueError, match="no key separator ':'"):
        parse_line(b"abc", b":")


def test_value_format_is_the_bytes() -> None:
    assert formatter("value")(Record(b"\xff\x00")) == b"\xff\x00\n"
    assert formatter("value")(Record(None)) == b"null\n"


def test_template() -> None:
    line = formatter(r"{topic}-{partition}@{offset}\t{key}={value} {{x}} {headers} {timestamp} {time}")
    assert line(Record(b"v", None, [("a", b"1"), ("b", None)])) == (
        b"orders-2@77\tnull=v {x} a=1,b=null 1700000000123 2023-11-14T22:13:20.123Z\n"
    )


@for_each("spec", ["{nothing}", "{}", "{key!r}", "{key:>3}", "{key.__class__}", "plain", "", "{key", "key}"])
def test_bad_formats_are_refused(spec: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        formatter(spec)


@given(st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(2200, 1, 1), timezones=st.just(UTC)))
def test_times_go_round(moment: datetime) -> None:
    moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    at_ms = round(moment.timestamp() * 1000)
    assert parse_time(moment.isoformat()) == at_ms
    assert parse_time(str(at_ms)) == at_ms
    assert parse_time(time_text(at_ms)) == at_ms


def test_no_time() -> None:
    assert time_text(-1) == "-"
    with pytest.raises(ValueError, match="'tomorrow' is not a time"):
        parse_time("tomorrow")
