"""`HttpServer`: serves an ASGI application with uvicorn until `stop`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn

from kqueue.base.errors import ListenFailed

BACKLOG = 100
CONCURRENCY_MAX = 200
HEADER_BYTES_MAX = 32 * 1024
KEEP_ALIVE_S = 10
STOP_S = 5


class _Server(uvicorn.Server):
    """Leaves the signals to the command."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    """At the stop uvicorn cancels requests that still wait for a broker, and logs a traceback for
    each: that is no error.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, asyncio.CancelledError) and "graceful shutdown exceeded" not in record.getMessage()


class HttpServer:
    """An application that listens. It accepts connections from its construction on, and answers
    them while `run` runs.

    Attributes:
        url: its address for clients, without a slash at its end.
    Args:
        host, port: the address that is bound; port 0: a free one.
        tls_cert, tls_key: files in PEM; None: no TLS.
    Raises: ListenFailed: the address is in use, or not this machine's. OSError, ssl.SSLError: the
        certificate can't be used.
    """

    def __init__(
        self, app: Any, host: str, port: int, *, tls_cert: str | None = None, tls_key: str | None = None
    ) -> None:
        self._socket = _listen(host, port)
        try:
            self._server = _Server(
                uvicorn.Config(
                    app,
                    interface="asgi3",
                    http="h11",
                    ws="none",
                    log_config=None,
                    access_log=False,
                    server_header=False,
                    proxy_headers=False,
                    ssl_certfile=tls_cert,
                    ssl_keyfile=tls_key,
                    limit_concurrency=CONCURRENCY_MAX,
                    timeout_keep_alive=KEEP_ALIVE_S,
                    timeout_graceful_shutdown=STOP_S,
                    h11_max_incomplete_event_size=HEADER_BYTES_MAX,
                )
            )
            self._server.config.load()
        except BaseException:
            self._socket.close()
            raise
        self.port = int(self._socket.getsockname()[1])
        host = f"[{host}]" if ":" in host else host
        self.url = f"{'http' if tls_cert is None else 'https'}://{host}:{self.port}"

    def run(self) -> None:
        """Serve until `stop`."""
        logger = logging.getLogger("uvicorn.error")
        logger.addFilter(_is_no_cancellation)
        try:
            self._server.run(sockets=[self._socket])
        finally:
            logger.removeFilter(_is_no_cancellation)
            self._socket.close()

    def stop(self) -> None:
        """Have `run` end: requests in work get `STOP_S` seconds. Thread: any, also in a signal's
        handler.
        """
        self._server.should_exit = True

    def close(self) -> None:
        """Listen no more, without a `run` before it."""
        self._socket.close()

    def close_descriptor(self) -> None:
        """Close the listening socket in a forked process, whose threads are not there."""
        self._socket.close()


def _listen(host: str, port: int) -> socket.socket:
    try:
        [family, kind, protocol, _, address] = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ListenFailed(f"can't listen on {host}:{port}: {error.strerror or error}") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ListenFailed(f"can't listen on {host}:{port}: {error.strerror or error}") from None
    return listener
