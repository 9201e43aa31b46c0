"""A TCP proxy before a PostgreSQL server that cuts connections at chosen changes."""

from __future__ import annotations

import socket
import struct

from compat_tests.tcp_proxy import LOOPBACK, Directions, Fates, Link, TcpProxy, read_bytes

MESSAGE_BYTES_MAX = 64 * 2**20
CHANGES = (b".change(", b".register(", b".campaign(")


class Proxy(TcpProxy):
    """Forwards messages to one server.

    Attributes: fates: what becomes of each change.
    """

    def __init__(self, port: int) -> None:
        self.fates = Fates()
        super().__init__([(LOOPBACK, port)], self._messages)
        self.port = self.ports[0]
        self.address = f"postgresql://kqueue@{LOOPBACK}:{self.port}/postgres"

    def __enter__(self) -> Proxy:
        super().__enter__()
        return self

    def _messages(self, link: Link) -> Directions:
        drops_answers = False

        def up() -> None:
            nonlocal drops_answers
            kind = b""  # requests for TLS and the start of a session have a length only
            while (message := _read_message(link.client, kind)) is not None:
                if kind and message[:1] in (b"P", b"Q") and any(name in message for name in CHANGES):
                    fate = self.fates.next()
                    if fate == "before":
                        return
                    if fate == "half":
                        link.server.sendall(message[: len(message) // 2])
                        return
                    drops_answers = fate == "after"
                link.server.sendall(message)
                is_start = not kind and struct.unpack_from(">i", message, 4)[0] == 3 << 16
                kind = b"typed" if is_start or kind else b""

        def down() -> None:
            while data := link.server.recv(1 << 16):
                if drops_answers:
                    return
                link.client.sendall(data)

        return up, down


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
