"""The HTTP server of metrics and health: `/metrics`, `/healthz`, `/readyz`.

It runs on threads of its own, so a slow scraper delays no client of the broker; what it reads of
the broker is read on the broker's thread, in slices. A loop that hangs is what health is asked
about, so nothing here waits for it without an end.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from http import HTTPStatus
from socketserver import ThreadingMixIn
from typing import Any, TypeVar
from urllib.parse import parse_qs
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import make_wsgi_app
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from kqueue.base.errors import ListenFailed
from kqueue.telemetry.exposition import SamplesCollector
from kqueue.telemetry.foreign_names import FOREIGN_NAMES
from kqueue.telemetry.samples import Samples

ANSWER_S = 10.0
"""A broker that has not answered for so long hangs. A client has as long for its request."""
OWN_NAMES = "kqueue"
"""What `/metrics?names=` takes for kqueue's own names, which are the default."""
IN_SYNC = "in_sync"
"""`/readyz?in_sync=true` is ready once the broker's replicas are in sync, too: others may stop."""
REQUESTS_MAX = 8
"""Requests at a time; further ones are refused, since each has a thread."""
Start = Callable[[str, list[tuple[str, str]]], Any]
T = TypeVar("T")
logger = logging.getLogger("kqueue.telemetry")


class MetricsEndpoint:
    """Serves the metrics and the health of one broker.

    Args:
        read_samples, read_reasons: begin to read on the broker's thread; callable from any. The
            second takes whether its replicas have to be in sync, too.
        tls: None: without TLS.
    """

    def __init__(
        self,
        host: str,
        port: int,
        read_samples: Callable[[], Future[Samples]],
        read_reasons: Callable[[bool], Future[list[str]]],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Raises: ListenFailed."""

        def read() -> Samples:
            return read_samples().result(ANSWER_S)

        self._metrics = {OWN_NAMES: _exposed(SamplesCollector(read))}
        for exporter, names in FOREIGN_NAMES.items():
            self._metrics[exporter] = _exposed(SamplesCollector(read, names))
        self._read_reasons = read_reasons
        self._server = _open(host, port, tls)
        self._server.set_app(self._answer)
        self._thread = threading.Thread(target=self._server.serve_forever, name="kqueue-metrics", daemon=True)

    @property
    def port(self) -> int:
        """The real port."""
        return int(self._server.server_port)

    def start(self) -> None:
        """Serve until `stop`."""
        self._thread.start()

    def stop(self) -> None:
        """Serve no more; requests under way end by themselves. A second call does nothing."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def close_descriptor(self) -> None:
        """Close the listening socket in a forked process, whose threads are not there."""
        self._server.socket.close()

    def _answer(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _text(start, HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are answered")
        if path == "/metrics":
            return self._scrape(environ, start)
        if path in ("/healthz", "/readyz"):
            query = parse_qs(environ.get("QUERY_STRING", ""))
            return self._health(start, everything=path == "/readyz", in_sync=query.get(IN_SYNC, [""])[-1] == "true")
        return _text(start, HTTPStatus.NOT_FOUND, "there are /metrics, /healthz and /readyz")

    def _scrape(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        asked = parse_qs(environ.get("QUERY_STRING", "")).get("names", [OWN_NAMES])[-1]
        metrics = self._metrics.get(asked)
        if metrics is None:
            expected = ", ".join(self._metrics)
            return _text(start, HTTPStatus.BAD_REQUEST, f"names: expected one of {expected}")
        try:
            body: Iterable[bytes] = metrics(environ, start)
        except TimeoutError:
            return _text(start, HTTPStatus.SERVICE_UNAVAILABLE, _hangs())
        return body

    def _health(self, start: Start, *, everything: bool, in_sync: bool) -> Iterable[bytes]:
        """Answer whether the loop runs; `everything`: whether the broker serves all it has, too;
        `in_sync`: with replicas that are in sync.
        """
        try:
            reasons = self._read_reasons(in_sync).result(ANSWER_S)
        except TimeoutError:
            return _text(start, HTTPStatus.SERVICE_UNAVAILABLE, _hangs())
        if everything and reasons:
            return _text(start, HTTPStatus.SERVICE_UNAVAILABLE, "\n".join(reasons))
        return _text(start, HTTPStatus.OK, "ready" if everything else "ok")


def _exposed(collector: SamplesCollector) -> Callable[..., Any]:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return make_wsgi_app(registry)


def _hangs() -> str:
    return f"the event loop has not run for {ANSWER_S:.0f} s: no client is served"


def _text(start: Start, status: HTTPStatus, text: str) -> Iterable[bytes]:
    body = f"{text}\n".encode()
    start(
        f"{status.value} {status.phrase}",
        [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))],
    )
    return [body]


class _Handler(WSGIRequestHandler):
    timeout = ANSWER_S

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: scrapes come every few seconds."""

    def address_string(self) -> str:
        """Return the address itself: its name would be asked of a name server."""
        return str(self.client_address[0])


class _Server(ThreadingMixIn, WSGIServer):
    """A thread per request, `REQUESTS_MAX` at a time."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 16

    def __init__(self, address: tuple[str, int], tls: ssl.SSLContext | None) -> None:
        self._tls = tls
        self._free = threading.BoundedSemaphore(REQUESTS_MAX)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Bind. The base class also asks a name server for the name of this machine."""
        # Connections of the process before are in TIME_WAIT for a minute, as probes come often.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection. The handshake of TLS is part of it: it waits for the client."""
        try:
            request.settimeout(ANSWER_S)
            if self._tls is not None:
                request = self._tls.wrap_socket(request, server_side=True)
            super().process_request_thread(request, client_address)
        except OSError:
            self.shutdown_request(request)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Tell of an error in a line. Those of the client's connection are its own affair."""
        logger.debug("a request for metrics of %s failed", client_address[0], exc_info=True)


class _Server6(_Server):
    address_family = socket.AF_INET6


def _open(host: str, port: int, tls: ssl.SSLContext | None) -> _Server:
    try:
        return (_Server6 if ":" in host else _Server)((host, port), tls)
    except OSError as error:
        raise ListenFailed(
            f"can't listen on {host}:{port} for metrics (kqueue.metrics.listener): {error.strerror}"
        ) from None
