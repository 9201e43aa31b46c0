"""The TLS handshake of one connection to another broker: steps in jobs, as OpenSSL computes for
milliseconds, and the loop between them.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from kqueue.base.errors import SettingError
from kqueue.base.jobs import IoJob, Jobs
from kqueue.config.tls_client import handshake_error
from kqueue.network.peer_security import PeerTls
from kqueue.network.tls_socket import TlsSocket

_QUEUE = "TLS handshakes with brokers"


class PeerHandshake:
    """A handshake under way; it owns the socket until one of both is called, once:

    Args:
        host: that was connected to, which the certificate must name.
        done: gets the connection.
        failed: gets the reason; the socket is closed.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        jobs: Jobs,
        plain: socket.socket,
        host: str,
        tls: PeerTls,
        *,
        done: Callable[[TlsSocket], None],
        failed: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._jobs = jobs
        self._plain = plain
        self._descriptor = plain.fileno()  # the wrapped socket keeps it
        self._host = host
        self._tls = tls
        self._settings = tls.settings()
        self._connection: TlsSocket | None = None
        self._done = done
        self._failed = failed
        self._busy = False
        self._ended = False
        self._submit()

    def close(self) -> None:
        """End it without a call."""
        self._ended = True
        if not self._busy:  # else a step uses the socket
            self._close()

    def close_descriptor(self) -> None:
        """Close this process's copy of the socket only; see `Server.close_descriptors`."""
        self._plain.close()
        if self._connection is not None:
            self._connection.close_descriptor()

    def _submit(self) -> None:
        self._busy = True
        self._jobs.submit(IoJob("TLS handshake with a broker", self._step, self._have_stepped, _QUEUE))

    def _step(self) -> bool | None:
        """Thread: a job's. Raises: SettingError. OSError: it failed."""
        if self._connection is None:
            self._connection = self._tls.wrap(self._plain, self._host, self._settings)
        return self._connection.step()

    def _have_stepped(self, wait_to_read: bool | None, error: BaseException | None) -> None:
        self._busy = False
        connection = self._connection
        if self._ended:
            self._close()
        elif error is not None:
            self._ended = True
            self._close()
            reason = str(error) if isinstance(error, SettingError) else None
            self._failed(reason or handshake_error(error, self._settings, self._host))
        elif wait_to_read is None:
            self._ended = True
            assert connection is not None
            self._done(connection)
        elif wait_to_read:
            self._loop.add_reader(self._descriptor, self._readable)
        else:
            self._loop.add_writer(self._descriptor, self._writable)

    def _readable(self) -> None:
        self._loop.remove_reader(self._descriptor)
        self._submit()

    def _writable(self) -> None:
        self._loop.remove_writer(self._descriptor)
        self._submit()

    def _close(self) -> None:
        if self._connection is not None:
            self._loop.remove_reader(self._descriptor)
            self._loop.remove_writer(self._descriptor)
            self._connection.close_descriptor()
        self._plain.close()
