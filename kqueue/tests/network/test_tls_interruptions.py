"""Connections with TLS that end, stall or meet a reload where they should not: in the middle of a
handshake, of a record, of a response.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kqueue.app import Server
from kqueue.network import tls_handshakes
from kqueue.security.certificates import write_private
from kqueue.tests.network.harness import API, request_bytes, until
from kqueue.tests.network.tls_harness import (
    NAMES,
    authority,
    broker_pair,
    client_context,
    connect_tls,
    handshakes,
    run,
    serving_tls,
)

REQUEST = request_bytes(API["ApiVersions"], 0, API["ApiVersions"].request_class())


class RawTls:
    """A client that sends what it wants of its TLS messages, and when."""

    def __init__(self, server: Server) -> None:
        self.socket = socket.create_connection(server.bound("SSL"))
        self.socket.setblocking(False)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = client_context().wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def next_flight(self) -> bytes:
        """Return what TLS has to send; empty: the handshake is done."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self.outgoing.read()

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.socket, data)

    async def receive(self) -> None:
        self.incoming.write(await asyncio.wait_for(asyncio.get_running_loop().sock_recv(self.socket, 65_536), 60))

    async def handshake(self) -> None:
        while data := self.next_flight():
            await self.send(data)
            if self.tls.version() is not None and not self.is_waiting():
                return
            await self.receive()

    def is_waiting(self) -> bool:
        """Whether the handshake needs more of the server."""
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return True
        return False

    def kill(self) -> None:
        """End it as a client that is killed, or a network that is cut: by a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@contextlib.asynccontextmanager
async def nothing_left(server: Server) -> AsyncIterator[None]:
    """Check that what happens in the block leaves no connection and no descriptor behind, and that
    another client is served meanwhile and after it.
    """
    other = await connect_tls(server)
    await other.ask("ApiVersions", 0)
    before = descriptors()
    yield
    await other.ask("ApiVersions", 0)
    await until(lambda: handshakes(server) == 0 and len(server.connections.sessions) == 1)
    await until(lambda: descriptors() <= before)
    await (await connect_tls(server)).close()
    await other.close()


def test_a_client_that_is_killed_in_its_handshake_leaves_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with serving_tls() as server, nothing_left(server):
            for flights in (0, 1):
                for share in (0.01, 0.5, 1):
                    client = RawTls(server)
                    for _ in range(flights):
                        await client.send(client.next_flight())
                        await client.receive()
                    data = client.next_flight()
                    assert data
                    await client.send(data[: max(1, int(len(data) * share))])
                    await asyncio.sleep(0.002)
                    client.kill()

    run(test)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_refused_client_reads_the_reason_and_no_reset() -> None:
    """It has sent all of its handshake when the broker refuses the part with its certificate."""

    async def test() -> None:
        async with serving_tls(ssl_client_auth="required") as server:
            client = RawTls(server)
            await client.handshake()
            received = b""
            while data := await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client.socket, 65_536), 60):
                received += data
            client.incoming.write(received)
            with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
                client.tls.read()
            client.socket.close()

    run(test)


def test_a_client_that_is_killed_in_a_record_leaves_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with serving_tls() as server, nothing_left(server):
            for share in (0.05, 0.5, 0.95):
                client = RawTls(server)
                await client.handshake()
                client.tls.write(REQUEST)
                data = client.outgoing.read()
                await client.send(data[: int(len(data) * share)])
                await until(lambda: len(server.connections.sessions) == 2)
                client.kill()
                await until(lambda: len(server.connections.sessions) == 1)

    run(test)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_client_that_is_killed_while_it_is_answered_leaves_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with serving_tls() as server, nothing_left(server):
            client = RawTls(server)
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await client.handshake()
            for _ in range(50):  # of which the answers do not fit into the buffers
                client.tls.write(REQUEST)
            await client.send(client.outgoing.read())
            await asyncio.sleep(0.01)
            client.kill()

    run(test)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_handshakes_under_way_outlive_a_reload(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "broker.pem"
    new = authority().issue("CN=broker", hosts=NAMES)

    def der(pem: str) -> bytes:
        return ssl.PEM_cert_to_DER_cert(pem)

    async def test() -> None:
        write_private(file, broker_pair().pem)
        async with serving_tls(ssl_keystore_location=str(file), kqueue_tls_reload_interval_ms=20) as server:
            clients = [RawTls(server) for _ in range(3)]
            flights = [client.next_flight() for client in clients]
            await clients[1].send(flights[1][:50])
            await clients[2].send(flights[2])
            await until(lambda: handshakes(server) == 3)
            await clients[2].receive()
            write_private(file, new.pem)
            await until(lambda: "listener SSL uses its new key store or trust store" in caplog.text)
            await clients[0].send(flights[0])
            await clients[1].send(flights[1][50:])
            for client in clients:
                if client is not clients[2]:
                    await client.receive()
                await client.handshake()
                assert client.tls.getpeercert(binary_form=True) == der(broker_pair().certificate)
            await until(lambda: len(server.connections.sessions) == 3 and handshakes(server) == 0)
            late = RawTls(server)
            await late.handshake()
            assert late.tls.getpeercert(binary_form=True) == der(new.certificate)
            for client in (*clients, late):
                client.kill()

    with caplog.at_level(logging.INFO, "kqueue.server"):
        run(test)


def test_begun_handshakes_that_stall_are_closed_for_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls_handshakes, "PATIENCE_MS", 20)

    async def test() -> None:
        async with serving_tls(kqueue_tls_max_handshakes=20, max_connections=10_000) as server:
            stalled = []
            for number in range(300):
                client = RawTls(server)
                data = client.next_flight()
                await client.send(data if number % 2 else data[:100])
                stalled.append(client)
            other = await asyncio.wait_for(connect_tls(server), 60)
            await other.ask("ApiVersions", 0)
            assert handshakes(server) <= 20
            await other.close()
            for client in stalled:
                client.socket.close()
            await until(lambda: handshakes(server) == 0)

    run(test)
    assert "too many TLS handshakes are under way" in caplog.text
