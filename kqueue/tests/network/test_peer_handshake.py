"""TLS handshakes with other brokers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from kqueue.security.certificates import write_private
from kqueue.tests.network.peer_harness import PeerHarness, ScriptedBroker, fetch, peered
from kqueue.tests.network.peer_tls_harness import (
    AUTHORITY,
    OTHER_AUTHORITY,
    TlsBroker,
    add,
    security,
    serve_echo,
)


def test_responses_larger_than_all_buffers_arrive_by_tls(tmp_path: Path) -> None:
    async def test(harness: PeerHarness) -> None:
        harness.peers.security = security(tmp_path)
        broker = TlsBroker(AUTHORITY.issue("CN=1", hosts=["127.0.0.1"]).pem, tmp_path, serve_echo)
        await add(harness, broker)
        for size in (1, 100_000, 3_000_000):
            response = await harness.send(fetch(size)).value()
            assert bytes(response.responses[0].partitions[0].records) == b"x" * size
        assert broker.connections == 1

    peered(test)


@pytest.mark.parametrize(
    ("pem", "host", "reason"),
    [
        (lambda: OTHER_AUTHORITY.issue("CN=1", hosts=["127.0.0.1"]).pem, "127.0.0.1", "not signed by an authority"),
        (lambda: AUTHORITY.issue("CN=1", hosts=["127.0.0.1"], days=-1).pem, "127.0.0.1", "expired"),
        (lambda: AUTHORITY.issue("CN=1", hosts=["kafka.example"]).pem, "127.0.0.1", "is not one of 127.0.0.1"),
        (lambda: AUTHORITY.issue("CN=1", hosts=["127.0.0.1"]).pem, "localhost", "is not one of localhost"),
    ],
    ids=["authority", "expired", "address", "name"],
)
def test_a_broker_that_is_not_the_expected_one_gets_no_request(
    pem: Callable[[], str], host: str, reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(harness: PeerHarness) -> None:
        harness.peers.security = security(tmp_path)
        broker = TlsBroker(pem(), tmp_path, serve_echo)
        await add(harness, broker, host)
        for _ in range(3):
            error = await harness.send(fetch()).error()
            assert reason in str(error)
            harness.pass_ms(2000)
        assert broker.requests == []

    caplog.set_level(logging.INFO, "kqueue")
    peered(test)
    lines = [record.getMessage() for record in caplog.records if record.name == "kqueue.server"]
    assert len(lines) == 1
    assert reason in lines[0]


def test_names_are_not_checked_where_a_setting_says_so(tmp_path: Path) -> None:
    async def test(harness: PeerHarness) -> None:
        harness.peers.security = security(tmp_path, **{"ssl.endpoint.identification.algorithm": ""})
        await add(harness, TlsBroker(AUTHORITY.issue("CN=1", hosts=["kafka.example"]).pem, tmp_path, serve_echo))
        await harness.send(fetch()).value()

    peered(test)


def test_nothing_is_sent_in_clear_to_a_listener_without_tls(tmp_path: Path) -> None:
    received = bytearray()

    async def record(broker: ScriptedBroker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.extend(await reader.read(65536))
        writer.write(b"\0\0\0\4\0\0\0\0")

    async def test(harness: PeerHarness) -> None:
        harness.peers.security = security(tmp_path, protocol="SASL_SSL")
        await harness.broker(record)
        error = await harness.send(fetch()).error()
        assert "does not speak TLS" in str(error)

    peered(test)
    assert received[0] == 0x16
    for text in (b"kqueue", b"broker", b"secret"):
        assert text not in received


def test_new_certificates_count_from_the_next_connection_on(tmp_path: Path) -> None:
    async def test(harness: PeerHarness) -> None:
        harness.peers.security = security(tmp_path)
        await add(harness, TlsBroker(OTHER_AUTHORITY.issue("CN=1", hosts=["127.0.0.1"]).pem, tmp_path, serve_echo))
        assert "not signed" in str(await harness.send(fetch()).error())
        write_private(tmp_path / "ca.pem", OTHER_AUTHORITY.certificate + AUTHORITY.certificate)
        harness.pass_ms(2000)
        await harness.send(fetch()).value()

    peered(test)
