"""Requests to identity providers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.error import URLError
from urllib.request import Request

import pytest

from kqueue.config.http_client import HttpOptions, exchange, read_url
from kqueue.tests.tables import for_each


@contextmanager
def dripping(begin: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> Iterator[str]:
    """Serve one answer whose end never comes; yields its URL."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.recv(4096)
                connection.sendall(begin)
                while not stop.wait(0.01):
                    connection.sendall(b"x")

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        finally:
            stop.set()
            thread.join()


@pytest.mark.long
@for_each(
    "begin",
    [
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: ",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;",
        b"HTT",
    ],
)
def test_an_answer_that_never_ends_is_given_up(begin: bytes) -> None:
    with dripping(begin) as url, pytest.raises((TimeoutError, URLError), match="did not end in time"):
        read_url(Request(url), HttpOptions(1_000_000, 1))


@for_each("begin", [b"\xff\0garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200])
def test_an_answer_that_is_no_http_is_an_error(begin: bytes) -> None:
    with dripping(begin) as url, pytest.raises(OSError, match="the answer is no HTTP: "):
        read_url(Request(url), HttpOptions(1_000_000, 30))


def test_an_answer_that_is_too_long_is_refused() -> None:
    with dripping() as url, pytest.raises(ValueError, match="at most 3 bytes"):
        read_url(Request(url), HttpOptions(3, 30))


@for_each("status", [b"200 OK", b"404 Not Found", b"500 Oops"])
def test_an_exchange_returns_the_answer_whatever_its_status(status: bytes) -> None:
    answer = b"HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok" % status
    with dripping(answer) as url:
        received = exchange(Request(url), HttpOptions(100, 30.0))
    assert received == (int(status[:3]), "text/plain", b"ok")


def test_an_exchange_bounds_the_answer() -> None:
    answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 1000\r\n\r\n" + bytes(1000)
    with dripping(answer) as url, pytest.raises(ValueError, match="expected at most 100 bytes"):
        exchange(Request(url), HttpOptions(100, 30.0))
