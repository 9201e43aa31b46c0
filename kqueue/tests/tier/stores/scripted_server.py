"""An HTTP server that answers as a test says, as an object store that fails would."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

CONDITIONS = ("If-Match", "If-None-Match", "Range", "x-goog-if-generation-match")


class Answer(NamedTuple):
    """One answer. `missing`: so many bytes of the body are announced and not sent."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = (("ETag", '"1"'), ("Last-Modified", "Sat, 28 Nov 2026 22:43:08 GMT"))
    missing: int = 0


def failure(status: int, code: str) -> Answer:
    """An error as S3 sends it."""
    return Answer(status, f"<Error><Code>{code}</Code><Message>Said so</Message></Error>".encode())


class ScriptedServer:
    """Answers requests in the order of `answers`, then each with 200.

    `requests`: method, path with query, and the headers of conditions, of what was asked.
    """

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.requests: list[str] = []
        self.address = ""

    def url(self, bucket: str = "bucket/p") -> str:
        """The URL of a store at this server, with keys."""
        keys = "access_key_id=AKIATEST&secret_access_key=hunter2"
        return f"s3://{bucket}?endpoint=http://{self.address}&timeout=5s&{keys}"


@contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    """Run a server on a free port."""
    script = ScriptedServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            conditions = [f"{name}: {self.headers[name]}" for name in CONDITIONS if self.headers[name]]
            script.requests.append(" ".join([self.command, self.path, *conditions]))
            answer = script.answers.pop(0) if script.answers else Answer()
            self.send_response(answer.status)
            for name, value in answer.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body) + answer.missing))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)
            if answer.missing:
                self.close_connection = True

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    script.address = f"127.0.0.1:{server.server_address[1]}"
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
