"""A handful of protocol requests by hand: what a test needs and no client shows. Depends on no client, and on nothing of kqueue."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from types import TracebackType

from compat_tests.clients.contract import Place, Refused

CALL_TIMEOUT_S = 20
FRAME_BYTES_MAX = 64 * 2**20
FETCH, METADATA, API_VERSIONS, CREATE_TOPICS = 1, 3, 18, 19
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

# A batch begins: base offset, length, leader epoch, magic, CRC, attributes (of which the low three bits name the codec).
BATCH_START = struct.Struct(">qiibIh")


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def address(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)


class Reader:
    """Takes fields off a response, front to back."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def take(self, size: int) -> bytes:
        assert 0 <= size <= len(self._body) - self._at, "a response cut short"
        self._at += size
        return self._body[self._at - size : self._at]

    def fields(self, form: str) -> tuple[int, ...]:
        return struct.unpack(f">{form}", self.take(struct.calcsize(f">{form}")))

    def number(self, form: str) -> int:
        return self.fields(form)[0]

    def text(self) -> str | None:
        size = self.number("h")
        return self.take(size).decode() if size >= 0 else None

    def data(self) -> bytes | None:
        size = self.number("i")
        return self.take(size) if size >= 0 else None


class Wire:
    """One connection; requests of versions that are not flexible, one after another."""

    def __init__(self, bootstrap: str) -> None:
        self._socket = socket.create_connection(address(bootstrap), timeout=CALL_TIMEOUT_S)
        self._correlation = 0

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._socket.close()

    def call(self, api_key: int, version: int, body: bytes) -> Reader:
        self._correlation += 1
        frame = struct.pack(">hhi", api_key, version, self._correlation) + text("compat_tests") + body
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        size = struct.unpack(">i", self._read(4))[0]
        assert 4 <= size <= FRAME_BYTES_MAX, f"a response of {size} bytes"
        reader = Reader(self._read(size))
        assert reader.number("i") == self._correlation
        return reader

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(size - len(parts))
            assert part, f"the broker closed the connection after {len(parts)} of {size} bytes"
            parts += part
        return bytes(parts)


def create_topic(bootstrap: str, name: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None:
    """Create a topic and wait until every partition has a leader. Raises Refused."""
    chosen = settings or {}
    body = struct.pack(">i", 1) + text(name) + struct.pack(">ihi", partitions, 1, 0) + struct.pack(">i", len(chosen))
    body += b"".join(text(key) + text(value) for key, value in chosen.items()) + struct.pack(">ib", CALL_TIMEOUT_S * 1000, 0)
    with Wire(bootstrap) as wire:
        reader = wire.call(CREATE_TOPICS, 2, body)
        reader.fields("ii")
        reader.text()
        code = reader.number("h")
        if code:
            raise Refused(code, reader.text() or "")
        deadline = time.monotonic() + CALL_TIMEOUT_S
        while _leaders(wire, name) != partitions:
            assert time.monotonic() < deadline, f"topic {name} has no leaders after {CALL_TIMEOUT_S} s"
            time.sleep(0.02)


def served_apis(bootstrap: str) -> dict[int, tuple[int, int]]:
    """What the broker advertises: API key -> lowest and highest version."""
    with Wire(bootstrap) as wire:
        reader = wire.call(API_VERSIONS, 0, b"")
    code = reader.number("h")
    if code:
        raise Refused(code, "asking for the versions")
    found = {}
    for _ in range(reader.number("i")):
        key, low, high = reader.fields("hhh")
        found[key] = (low, high)
    return found


def _leaders(wire: Wire, topic: str) -> int:
    reader = wire.call(METADATA, 1, struct.pack(">i", 1) + text(topic))
    for _ in range(reader.number("i")):
        reader.number("i")
        reader.text()
        reader.number("i")
        reader.text()
    reader.fields("ii")
    reader.number("h")
    reader.text()
    reader.number("b")
    found = 0
    for _ in range(reader.number("i")):
        _code, _index, leader = reader.fields("hii")
        for _ in range(2):
            reader.take(4 * reader.number("i"))
        found += leader >= 0
    return found


def codecs_of(bootstrap: str, place: Place) -> set[str]:
    """The codecs of the batches at the start of a partition, as the broker keeps them."""
    body = struct.pack(">iiiibi", -1, 0, 1, 2**20, 0, 1) + text(place.topic) + struct.pack(">iiqi", 1, place.partition, 0, 2**20)
    with Wire(bootstrap) as wire:
        reader = wire.call(FETCH, 4, body)
    reader.fields("ii")
    reader.text()
    _count, _index, code, _high_watermark, _last_stable, aborted = reader.fields("iihqqi")
    if code:
        raise Refused(code, f"fetching {place}")
    reader.take(16 * max(aborted, 0))
    batches = reader.data() or b""
    found = set()
    at = 0
    while len(batches) - at >= BATCH_START.size:
        _offset, length, _epoch, _magic, _crc, attributes = BATCH_START.unpack_from(batches, at)
        found.add(CODECS[attributes & 7])
        at += 12 + length
    return found
