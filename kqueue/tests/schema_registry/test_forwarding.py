from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from kqueue.schema_registry import forwarding
from kqueue.schema_registry.errors import RegistryError
from kqueue.schema_registry.forwarding import HttpForwarder
from kqueue.schema_registry.rest.contract import ForwardedRequest

REQUEST = ForwardedRequest(
    "POST",
    "/subjects/a%2Fb/versions?normalize=true",
    {"x-forward": "false", "authorization": "Basic x", "accept-encoding": "gzip"},
    b'{"a":1}',
)


class LeaderServer(HTTPServer):
    """A leader that keeps what it is sent, and answers with `status`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), LeaderHandler)
        self.status = 200
        self.seen: list[dict[str, Any]] = []


class LeaderHandler(BaseHTTPRequestHandler):
    server: LeaderServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.seen.append({"path": self.path, "headers": dict(self.headers), "body": body})
        self.send_response(self.server.status)
        self.send_header("content-type", "application/vnd.schemaregistry.v1+json")
        self.end_headers()
        self.wfile.write(b'{"id":1}')

    do_DELETE = do_POST

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def leader() -> Iterator[LeaderServer]:
    with LeaderServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def url(server: LeaderServer) -> str:
    return f"http://127.0.0.1:{server.server_port}"


@pytest.mark.parametrize("status", [200, 409, 422, 500])
def test_the_answer_is_passed_on_whatever_its_status(leader: LeaderServer, status: int) -> None:
    leader.status = status
    answer = HttpForwarder().forward(url(leader), REQUEST)
    assert answer == (status, "application/vnd.schemaregistry.v1+json", b'{"id":1}')
    [seen] = leader.seen
    assert (seen["path"], seen["body"]) == (REQUEST.path, REQUEST.body)
    headers = {name.lower(): value for name, value in seen["headers"].items()}
    assert (headers["authorization"], headers["x-forward"]) == ("Basic x", "false")
    assert headers["accept-encoding"] == "identity"


def test_a_leader_that_is_gone_is_an_error_with_its_address() -> None:
    with pytest.raises(RegistryError, match=r"http://127\.0\.0\.1:1 did not answer a forwarded request") as raised:
        HttpForwarder().forward("http://127.0.0.1:1", REQUEST)
    assert raised.value.code == 50003


def test_an_answer_that_is_too_long_is_an_error(leader: LeaderServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "ANSWER_BYTES_MAX", 4)
    with pytest.raises(RegistryError, match="expected at most 4 bytes"):
        HttpForwarder().forward(url(leader), REQUEST)
