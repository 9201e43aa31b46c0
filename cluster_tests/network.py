"""A network that can be parted: TCP proxies before brokers and servers of ZooKeeper.

Who connects to a broker is read from the client id of the first request ("broker-2"), so one proxy
before each listener is enough to part any two brokers. Parted, a connection stays open and moves
nothing, as when packets are lost; healed, it goes on where it was.
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
from collections.abc import Callable

CHUNK = 1 << 16
HEAD = struct.Struct(">ihhih")
"""Of a request: size, API key, version, correlation id, length of the client id."""
BROKER = re.compile(rb"broker-(\d+)")
CLIENT = "client"

IsParted = Callable[[str, str], bool]


def broker_name(number: int) -> str:
    """The name of a broker in this network."""
    return f"broker-{number}"


class Network:
    """All proxies of a cluster, and who is parted from whom.

    Thread: any.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_parted: IsParted = lambda source, target: False
        self._listeners: list[socket.socket] = []
        self._links: set[_Link] = set()
        self._closed = False

    def listen(self, target: str, port: int, source: str | None = None) -> int:
        """Return the port of a new proxy.

        Args:
            target: the name of what listens at `port`.
            source: who will connect; None: the client id of the first request says so.
        """
        listener = socket.create_server(("127.0.0.1", 0))
        self._listeners.append(listener)
        accepting = threading.Thread(
            target=self._accept, args=(listener, target, port, source), name=f"proxy of {target}", daemon=True
        )
        accepting.start()
        proxy_port: int = listener.getsockname()[1]
        return proxy_port

    def part(self, is_parted: IsParted) -> None:
        """Hold the connections from each source to each target for which `is_parted` is true."""
        with self._changed:
            self._is_parted = is_parted
            self._changed.notify_all()

    def heal(self) -> None:
        """Let everything through."""
        self.part(lambda source, target: False)

    def cut(self, target: str) -> None:
        """End all connections to a target; they may be made again at once."""
        with self._changed:
            links = [link for link in self._links if link.target == target]
        for link in links:
            link.close()

    def close(self) -> None:
        """End everything."""
        with self._changed:
            self._closed = True
            links = list(self._links)
            self._changed.notify_all()
        for listener in self._listeners:
            # Closing does not end a blocked accept(); a shutdown does.
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for link in links:
            link.close()

    def wait_until_open(self, link: _Link) -> bool:
        """Block while the two sides of a link are parted. Returns: whether the link still lives."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or link.closed or not self._holds(link))
            return not (self._closed or link.closed)

    def forget(self, link: _Link) -> None:
        """Take out a link that has ended."""
        with self._changed:
            self._links.discard(link)
            self._changed.notify_all()

    def _holds(self, link: _Link) -> bool:
        return self._is_parted(link.source, link.target)

    def _accept(self, listener: socket.socket, target: str, port: int, source: str | None) -> None:
        while not self._closed:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            link = _Link(self, client, target, port, source)
            with self._changed:
                self._links.add(link)
            link.start()


class _Link:
    """One connection through a proxy, with a thread for each direction."""

    def __init__(self, network: Network, client: socket.socket, target: str, port: int, source: str | None) -> None:
        self.target = target
        self.source = source or CLIENT
        self.closed = False
        self._network = network
        self._client = client
        self._server: socket.socket | None = None
        self._port = port
        self._is_named = source is not None

    def start(self) -> None:
        threading.Thread(target=self._guarded, args=(self._up,), name="link up", daemon=True).start()

    def close(self) -> None:
        self.closed = True
        for sock in (self._client, self._server):
            if sock is not None:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def _guarded(self, forward: Callable[[], None]) -> None:
        with contextlib.suppress(OSError):  # one side has ended; so does the other
            forward()
        self.close()
        self._client.close()
        if self._server is not None:
            self._server.close()
        self._network.forget(self)

    def _up(self) -> None:
        begin = b"" if self._is_named else self._read_name()
        if not self._network.wait_until_open(self):
            return
        self._server = socket.create_connection(("127.0.0.1", self._port), timeout=5)
        self._server.settimeout(None)
        for sock in (self._client, self._server):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._server.sendall(begin)
        threading.Thread(target=self._guarded, args=(self._down,), name="link down", daemon=True).start()
        self._forward(self._client, self._server)

    def _down(self) -> None:
        assert self._server is not None
        self._forward(self._server, self._client)

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        while data := source.recv(CHUNK):
            if not self._network.wait_until_open(self):
                return
            target.sendall(data)

    def _read_name(self) -> bytes:
        """Read the beginning of the first request, and note who sent it."""
        begin = b""
        while len(begin) < HEAD.size or len(begin) < HEAD.size + max(0, HEAD.unpack_from(begin)[4]):
            data = self._client.recv(CHUNK)
            if not data:
                raise ConnectionError("it ended before its first request")
            begin += data
        name = begin[HEAD.size : HEAD.size + max(0, HEAD.unpack_from(begin)[4])]
        if BROKER.fullmatch(name):
            self.source = name.decode()
        return begin
