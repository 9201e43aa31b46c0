from __future__ import annotations

import asyncio
import logging
import socket
import threading
import urllib.request
from typing import Any

import pytest

from kqueue.base.errors import ListenFailed
from kqueue.web.http_server import HttpServer, _is_no_cancellation


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        raise RuntimeError("no lifespan")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def test_an_application_is_served_until_the_stop() -> None:
    server = HttpServer(app, "127.0.0.1", 0)
    assert server.url == f"http://127.0.0.1:{server.port}"
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        with urllib.request.urlopen(server.url, timeout=20) as response:
            assert (response.status, response.read()) == (200, b"ok")
            assert "server" not in response.headers
    finally:
        server.stop()
        thread.join(20)
    assert not thread.is_alive()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", server.port))


def test_a_stop_before_the_run_ends_it_at_once() -> None:
    server = HttpServer(app, "127.0.0.1", 0)
    server.stop()
    server.run()


def test_an_address_in_use_is_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ListenFailed, match=f"can't listen on 127.0.0.1:{port}"):
            HttpServer(app, "127.0.0.1", port)


def test_a_host_that_does_not_exist_is_a_sentence() -> None:
    with pytest.raises(ListenFailed, match="can't listen on no.such.host.invalid:0"):
        HttpServer(app, "no.such.host.invalid", 0)


def test_a_certificate_that_is_missing_is_an_error() -> None:
    with pytest.raises(OSError, match="No such file"):
        HttpServer(app, "127.0.0.1", 0, tls_cert="/no/cert.pem", tls_key="/no/key.pem")


def test_requests_that_are_cancelled_at_the_stop_are_no_errors_in_the_log() -> None:
    def record(message: str, error: BaseException | None = None) -> logging.LogRecord:
        exc_info = None if error is None else (type(error), error, None)
        return logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, message, (), exc_info)

    assert not _is_no_cancellation(record("Exception in ASGI application", asyncio.CancelledError()))
    assert not _is_no_cancellation(record("Cancel 1 running task(s), timeout graceful shutdown exceeded"))
    assert _is_no_cancellation(record("Exception in ASGI application", ValueError()))
    assert _is_no_cancellation(record("Invalid HTTP request received."))
