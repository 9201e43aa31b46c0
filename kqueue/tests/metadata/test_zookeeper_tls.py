"""Tests of connections to ZooKeeper by TLS; `compat_tests/zookeeper/test_tls.py` has servers."""

from __future__ import annotations

import socket
import ssl
import threading

import pytest

from kqueue.embedded.development_certificates import DevelopmentCertificates

pytest.importorskip("kazoo")


def serve(listening: socket.socket, context: ssl.SSLContext) -> None:
    """Answer each connection with two frames in one record."""
    for _ in range(2):
        plain, _ = listening.accept()
        try:
            with context.wrap_socket(plain, server_side=True) as connection:
                connection.sendall(b"onetwo")
                connection.recv(1)
        except OSError:
            plain.close()


def test_bytes_that_are_decrypted_already_are_ready() -> None:
    from kqueue.metadata.zookeeper_tls import TlsHandler

    certificates = DevelopmentCertificates(["localhost"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.broker_file())
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=serve, args=(listening, context), daemon=True)
        server.start()
        trusting = ssl.create_default_context(cafile=certificates.authority_file)
        handler = TlsHandler(lambda plain, host: trusting.wrap_socket(plain, server_hostname=host))
        address = listening.getsockname()
        with pytest.raises(OSError, match="certificate"):
            handler.create_connection(address=address, hostname="127.0.0.1", timeout=60)
        assert "127.0.0.1" in handler.failure
        with handler.create_connection(address=address, hostname="localhost", timeout=60) as connection:
            assert handler.failure == ""
            assert handler.select([connection], [], [], 10)[0] == [connection]
            assert connection.recv(3) == b"one"
            assert handler.select([connection], [], [], 0)[0] == [connection], "the rest waits in memory"
            assert connection.recv(3) == b"two"
            connection.sendall(b"x")
        server.join(60)
