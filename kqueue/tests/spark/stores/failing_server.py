"""An HTTP server between a client and another server, which fails as servers and networks do."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import random
import socket
import threading
from collections.abc import Iterator, Mapping
from typing import ClassVar

REFUSED = {"500": b"InternalError", "503": b"SlowDown"}
FAILURES = (*REFUSED, "unheard", "lost", "late 500", "broken off")
"""unheard: the connection ends before the request is served. lost: after it is. late 500: it is
served, and the answer is an error. broken off: half of the response's body.
"""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    port: ClassVar[int]
    rng: ClassVar[random.Random]
    share: ClassVar[float]

    def log_message(self, format: str, *args: object) -> None:
        pass

    def serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        failure = self.rng.choice(FAILURES) if self.rng.random() < self.share else ""
        if failure in REFUSED:
            self.answer(int(failure), b"<Error><Code>%s</Code><Message>no</Message></Error>" % REFUSED[failure])
        elif failure == "unheard":
            self.hang_up()
        else:
            self.pass_on(body, failure)

    def pass_on(self, body: bytes, failure: str) -> None:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as onward:
            onward.request(self.command, self.path, body, dict(self.headers))
            response = onward.getresponse()
            data, headers = response.read(), dict(response.getheaders())
        if failure == "lost":
            self.hang_up()
        elif failure == "late 500":
            self.answer(500, b"")
        else:
            self.answer(response.status, data, headers, cut=failure == "broken off")

    def answer(self, status: int, data: bytes, headers: Mapping[str, str] | None = None, *, cut: bool = False) -> None:
        told = {name.lower(): value for name, value in (headers or {}).items()}
        size = told.get("content-length", "0") if self.command == "HEAD" else str(len(data))
        self.send_response(status)
        for name, value in {**told, "content-length": size}.items():
            if name not in ("connection", "transfer-encoding"):
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if cut else data)
        if cut:
            self.hang_up()

    def hang_up(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = serve


@contextlib.contextmanager
def failing(url: str, rng: random.Random, share: float) -> Iterator[str]:
    """Yield an address that leads to `url`, where this share of requests fails."""
    port = int(url.rpartition(":")[2])
    handler = type("Handler", (_Handler,), {"port": port, "rng": rng, "share": share})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
