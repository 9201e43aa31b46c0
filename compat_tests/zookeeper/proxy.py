"""A TCP proxy before a ZooKeeper server that cuts connections at chosen transactions."""

from __future__ import annotations

import struct

from compat_tests.tcp_proxy import LOOPBACK, Directions, Fates, Link, TcpProxy, read_frame

MULTI = 14
"""ZooKeeper's number of transactions."""


class Proxy(TcpProxy):
    """Forwards frames to one server.

    Attributes: fates: what becomes of each transaction.
    """

    def __init__(self, port: int) -> None:
        self.fates = Fates()
        super().__init__([(LOOPBACK, port)], self._frames)
        self.port = self.ports[0]
        self.address = f"{LOOPBACK}:{self.port}"

    def _frames(self, link: Link) -> Directions:
        lost_answer: int | None = None  # the number of the request whose answer is dropped, with the connection

        def up() -> None:
            nonlocal lost_answer
            is_first = True  # the connection request has no number and no type
            while (frame := read_frame(link.client)) is not None:
                number, kind = struct.unpack_from(">ii", frame, 4)
                if not is_first and kind == MULTI:
                    fate = self.fates.next()
                    if fate == "before":
                        return
                    if fate == "half":
                        link.server.sendall(frame[: len(frame) // 2])
                        return
                    if fate == "after":
                        lost_answer = number
                is_first = False
                link.server.sendall(frame)

        def down() -> None:
            is_first = True
            while (frame := read_frame(link.server)) is not None:
                if not is_first and struct.unpack_from(">i", frame, 4)[0] == lost_answer:
                    return
                is_first = False
                link.client.sendall(frame)

        return up, down
