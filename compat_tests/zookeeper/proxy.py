"""A TCP proxy before a ZooKeeper server that cuts connections at chosen transactions."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType

MULTI = 14
"""ZooKeeper's number of transactions."""
FRAME_BYTES_MAX = 64 * 2**20


class Proxy:
    """Listens on a free loopback port and forwards frames to one server.

    Attributes:
        decide: called with the number of each transaction, from 1: "before" cuts its connection and
            drops it, "after" forwards it and cuts the connection in the place of the answer, "half"
            cuts after half of its bytes; None forwards both.
        transactions: how many came.
    """

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self._closed = False
        self.decide: Callable[[int], str | None] = lambda number: None
        self.transactions = 0
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self._accepter = threading.Thread(target=self._accept, name="proxy", daemon=True)
        self._accepter.start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        # Closing the socket does not unblock accept(); one last connection does.
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            pass
        self._accepter.join(5)
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Cut every connection. Clients may connect again at once."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.cut()

    def verdict(self) -> str | None:
        """Count a transaction and return what becomes of it."""
        with self._lock:
            self.transactions += 1
            return self.decide(self.transactions)

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            if self._closed:
                client.close()
                return
            try:
                server = socket.create_connection(self._target, timeout=5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            link = _Link(self, client, server)
            with self._lock:
                self._links.add(link)
            link.start()

    def forget(self, link: _Link) -> None:
        with self._lock:
            self._links.discard(link)


class _Link:
    """One connection of a client and its connection to the server, with a thread per direction."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._lost_answer: int | None = None
        """The number of the request whose answer is dropped, with the connection."""
        for sock in (client, server):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self) -> None:
        for work in (self._up, self._down):
            threading.Thread(target=self._guarded, args=(work,), name="proxy link", daemon=True).start()

    def cut(self) -> None:
        for sock in (self._client, self._server):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _guarded(self, work: Callable[[], None]) -> None:
        with contextlib.suppress(OSError):  # one side has closed; both are closed below
            work()
        self.cut()
        self._client.close()
        self._server.close()
        self._proxy.forget(self)

    def _up(self) -> None:
        is_first = True  # the connection request has no number and no type
        while (frame := _read_frame(self._client)) is not None:
            number, kind = struct.unpack_from(">ii", frame, 4)
            if not is_first and kind == MULTI:
                verdict = self._proxy.verdict()
                if verdict == "before":
                    return
                if verdict == "half":
                    self._server.sendall(frame[: len(frame) // 2])
                    return
                if verdict == "after":
                    self._lost_answer = number
            is_first = False
            self._server.sendall(frame)

    def _down(self) -> None:
        is_first = True
        while (frame := _read_frame(self._server)) is not None:
            if not is_first and struct.unpack_from(">i", frame, 4)[0] == self._lost_answer:
                return
            is_first = False
            self._client.sendall(frame)


def _read_frame(sock: socket.socket) -> bytes | None:
    """Return the next frame with its length, or None at the end of the stream."""
    head = _read(sock, 4)
    if head is None:
        return None
    size = struct.unpack(">i", head)[0]
    if not 4 <= size <= FRAME_BYTES_MAX:
        raise OSError(f"a frame of {size} bytes")
    body = _read(sock, size)
    return None if body is None else head + body


def _read(sock: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        part = sock.recv(min(size - len(parts), 1 << 18))
        if not part:
            return None
        parts += part
    return bytes(parts)
