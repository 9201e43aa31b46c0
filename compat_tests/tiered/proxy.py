"""A TCP proxy before an HTTP server that cuts connections at chosen conditional puts."""

from __future__ import annotations

import socket

from compat_tests.tcp_proxy import LOOPBACK, Directions, Fates, Link, TcpProxy, read_bytes

HEAD_BYTES_MAX = 64 << 10
CONDITIONS = (b"if-match:", b"if-none-match:")


class Proxy(TcpProxy):
    """Forwards requests to one server.

    Attributes: fates: what becomes of each conditional put.
    """

    def __init__(self, port: int) -> None:
        self.fates = Fates()
        super().__init__([(LOOPBACK, port)], self._requests)
        self.port = self.ports[0]

    def __enter__(self) -> Proxy:
        super().__enter__()
        return self

    def _requests(self, link: Link) -> Directions:
        drops_answers = False

        def up() -> None:
            nonlocal drops_answers
            while (head := _read_head(link.client)) is not None:
                body = read_bytes(link.client, _content_length(head)) or b""
                if head.split(b" ", 1)[0] in (b"PUT", b"POST") and any(name in head.lower() for name in CONDITIONS):
                    fate = self.fates.next()
                    if fate == "before":
                        return
                    if fate == "half":
                        link.server.sendall(head + body[: len(body) // 2])
                        return
                    drops_answers = fate == "after"
                link.server.sendall(head + body)

        def down() -> None:
            while data := link.server.recv(1 << 16):
                if drops_answers:
                    return
                link.client.sendall(data)

        return up, down


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
