"""The opening of a connection to another broker: look-up of its name, TCP, and TLS where the
listener of brokers needs it.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kqueue.base.jobs import IoJob
from kqueue.interbroker.contract import PeerAddress
from kqueue.network.peer_contract import ChannelHost, ChannelState

if TYPE_CHECKING:
    from kqueue.network.peer_handshake import PeerHandshake
    from kqueue.network.tls_socket import TlsSocket


class PeerConnector:
    """One attempt. It owns the socket until `done` or `failed` is called, once.

    Args:
        entered: called with each state.
        done: gets the connection.
        failed: gets the reason; nothing is open.
    """

    def __init__(
        self,
        host: ChannelHost,
        address: PeerAddress,
        *,
        entered: Callable[[ChannelState], None],
        done: Callable[[socket.socket | TlsSocket], None],
        failed: Callable[[str], None],
    ) -> None:
        self._host = host
        self._address = address
        self._entered = entered
        self._done = done
        self._failed = failed
        self._ended = False
        self._targets: list[tuple[int, Any]] = []  # family and socket address, not tried yet
        self._socket: socket.socket | None = None
        self._handshake: PeerHandshake | None = None

    def start(self) -> None:
        """Begin."""
        host, port = self._address.host, self._address.port
        family = _numeric_family(host)
        if family is not None:
            self._targets = [(family, (host, port))]
            self._connect_next("")
            return
        self._entered(ChannelState.RESOLVING)

        def resolved(infos: list[Any] | None, error: BaseException | None) -> None:
            if self._ended:
                return
            if infos is None:
                self._failed(f"the host's name can't be looked up: {error}")
                return
            self._targets = list(dict.fromkeys((info[0], info[4]) for info in infos))
            self._connect_next("")

        look_up = lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)  # noqa: E731
        self._host.jobs.submit(IoJob("look up a broker's name", look_up, resolved, "names of brokers"))

    def close(self) -> None:
        """End the attempt without a call."""
        self._ended = True
        if self._handshake is not None:
            self._handshake.close()
        elif self._socket is not None:
            self._host.loop.remove_writer(self._socket)
            self._socket.close()

    def close_descriptor(self) -> None:
        """Close this process's copy of the socket only; see `Server.close_descriptors`."""
        if self._handshake is not None:
            self._handshake.close_descriptor()
        elif self._socket is not None:
            self._socket.close()

    def _connect_next(self, reason: str) -> None:
        """Connect to the next address; fail with `reason` if all were tried."""
        while self._targets:
            family, address = self._targets.pop(0)
            sock = None
            try:
                sock = socket.socket(family, socket.SOCK_STREAM)
                sock.setblocking(False)
                with contextlib.suppress(BlockingIOError, InterruptedError):
                    sock.connect(address)
                self._host.loop.add_writer(sock, self._connected)
            except (OSError, OverflowError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                if sock is not None:
                    sock.close()
                continue
            self._socket = sock
            self._entered(ChannelState.CONNECTING)
            return
        self._failed(f"can't connect: {reason}")

    def _connected(self) -> None:
        sock = self._socket
        assert sock is not None
        self._host.loop.remove_writer(sock)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            sock.close()
            self._socket = None
            self._connect_next(os.strerror(code))
            return
        with contextlib.suppress(OSError):  # reading finds a broker that is gone already
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        security = self._host.security
        if security is None or security.tls is None:
            self._done(sock)
            return
        from kqueue.network.peer_handshake import PeerHandshake  # on use: plain connections need none

        self._entered(ChannelState.HANDSHAKING)
        self._handshake = PeerHandshake(
            self._host.loop,
            self._host.jobs,
            sock,
            self._address.host,
            security.tls,
            done=self._done,
            failed=self._failed,
        )


def _numeric_family(host: str) -> socket.AddressFamily | None:
    """Return the family of a numeric address; None: a name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError, ValueError):
            socket.inet_pton(family, host)
            return family
    return None
