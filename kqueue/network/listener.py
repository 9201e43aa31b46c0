"""Listening sockets: who may connect becomes a `Session`, who may not is closed at once."""

from __future__ import annotations

import contextlib
import logging
import os
import socket

from kqueue.base.errors import ListenFailed
from kqueue.base.settings import Config
from kqueue.base.timers import Timer
from kqueue.config.listeners import ListenerAddress, ListenerConfig
from kqueue.network.connection_quotas import ConnectionQuotas, RateLimiter
from kqueue.network.connections import ConnectionRegistry
from kqueue.network.session import Session
from kqueue.storage.descriptor_cache import PROCESS

ACCEPTS_MAX = 100
"""So many connections are accepted before those that are there have their turn."""
REST_AFTER_TROUBLE_S = 1.0
_CLIENT_GONE = (BlockingIOError, InterruptedError, ConnectionAbortedError)
logger = logging.getLogger("kqueue.server")


class Listener:
    """One listener on a bound socket, which is its own from here on; its connections live on after
    it.

    `open` has clients queue, `start` lets them in, `close` ends it. `port` is the real one;
    `endpoint` is the host and port in Metadata.
    """

    def __init__(
        self,
        plan: ListenerConfig,
        bound: socket.socket,
        hub: ConnectionRegistry,
        limits: ConnectionQuotas,
        rate: RateLimiter,
        config: Config,
    ) -> None:
        self.plan = plan
        self.port: int = bound.getsockname()[1]
        self.endpoint = plan.endpoint(self.port)
        self._hub = hub
        self._limits = limits
        self._rate = rate
        self._backlog: int = config["socket.listen.backlog.size"]
        self._send_bytes: int = config["socket.send.buffer.bytes"]
        self._socket: socket.socket | None = bound
        self._rest: Timer | None = None

    def open(self) -> None:
        """Clients can connect from here on, but are only served after `start`. Raises ListenFailed."""
        assert self._socket is not None
        try:
            self._socket.listen(self._backlog)
        except OSError as error:  # another process has bound the same port and was quicker to listen
            self.close()
            raise _refused(self.plan.bind, error) from None

    def share(self) -> socket.socket:
        """A second descriptor of the listening socket, the caller's: with it another server can go
        on where this one ends.
        """
        assert self._socket is not None
        return self._socket.dup()

    def start(self) -> None:
        assert self._socket is not None
        self._hub.loop.add_reader(self._socket, self._accept)

    def close(self) -> None:
        """No more clients. Twice is harmless."""
        if self._rest is not None:
            self._rest.cancel()
        if self._socket is not None:
            self._hub.loop.remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    def abandon(self) -> None:
        """Close the descriptor alone: the loop's selector is shared with the process that goes on."""
        if self._socket is not None:
            self._socket.close()

    def _accept(self) -> None:
        for _ in range(ACCEPTS_MAX):
            wait_ms = self._rate.wait_ms()
            if wait_ms:
                self._pause(wait_ms / 1000)
                return
            if not self._accept_one():
                return
            self._rate.count()

    def _accept_one(self) -> bool:
        assert self._socket is not None
        try:
            client, name = self._socket.accept()
        except _CLIENT_GONE:
            return False
        except OSError as error:  # no descriptors left, most likely
            PROCESS.scarce()
            logger.error("no more connections can be accepted for now: %s", error.strerror)
            self._pause(REST_AFTER_TROUBLE_S)
            return False
        self._admit(client, name[0], name[1])
        return True

    def _admit(self, client: socket.socket, host: str, port: int) -> None:
        host = host.removeprefix("::ffff:")  # an IPv4 client of an IPv6 socket
        refusal = self._limits.admit(host)
        if refusal is not None:
            client.close()
            self._hub.client_log.say(
                logging.WARNING, f"{host}:{port}", "closed the connection of %s:%d: %s", host, port, refusal
            )
            return
        client.setblocking(False)
        with contextlib.suppress(OSError):  # a client that is gone already is found out when it is read
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._send_bytes != -1:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_bytes)
        try:
            Session(self._hub, client, host, port, self.plan.bind.name)
        except OSError as error:  # the system watches no more sockets for us
            self._limits.leave(host)
            client.close()
            logger.error("the connection of %s:%d can't be served: %s", host, port, error.strerror)

    def _pause(self, seconds: float) -> None:
        assert self._socket is not None
        self._hub.loop.remove_reader(self._socket)
        self._rest = self._hub.later(seconds * 1000, self.start)


def bind(address: ListenerAddress, config: Config) -> socket.socket:
    """A socket that is bound to `address` and does not listen yet. Raises ListenFailed."""
    try:
        return _bind(address, config["socket.receive.buffer.bytes"])
    except OSError as error:
        raise _refused(address, error) from None


def _refused(address: ListenerAddress, error: OSError) -> ListenFailed:
    return ListenFailed(f"listener {address} can't be opened: {error.strerror or error}")


def _bind(address: ListenerAddress, receive_bytes: int) -> socket.socket:
    family, host = _family(address)
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        if os.name == "posix":  # elsewhere it would let two brokers have the same port
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if address.host == "" else 1)
        if receive_bytes != -1:  # connections inherit it, and must: it sizes the window that the handshake offers
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.bind((host, address.port))
    except BaseException:
        sock.close()
        raise
    return sock


def _family(address: ListenerAddress) -> tuple[socket.AddressFamily, str]:
    """The protocol family and the numeric host; a name that has both gets IPv4, as most clients try
    it.
    """
    if not address.host:
        return (socket.AF_INET6, "::") if socket.has_dualstack_ipv6() else (socket.AF_INET, "0.0.0.0")
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    family, _, _, _, name = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return family, str(name[0])
