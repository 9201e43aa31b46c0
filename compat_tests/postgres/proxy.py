"""A TCP proxy before a PostgreSQL server that cuts connections at chosen changes."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType

MESSAGE_BYTES_MAX = 64 * 2**20
CHANGES = (b".change(", b".register(", b".campaign(")


class Proxy:
    """Listens on a free loopback port and forwards messages to one server.

    Attributes:
        decide: called with the number of each change, from 1: "before" cuts its connection and
            drops it, "after" forwards it and cuts the connection in the place of the answer, "half"
            cuts after half of its bytes; None forwards both.
        changes: how many came.
    """

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self._closed = False
        self.decide: Callable[[int], str | None] = lambda number: None
        self.changes = 0
        self.port: int = self._listener.getsockname()[1]
        self.address = f"postgresql://kqueue@127.0.0.1:{self.port}/postgres"
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
        """Count a change and return what becomes of it."""
        with self._lock:
            self.changes += 1
            return self.decide(self.changes)

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
        self._drops_answers = False
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
        kind = b""  # requests for TLS and the start of a session have a length only
        while (message := _read_message(self._client, kind)) is not None:
            if kind and message[:1] in (b"P", b"Q") and any(name in message for name in CHANGES):
                verdict = self._proxy.verdict()
                if verdict == "before":
                    return
                if verdict == "half":
                    self._server.sendall(message[: len(message) // 2])
                    return
                self._drops_answers = verdict == "after"
            self._server.sendall(message)
            is_start = not kind and struct.unpack_from(">i", message, 4)[0] == 3 << 16
            kind = b"typed" if is_start or kind else b""

    def _down(self) -> None:
        while data := self._server.recv(1 << 16):
            if self._drops_answers:
                return
            self._client.sendall(data)


def _read_message(sock: socket.socket, kind: bytes) -> bytes | None:
    """Return the next message with its length, or None at the end of the stream."""
    head = _read(sock, 5 if kind else 4)
    if head is None:
        return None
    size = struct.unpack_from(">i", head, len(head) - 4)[0]
    if not 4 <= size <= MESSAGE_BYTES_MAX:
        raise OSError(f"a message of {size} bytes")
    body = _read(sock, size - 4)
    return None if body is None else head + body


def _read(sock: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        part = sock.recv(min(size - len(parts), 1 << 18))
        if not part:
            return None
        parts += part
    return bytes(parts)
