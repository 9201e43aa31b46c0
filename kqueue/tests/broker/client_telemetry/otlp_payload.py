"""Builds payloads in OpenTelemetry's protobuf format, field by field."""

from __future__ import annotations

import struct


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def part(field: int, *values: bytes) -> bytes:
    """A length-delimited field."""
    body = b"".join(values)
    return varint(field << 3 | 2) + varint(len(body)) + body


def fixed(field: int, code: str, number: float) -> bytes:
    """A field of 8 bytes; `code`: d or q."""
    return varint(field << 3 | 1) + struct.pack(f"<{code}", number)


def attribute(field: int, key: str, value: str) -> bytes:
    return part(field, part(1, key.encode()), part(2, part(1, value.encode())))


def payload(*metrics: bytes) -> bytes:
    """Metrics of a resource with the attribute ``client_rack=r1``."""
    return part(1, part(1, attribute(1, "client_rack", "r1")), part(2, *(part(2, metric) for metric in metrics)))


def gauge(name: str, value: float, time_ms: int = 1000, **attributes: str) -> bytes:
    point = fixed(3, "q", time_ms * 1_000_000) + fixed(4, "d", value)
    point += b"".join(attribute(7, key, text) for key, text in attributes.items())
    return part(1, name.encode()) + part(3, b"ms") + part(5, part(1, point))


def counter(name: str, value: int) -> bytes:
    point = fixed(2, "q", 5) + fixed(3, "q", 2_000_000) + fixed(6, "q", value)
    return part(1, name.encode()) + part(7, part(1, point), varint(2 << 3) + varint(1))


def histogram(name: str, count: int, total: float) -> bytes:
    point = fixed(3, "q", 3_000_000) + fixed(4, "q", count) + fixed(5, "d", total) + attribute(9, "node", "1")
    return part(1, name.encode()) + part(9, part(1, point))
