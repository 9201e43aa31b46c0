from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import CorruptData
from kqueue.broker.client_telemetry.otlp_metrics import TOP_FIELDS_MAX, ClientMetric, check_payload, decode_metrics
from kqueue.tests.broker.client_telemetry.otlp_payload import (
    attribute,
    counter,
    gauge,
    histogram,
    part,
    payload,
    varint,
)
from kqueue.tests.tables import for_each

RACK = {"client_rack": "r1"}


def test_gauges_sums_and_histograms_are_read_with_their_attributes() -> None:
    data = payload(
        gauge("producer.queue.time", 1.5, 7, topic="orders"), counter("connections", -3), histogram("rtt", 4, 2.5)
    )
    check_payload(data)
    assert decode_metrics(data) == [
        ClientMetric("producer.queue.time", "gauge", "ms", 1.5, None, 7, {**RACK, "topic": "orders"}),
        ClientMetric("connections", "sum", "", -3, None, 2, RACK),
        ClientMetric("rtt", "histogram", "", 2.5, 4, 3, {**RACK, "node": "1"}),
    ]


def test_attributes_have_the_types_of_protobuf() -> None:
    values = {
        "text": part(1, "ä".encode()),
        "yes": varint(2 << 3) + varint(1),
        "number": varint(3 << 3) + varint((1 << 64) - 5),
        "none": b"",
    }
    pairs = [part(1, part(1, key.encode()), part(2, value)) for key, value in values.items()]
    (metric,) = decode_metrics(part(1, part(1, *pairs), part(2, part(2, counter("c", 1)))))
    assert metric.attributes == {"text": "ä", "yes": True, "number": -5, "none": None}


def test_unknown_fields_are_skipped() -> None:
    data = payload(gauge("g", 1) + part(99, b"later") + varint(98 << 3) + varint(5)) + varint(97 << 3 | 5) + b"1234"
    assert [metric.name for metric in decode_metrics(data)] == ["g"]


@for_each(
    "data, message",
    [
        (b"\x0a\x05ab", "a field of 5 bytes"),
        (b"\xff" * 11, "does not end"),
        (b"\x0b", "found type 3"),
        (b"\x09abc", "a field of 8 bytes"),
        (attribute(1, "a", "b")[:-1], "a field of"),
    ],
)
def test_damaged_payloads_are_reported(data: bytes, message: str) -> None:
    for read in (check_payload, decode_metrics):
        with pytest.raises(CorruptData, match=message):
            read(data)


def test_a_payload_of_very_many_fields_is_refused_soon() -> None:
    check_payload(b"\x0a\x00" * TOP_FIELDS_MAX)
    with pytest.raises(CorruptData, match="more than 1000 fields"):
        check_payload(b"\x0a\x00" * (TOP_FIELDS_MAX + 1))


@given(st.binary(max_size=60) | st.integers(0, 200).map(lambda cut: payload(gauge("g", 1, topic="t"))[:cut]))
def test_any_bytes_are_metrics_or_corrupt(data: bytes) -> None:
    with contextlib.suppress(CorruptData):
        decode_metrics(data)
