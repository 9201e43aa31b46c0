"""A TCP proxy that drops replies and cuts connections when a test requests it.

It forwards bytes unchanged, with one exception: it replaces the brokers' ports in responses that
contain broker addresses. Clients therefore stay behind the proxy.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from types import TracebackType

from kqueue.base.addresses import Address, parse_addresses

PRODUCE, FETCH, METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER = 0, 1, 3, 10, 60
FRAME_BYTES_MAX = 64 * 2**20
LOOPBACK = "127.0.0.1"
TELL_ADDRESS = (METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER)


class Proxy:
    """Listens on a free loopback port for each broker, and forwards to it.

    `requests` counts the forwarded requests by API key; `dropped` counts the dropped replies.
    """

    def __init__(self, bootstrap: str) -> None:
        self._listeners = {broker: socket.create_server((LOOPBACK, 0)) for broker in parse_addresses(bootstrap)}
        ports = {broker: listener.getsockname()[1] for broker, listener in self._listeners.items()}
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self._replies: Counter[int] = Counter()
        self._drops: defaultdict[int, set[int]] = defaultdict(set)
        self._closed = False
        self.bootstrap = ",".join(f"{LOOPBACK}:{port}" for port in ports.values())
        self.shown = {_told(broker.port): _told(port) for broker, port in ports.items()}
        self.requests: Counter[int] = Counter()
        self.dropped = 0
        self._accepters = [
            threading.Thread(target=self._accept, args=one, name="proxy", daemon=True)
            for one in self._listeners.items()
        ]
        for accepter in self._accepters:
            accepter.start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        # Closing the socket does not unblock accept(); one last connection does.
        for accepter, listener in zip(self._accepters, self._listeners.values(), strict=True):
            with contextlib.suppress(OSError), socket.create_connection(listener.getsockname(), timeout=1):
                pass
            accepter.join(5)
            listener.close()
        self.cut()

    def drop_reply(self, api_key: int, after: int = 0) -> None:
        """Forward `after` more replies of this API, drop the next one and cut its connection.

        The broker has processed that request, and the client cannot know it.
        """
        with self._lock:
            self._drops[api_key].add(self._replies[api_key] + after)

    def cut(self) -> int:
        """Cut every connection and return how many there were. Clients may reconnect at once."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.cut()
        return len(links)

    def _accept(self, target: Address, listener: socket.socket) -> None:
        while True:
            client, _ = listener.accept()
            if self._closed:
                client.close()
                return
            try:
                broker = socket.create_connection(target, timeout=5)
            except OSError:
                client.close()
                continue
            broker.settimeout(None)
            link = _Link(self, client, broker)
            with self._lock:
                self._links.add(link)
            link.start()

    def count_request(self, api_key: int) -> None:
        with self._lock:
            self.requests[api_key] += 1

    def is_to_drop(self, api_key: int) -> bool:
        """Count a reply of the broker and return whether to drop it."""
        with self._lock:
            number = self._replies[api_key]
            self._replies[api_key] += 1
            lost = number in self._drops[api_key]
            self.dropped += lost
            return lost

    def forget(self, link: _Link) -> None:
        with self._lock:
            self._links.discard(link)


class _Link:
    """One client connection and its broker connection, with one thread per direction."""

    def __init__(self, proxy: Proxy, client: socket.socket, broker: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._broker = broker
        self._api_keys: dict[int, int] = {}
        for sock in (client, broker):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self) -> None:
        for work in (self._up, self._down):
            threading.Thread(target=self._guarded, args=(work,), name="proxy link", daemon=True).start()

    def cut(self) -> None:
        for sock in (self._client, self._broker):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except OSError:
            pass  # One side has closed; both sockets are closed below.
        finally:
            self.cut()
            self._client.close()
            self._broker.close()
            self._proxy.forget(self)

    def _up(self) -> None:
        while (frame := _read_frame(self._client)) is not None:
            api_key, _version, correlation = struct.unpack_from(">hhi", frame, 4)
            self._api_keys[correlation] = api_key
            self._proxy.count_request(api_key)
            self._broker.sendall(frame)

    def _down(self) -> None:
        while (frame := _read_frame(self._broker)) is not None:
            api_key = self._api_keys.pop(struct.unpack_from(">i", frame, 4)[0])
            if self._proxy.is_to_drop(api_key):
                return
            if api_key in TELL_ADDRESS:
                for broker, shown in self._proxy.shown.items():
                    frame = frame.replace(broker, shown)
            self._client.sendall(frame)


def _told(port: int) -> bytes:
    """Return a loopback address as it is in responses."""
    return LOOPBACK.encode() + struct.pack(">i", port)


def _read_frame(sock: socket.socket) -> bytes | None:
    """Return the next frame including its four length bytes, or None at the end of the stream."""
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
