"""A session over TLS: what is decrypted already is read before the selector is asked again.

TLS decrypts whole records of up to 16 KiB. A read that takes a part of one leaves the rest in
OpenSSL, where no selector sees it: without the call of `_read_pending` a request that has arrived
would wait for the next one.
"""

from __future__ import annotations

from kqueue.network.connections import ConnectionRegistry
from kqueue.network.contract import Accepted
from kqueue.network.session import Session
from kqueue.network.tls_socket import TlsSocket


class TlsSession(Session):
    """A client's connection whose TLS handshake is done."""

    __slots__ = ("_tls", "_will_read")

    def __init__(self, registry: ConnectionRegistry, sock: TlsSocket, accepted: Accepted) -> None:
        self._tls = sock
        self._will_read = False
        super().__init__(registry, sock, accepted)

    def close_descriptor(self) -> None:
        """Close this process's copy of the socket only; see `Server.close_descriptors`."""
        self._tls.close_descriptor()

    def _readable(self) -> None:
        super()._readable()
        self._read_pending()

    def _start_reading(self) -> None:
        super()._start_reading()
        self._read_pending()

    def _read_pending(self) -> None:
        if self._reading and not self._will_read and self._tls.pending():
            self._will_read = True
            # Not at once: a client that sends without end would keep the loop.
            self._registry.loop.call_soon(self._read_more)

    def _read_more(self) -> None:
        self._will_read = False
        if self._reading:
            self._readable()
