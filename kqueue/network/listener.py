"""Listening sockets. An admitted connection becomes a `Session`; others are closed at once."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
from typing import TYPE_CHECKING

from kqueue.base import events
from kqueue.base.config import Config
from kqueue.base.errors import ListenFailed
from kqueue.base.timers import Timer
from kqueue.config.listeners import ListenerAddress, ListenerConfig
from kqueue.network.connection_quotas import ConnectionQuotas
from kqueue.network.connection_rates import HeldConnections, ListenerRate
from kqueue.network.connections import ConnectionRegistry
from kqueue.network.contract import Accepted, StreamSocket
from kqueue.network.session import Session
from kqueue.storage.descriptor_cache import PROCESS

if TYPE_CHECKING:
    from kqueue.network.sasl_gate import SaslListener
    from kqueue.network.tls_context import ListenerTls
    from kqueue.network.tls_handshakes import TlsHandshakes
    from kqueue.network.tls_socket import TlsSocket

ACCEPTS_MAX = 100
"""So many connections are accepted before the existing ones are served."""
RETRY_S = 1.0
HANDSHAKES_RETRY_S = 0.05
PORT_ATTEMPTS_MAX = 20
_LOOPBACK = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
"""IPv4 first: the port that the system chooses for it is asked for on IPv6."""
_NO_FAMILY = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT})
_CLIENT_GONE = (BlockingIOError, InterruptedError, ConnectionAbortedError)
logger = logging.getLogger("kqueue.server")


class Listener:
    """One listener on a bound socket, which it owns from now on. Its connections outlive it.

    After `open` clients queue, after `start` they are served, and `close` ends it. `port` is the
    real port. `endpoint` is the host and port in Metadata responses. `tls` None: its connections
    are not encrypted. `sasl` None: its clients do not authenticate by SASL.
    """

    def __init__(
        self,
        plan: ListenerConfig,
        bound: socket.socket,
        registry: ConnectionRegistry,
        quotas: ConnectionQuotas,
        rate: ListenerRate,
        config: Config,
        tls: ListenerTls | None = None,
    ) -> None:
        self.plan = plan
        self.sasl: SaslListener | None = None
        self.port: int = bound.getsockname()[1]
        self.endpoint = plan.endpoint(self.port)
        self._registry = registry
        self._quotas = quotas
        self._rate = rate
        self._held = HeldConnections(registry)
        self._backlog: int = config["socket.listen.backlog.size"]
        self._send_bytes: int = config["socket.send.buffer.bytes"]
        self._socket: socket.socket | None = bound
        self._retry: Timer | None = None
        self._handshakes: TlsHandshakes | None = None
        if tls is not None:
            from kqueue.network.tls_handshakes import TlsHandshakes  # on use: others do not need it

            self._handshakes = TlsHandshakes(tls, registry, config, self._begin_encrypted, quotas.release)

    def open(self) -> None:
        """Let clients connect; they are served after `start`. Raises ListenFailed."""
        assert self._socket is not None
        try:
            self._socket.listen(self._backlog)
        except OSError as error:  # another process that bound the same port listened first
            self.close()
            raise _refused(self.plan.bind, error) from None

    def share(self) -> socket.socket:
        """Return a second descriptor of the listening socket, for the server that replaces this
        one. The caller closes it.
        """
        assert self._socket is not None
        return self._socket.dup()

    def start(self) -> None:
        """Accept connections."""
        assert self._socket is not None
        self._registry.loop.add_reader(self._socket, self._accept)

    def close(self) -> None:
        """Accept no more connections. A second call does nothing."""
        if self._retry is not None:
            self._retry.cancel()
        if self._socket is not None:
            self._registry.loop.remove_reader(self._socket)
            self._socket.close()
            self._socket = None
            self._held.close()
            if self._handshakes is not None:
                self._handshakes.close()

    def close_descriptor(self) -> None:
        """Close this process's copy of the socket only; see `Server.close_descriptors`."""
        if self._socket is not None:
            self._socket.close()
        self._held.close_descriptors()
        if self._handshakes is not None:
            self._handshakes.close_descriptors()

    def _accept(self) -> None:
        for _ in range(ACCEPTS_MAX):
            wait_ms = self._rate.wait_ms()
            if wait_ms:
                self._pause(wait_ms / 1000)
                return
            if self._handshakes is not None and not self._handshakes.make_room():
                self._pause(HANDSHAKES_RETRY_S)
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
        except OSError as error:  # most likely no descriptors are left
            PROCESS.scarce()
            events.LISTENER_FAILED.log(logger, "cannot accept more connections for now: %s", error=error.strerror)
            self._pause(RETRY_S)
            return False
        self._admit(client, name[0], name[1])
        return True

    def _admit(self, client: socket.socket, host: str, port: int) -> None:
        host = host.removeprefix("::ffff:")  # an IPv4 client of an IPv6 socket
        held_ms = self._quotas.hold_ms(host)
        if held_ms:
            reason = f"its address makes more of them than its quota of connection_creation_rate, for {held_ms} ms"
            self._registry.client_log.log(
                events.CONNECTION_REFUSED,
                f"{host}:{port}",
                "does not serve the connection of %s:%d: %s",
                host=host,
                port=port,
                reason=reason,
            )
            self._held.hold(client, held_ms)
            return
        refusal = self._quotas.admit(host)
        if refusal is not None:
            client.close()
            self._registry.client_log.log(
                events.CONNECTION_REFUSED,
                f"{host}:{port}",
                "closed the connection of %s:%d: %s",
                host=host,
                port=port,
                reason=refusal,
            )
            return
        client.setblocking(False)
        with contextlib.suppress(OSError):  # reading finds a client that is gone already
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._send_bytes != -1:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_bytes)
        accepted = Accepted(host, port, self.plan.bind.name)
        try:
            if self._handshakes is not None:
                self._handshakes.begin(client, accepted)
            else:
                self._begin(Session(self._registry, client, accepted))
        except OSError as error:  # the selector accepts no more sockets
            self._refuse(client, accepted, error)

    def _begin_encrypted(self, client: TlsSocket, accepted: Accepted) -> None:
        from kqueue.network.tls_session import TlsSession

        try:
            self._begin(TlsSession(self._registry, client, accepted))
        except OSError as error:
            self._refuse(client, accepted, error)

    def _refuse(self, client: StreamSocket, accepted: Accepted, error: OSError) -> None:
        self._quotas.release(accepted.host)
        client.close()
        events.CONNECTION_NOT_SERVED.log(
            logger,
            "cannot serve the connection of %s:%d: %s",
            host=accepted.host,
            port=accepted.port,
            error=error.strerror,
        )

    def _begin(self, session: Session) -> None:
        """Serve a connection, whose TLS handshake is done where there is one, once it has
        authenticated, where it must.
        """
        if self.sasl is not None:
            self.sasl.begin(session)
        elif self.plan.protocol.uses_sasl:
            session.cut_off("its listener can't authenticate it")

    def _pause(self, seconds: float) -> None:
        assert self._socket is not None
        self._registry.loop.remove_reader(self._socket)
        self._retry = self._registry.call_later(seconds * 1000, self.start)


def bind(address: ListenerAddress, config: Config) -> list[socket.socket]:
    """Return sockets that are bound to `address` and do not listen: two for ``localhost`` where
    the machine has IPv4 and IPv6, with the same port; else one. Raises ListenFailed.
    """
    receive_bytes: int = config["socket.receive.buffer.bytes"]
    try:
        if address.is_localhost:
            return _bind_loopback(address, receive_bytes)
        return [_bind(address, *_family(address), receive_bytes)]
    except OSError as error:
        raise _refused(address, error) from None


def _refused(address: ListenerAddress, error: OSError) -> ListenFailed:
    return ListenFailed(f"listener {address} can't be opened: {error.strerror or error}")


def _bind_loopback(address: ListenerAddress, receive_bytes: int) -> list[socket.socket]:
    """Bind 127.0.0.1 and ::1. A family that the machine does not have is left out."""
    for attempt in range(1, PORT_ATTEMPTS_MAX + 1):
        bound: list[socket.socket] = []
        missing: OSError | None = None
        port = address.port
        try:
            for family, host in _LOOPBACK:
                try:
                    bound.append(_bind(address._replace(port=port), family, host, receive_bytes))
                except OSError as error:
                    if error.errno not in _NO_FAMILY:
                        raise
                    missing = error
                else:
                    port = bound[0].getsockname()[1]
        except OSError as error:
            for each in bound:
                each.close()
            # a free port of IPv4 may be in use on IPv6
            if address.port or not bound or error.errno != errno.EADDRINUSE or attempt == PORT_ATTEMPTS_MAX:
                raise
            continue
        if not bound:
            assert missing is not None
            raise missing
        return bound
    raise AssertionError("the last attempt returns or raises")


def _bind(address: ListenerAddress, family: socket.AddressFamily, host: str, receive_bytes: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        if os.name == "posix":  # elsewhere it would let two brokers bind the same port
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if address.host == "" else 1)
        if receive_bytes != -1:  # set before listen: it sizes the window that the handshake of a connection offers
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.bind((host, address.port))
    except BaseException:
        sock.close()
        raise
    return sock


def _family(address: ListenerAddress) -> tuple[socket.AddressFamily, str]:
    """Return the protocol family and numeric host. A name with both families gets IPv4, which most
    clients try first.
    """
    if not address.host:
        return (socket.AF_INET6, "::") if socket.has_dualstack_ipv6() else (socket.AF_INET, "0.0.0.0")
    infos = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    family, _, _, _, name = min(infos, key=lambda info: info[0] != socket.AF_INET)
    return family, str(name[0])
