"""TCP connections that go through this process, which cuts them: what all proxies share."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Self

LOOPBACK = "127.0.0.1"
FRAME_BYTES_MAX = 64 * 2**20


class Link:
    """One connection of a client and its connection to the server, with a thread per direction."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        for sock in (client, server):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def cut(self) -> None:
        for sock in (self.client, self.server):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


Directions = tuple[Callable[[], None], Callable[[], None]]


class TcpProxy:
    """Listens on a free loopback port for each target, and forwards to it.

    Args:
        directions: returns what forwards to the server and what forwards to the client, each until
            it returns or raises OSError; the link is then cut.
    Attributes: ports: of the targets, in their order.
    """

    def __init__(self, targets: Iterable[tuple[str, int]], directions: Callable[[Link], Directions]) -> None:
        self._directions = directions
        self._listeners = [(target, socket.create_server((LOOPBACK, 0))) for target in targets]
        self._lock = threading.Lock()
        self._links: set[Link] = set()
        self._closed = False
        self.ports: list[int] = [listener.getsockname()[1] for _, listener in self._listeners]
        self._accepters = [
            threading.Thread(target=self._accept, args=one, name="proxy", daemon=True) for one in self._listeners
        ]
        for accepter in self._accepters:
            accepter.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        # Closing the socket does not unblock accept(); one last connection does.
        for accepter, (_, listener) in zip(self._accepters, self._listeners, strict=True):
            with contextlib.suppress(OSError), socket.create_connection(listener.getsockname(), timeout=1):
                pass
            accepter.join(5)
            listener.close()
        self.cut()

    def cut(self) -> int:
        """Cut every connection; return how many there were. Clients may connect again at once."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.cut()
        return len(links)

    def _accept(self, target: tuple[str, int], listener: socket.socket) -> None:
        while True:
            client, _ = listener.accept()
            if self._closed:
                client.close()
                return
            try:
                server = socket.create_connection(target, timeout=5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            link = Link(client, server)
            with self._lock:
                self._links.add(link)
            for work in self._directions(link):
                threading.Thread(target=self._guarded, args=(link, work), name="proxy link", daemon=True).start()

    def _guarded(self, link: Link, work: Callable[[], None]) -> None:
        with contextlib.suppress(OSError):  # one side has closed; both are closed below
            work()
        link.cut()
        link.client.close()
        link.server.close()
        with self._lock:
            self._links.discard(link)


def read_frame(sock: socket.socket) -> bytes | None:
    """Return the next frame with its four length bytes, or None at the end of the stream."""
    head = read_bytes(sock, 4)
    if head is None:
        return None
    size = struct.unpack(">i", head)[0]
    if not 4 <= size <= FRAME_BYTES_MAX:
        raise OSError(f"a frame of {size} bytes")
    body = read_bytes(sock, size)
    return None if body is None else head + body


def read_bytes(sock: socket.socket, size: int) -> bytes | None:
    """Return as many bytes, or None at the end of the stream."""
    parts = bytearray()
    while len(parts) < size:
        part = sock.recv(min(size - len(parts), 1 << 18))
        if not part:
            return None
        parts += part
    return bytes(parts)


class Fates:
    """Decides what becomes of each change that goes through a proxy.

    Attributes:
        decide: called with the number of each change, from 1: "before" cuts its connection and
            drops it, "after" forwards it and cuts the connection in the place of the answer, "half"
            cuts after half of its bytes; None forwards both.
        count: how many came.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.decide: Callable[[int], str | None] = lambda number: None
        self.count = 0

    def next(self) -> str | None:
        """Count a change and return what becomes of it."""
        with self._lock:
            self.count += 1
            return self.decide(self.count)


class ChangesProxy(TcpProxy):
    """Forwards messages to one server, and cuts the connections of chosen changes.

    Args: messages: yields what a client sends, message by message; of a change also how many of
        its bytes go through where it is cut in half, of others None.
    Attributes: fates: what becomes of each change. port: where it listens.
    """

    def __init__(self, port: int, messages: Callable[[socket.socket], Iterator[tuple[bytes, int | None]]]) -> None:
        self.fates = Fates()
        self._messages = messages
        super().__init__([(LOOPBACK, port)], self._forwarding)
        self.port = self.ports[0]

    def _forwarding(self, link: Link) -> Directions:
        drops_answers = False

        def up() -> None:
            nonlocal drops_answers
            for message, half in self._messages(link.client):
                if half is not None:
                    fate = self.fates.next()
                    if fate == "before":
                        return
                    if fate == "half":
                        link.server.sendall(message[:half])
                        return
                    drops_answers = fate == "after"
                link.server.sendall(message)

        def down() -> None:
            while data := link.server.recv(1 << 16):
                if drops_answers:
                    return
                link.client.sendall(data)

        return up, down
