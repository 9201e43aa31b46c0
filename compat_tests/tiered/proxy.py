"""A TCP proxy before an HTTP server that cuts connections at chosen conditional puts."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from compat_tests.tcp_proxy import ChangesProxy, read_bytes

HEAD_BYTES_MAX = 64 << 10
CONDITIONS = (b"if-match:", b"if-none-match:")


class Proxy(ChangesProxy):
    """Forwards requests to one server; its changes are conditional puts."""

    def __init__(self, port: int) -> None:
        super().__init__(port, _requests)


def _requests(sock: socket.socket) -> Iterator[tuple[bytes, int | None]]:
    while (head := _read_head(sock)) is not None:
        body = read_bytes(sock, _content_length(head)) or b""
        is_put = head.split(b" ", 1)[0] in (b"PUT", b"POST") and any(name in head.lower() for name in CONDITIONS)
        yield head + body, len(head) + len(body) // 2 if is_put else None


def _read_head(sock: socket.socket) -> bytes | None:
    """Return the next request up to its body, or None at the end of the stream."""
    head = bytearray()
    while not head.endswith(b"\r\n\r\n"):
        byte = sock.recv(1)
        if not byte:
            return None
        head += byte
        if len(head) > HEAD_BYTES_MAX:
            raise OSError(f"a head of more than {HEAD_BYTES_MAX} bytes")
    return bytes(head)


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0
