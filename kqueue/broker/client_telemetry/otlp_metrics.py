"""Reads metrics in OpenTelemetry's protobuf format, as clients push them (KIP-714).

Only what clients send is read: gauges, sums and histograms, with their attributes. Unknown fields
are skipped, as protobuf asks.

    MetricsData       1 ResourceMetrics*
    ResourceMetrics   1 Resource, 2 ScopeMetrics*
    Resource          1 KeyValue*
    ScopeMetrics      2 Metric*
    Metric            1 name, 3 unit, 5 Gauge, 7 Sum, 9 Histogram
    Gauge, Sum        1 NumberDataPoint*
    Histogram         1 HistogramDataPoint*
    NumberDataPoint   3 time, 4 double, 6 integer, 7 KeyValue*
    HistogramDataPoint  3 time, 4 count, 5 sum, 9 KeyValue*
    KeyValue          1 key, 2 AnyValue
    AnyValue          1 string, 2 bool, 3 integer, 4 double

Source: opentelemetry-proto, metrics/v1/metrics.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from kqueue.base.errors import CorruptData

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
VARINT_BYTES_MAX = 10
TOP_FIELDS_MAX = 1000
"""Fields at the top of a payload: clients send one."""
GAUGE, SUM, HISTOGRAM = 5, 7, 9
KINDS = {GAUGE: "gauge", SUM: "sum", HISTOGRAM: "histogram"}
_DOUBLE = struct.Struct("<d")
_INTEGER = struct.Struct("<q")

AttributeValue = str | bool | int | float | None
Attributes = dict[str, AttributeValue]
Wire = int | memoryview


@dataclass(frozen=True, slots=True)
class ClientMetric:
    """One value of a metric. `kind`: gauge, sum or histogram; a histogram's value is its sum.

    `count`: of a histogram, else None. `time_ms`: milliseconds since the epoch, by the client.
    """

    name: str
    kind: str
    unit: str
    value: float
    count: int | None
    time_ms: int
    attributes: Attributes


def check_payload(payload: bytes) -> None:
    """Check the outermost level of a payload, in short time. Raises CorruptData."""
    for number, _ in enumerate(_fields(memoryview(payload))):
        if number >= TOP_FIELDS_MAX:
            raise CorruptData(f"a payload of metrics has more than {TOP_FIELDS_MAX} fields at its top")


def decode_metrics(payload: bytes) -> list[ClientMetric]:
    """Return all values of a payload, with the attributes of its resource. Raises CorruptData."""
    metrics: list[ClientMetric] = []
    for resource_metrics in _parts(memoryview(payload), 1):
        shared: Attributes = {}
        for resource in _parts(resource_metrics, 1):
            shared |= _attributes(resource, 1)
        for scope in _parts(resource_metrics, 2):
            for metric in _parts(scope, 2):
                metrics.extend(_metric(metric, shared))
    return metrics


def _metric(data: memoryview, shared: Attributes) -> Iterator[ClientMetric]:
    name, unit = _text(data, 1), _text(data, 3)
    for field, kind in KINDS.items():
        for points in _parts(data, field):
            for point in _parts(points, 1):
                yield _point(point, name, unit, kind, shared)


def _point(data: memoryview, name: str, unit: str, kind: str, shared: Attributes) -> ClientMetric:
    is_histogram = kind == KINDS[HISTOGRAM]
    value, count, time_ms = 0.0, None, 0
    for field, wire in _fields(data):
        if isinstance(wire, memoryview) and len(wire) == 8:
            number: int = _INTEGER.unpack(wire)[0]
            if field == 3:
                time_ms = number // 1_000_000
            elif is_histogram and field == 4:
                count = number
            elif field in (4, 5):
                value = _DOUBLE.unpack(wire)[0]
            elif field == 6 and not is_histogram:
                value = number
    attributes = shared | _attributes(data, 9 if is_histogram else 7)
    return ClientMetric(name, kind, unit, value, count, time_ms, attributes)


def _attributes(data: memoryview, field: int) -> Attributes:
    attributes: Attributes = {}
    for pair in _parts(data, field):
        values = [_any(value) for value in _parts(pair, 2)]
        attributes[_text(pair, 1)] = values[-1] if values else None
    return attributes


def _any(data: memoryview) -> AttributeValue:
    for field, wire in _fields(data):
        if field == 1 and isinstance(wire, memoryview):
            return _utf8(wire)
        if field == 2 and isinstance(wire, int):
            return bool(wire)
        if field == 3 and isinstance(wire, int):
            return wire - (1 << 64) if wire >= 1 << 63 else wire
        if field == 4 and isinstance(wire, memoryview) and len(wire) == 8:
            number: float = _DOUBLE.unpack(wire)[0]
            return number
    return None


def _text(data: memoryview, field: int) -> str:
    return next((_utf8(part) for part in _parts(data, field)), "")


def _utf8(data: memoryview) -> str:
    return str(data, "utf-8", "replace")


def _parts(data: memoryview, field: int) -> Iterator[memoryview]:
    """Yield the length-delimited values of one field."""
    return (wire for number, wire in _fields(data) if number == field and isinstance(wire, memoryview))


def _fields(data: memoryview) -> Iterator[tuple[int, Wire]]:
    """Yield the fields of a message: number, and an integer or the bytes. Raises CorruptData."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        kind = tag & 7
        if kind == VARINT:
            value, position = _varint(data, position)
            yield tag >> 3, value
            continue
        if kind == BYTES:
            size, position = _varint(data, position)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise CorruptData(f"metrics: expected a field of type 0, 1, 2 or 5 at byte {position}, found type {kind}")
        if size > end - position:
            raise CorruptData(f"metrics: a field of {size} bytes at byte {position} of {end}")
        yield tag >> 3, data[position : position + size]
        position += size


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    for index in range(position, min(len(data), position + VARINT_BYTES_MAX)):
        byte = data[index]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, index + 1
        shift += 7
    raise CorruptData(f"metrics: a number at byte {position} does not end")
