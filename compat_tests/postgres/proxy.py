"""A TCP proxy before a PostgreSQL server that cuts connections at chosen changes."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

from compat_tests.tcp_proxy import LOOPBACK, ChangesProxy, read_bytes

MESSAGE_BYTES_MAX = 64 * 2**20
CHANGES = (b".change(", b".register(", b".campaign(")


class Proxy(ChangesProxy):
    """Forwards messages to one server, whose changes are those of the metadata store."""

    def __init__(self, port: int) -> None:
        super().__init__(port, _messages)
        self.address = f"postgresql://kqueue@{LOOPBACK}:{self.port}/postgres"


def _messages(sock: socket.socket) -> Iterator[tuple[bytes, int | None]]:
    kind = b""  # requests for TLS and the start of a session have a length only
    while (message := _read_message(sock, kind)) is not None:
        is_change = kind and message[:1] in (b"P", b"Q") and any(name in message for name in CHANGES)
        yield message, len(message) // 2 if is_change else None
        is_start = not kind and struct.unpack_from(">i", message, 4)[0] == 3 << 16
        kind = b"typed" if is_start or kind else b""


def _read_message(sock: socket.socket, kind: bytes) -> bytes | None:
    """Return the next message with its length, or None at the end of the stream."""
    head = read_bytes(sock, 5 if kind else 4)
    if head is None:
        return None
    size = struct.unpack_from(">i", head, len(head) - 4)[0]
    if not 4 <= size <= MESSAGE_BYTES_MAX:
        raise OSError(f"a message of {size} bytes")
    body = read_bytes(sock, size - 4)
    return None if body is None else head + body
