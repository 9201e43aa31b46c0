from __future__ import annotations

import socket
import threading
import urllib.request

import pytest

from kqueue import Broker
from kqueue.base.errors import ListenFailed
from kqueue.client import ClientOptions
from kqueue.console.options import ConsoleOptions
from kqueue.console.server import ConsoleServer


def test_a_console_serves_over_a_socket_until_it_is_stopped(broker: Broker) -> None:
    server = ConsoleServer(ConsoleOptions(client=ClientOptions(bootstrap=broker.bootstrap), port=0))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        with urllib.request.urlopen(server.url, timeout=20) as response:
            assert response.status == 200
            assert "server" not in response.headers
            assert b"Overview" in response.read()
    finally:
        server.stop()
        thread.join(20)
    assert not thread.is_alive()


def test_an_address_in_use_is_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ListenFailed, match=f"can't listen on 127.0.0.1:{port}"):
            ConsoleServer(ConsoleOptions(client=ClientOptions(bootstrap="127.0.0.1:1"), port=port))


def test_a_certificate_that_is_missing_is_an_error() -> None:
    options = ConsoleOptions(
        client=ClientOptions(bootstrap="127.0.0.1:1"), port=0, tls_cert="/no/cert.pem", tls_key="/no/key.pem"
    )
    with pytest.raises(OSError, match="No such file"):
        ConsoleServer(options)
