from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl

import pytest
from kafka import KafkaConsumer, KafkaProducer

import kqueue
from kqueue.tests.network.harness import API, KiB, MiB, request_bytes, until
from kqueue.tests.network.tls_harness import (
    broker_pair,
    client_context,
    connect_tls,
    run,
    serving_tls,
)
from kqueue.tests.tables import for_each


@for_each("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_client_is_served(version: ssl.TLSVersion) -> None:
    async def test() -> None:
        context = client_context()
        context.minimum_version = context.maximum_version = version
        async with serving_tls() as server:
            client = await connect_tls(server, context)
            for _ in range(3):
                assert (await client.ask("ApiVersions", 0)).error_code == 0
            await client.close()
            await until(lambda: not server.connections.sessions)

    run(test)


def test_a_pipeline_of_requests_in_one_record_is_answered() -> None:
    """What is decrypted already is served although the selector reports nothing."""

    async def test() -> None:
        async with serving_tls(queued_max_requests=2) as server:
            client = await connect_tls(server)
            api = API["Metadata"]
            one = request_bytes(api, 9, api.request_class(topics=None))
            for _ in range(5):
                client.send_raw(one * 300)
                for _ in range(300):
                    await asyncio.wait_for(client.frame(), 60)
            await client.close()

    run(test)


def test_large_requests_and_responses_pass() -> None:
    """Produce 8 MiB in batches as large as they may be, and read them from the file."""

    with kqueue.Broker(
        settings={
            "listeners": "SSL://127.0.0.1:0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": broker_pair().certificate,
            "ssl.keystore.key": broker_pair().key,
        }
    ) as broker:
        context = client_context()
        producer = KafkaProducer(
            bootstrap_servers=broker.bootstrap, security_protocol="SSL", ssl_context=context, max_request_size=2 * MiB
        )
        values = [bytes([number]) * 900 * KiB for number in range(20)]
        for value in values:
            producer.send("t", value)
        producer.flush()
        producer.close()
        consumer = KafkaConsumer(
            "t",
            bootstrap_servers=broker.bootstrap,
            security_protocol="SSL",
            ssl_context=context,
            auto_offset_reset="earliest",
            consumer_timeout_ms=5000,
            fetch_max_bytes=50 * MiB,
            max_partition_fetch_bytes=20 * MiB,
        )
        read = []
        for record in consumer:
            read.append(record.value)
            if len(read) == len(values):
                break
        consumer.close()
        assert read == values


def test_close_tells_the_client_that_it_is_the_end() -> None:
    """A client of an orderly stop sees TLS's own end, no truncation."""

    def ask(address: tuple[str, int]) -> bytes:
        with socket.create_connection(address) as plain:
            context = client_context()
            with context.wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False) as tls:
                tls.settimeout(60)
                return tls.recv(1)

    async def test() -> None:
        async with serving_tls() as server:
            asked = asyncio.get_running_loop().run_in_executor(None, ask, server.bound("SSL"))
            await until(lambda: len(server.connections.sessions) == 1)
        assert await asked == b""

    run(test)


def test_forged_record_closes_its_connection_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with serving_tls() as server:
            client, other = await connect_tls(server), await connect_tls(server)
            await client.ask("ApiVersions", 0)
            plain = other.writer.get_extra_info("socket")
            os.write(plain.fileno(), b"\x17\x03\x03\x00\x40" + b"x" * 64)
            with contextlib.suppress(OSError):
                assert await other.closed() == b""
            await client.ask("ApiVersions", 0)
            assert len(server.connections.sessions) == 1
            await client.close()
            with contextlib.suppress(OSError):
                await other.close()

    with caplog.at_level(logging.INFO, "kqueue.server"):
        run(test)
    assert "lost the connection of 127.0.0.1" in caplog.text


def test_suspended_connection_continues_with_what_came_meanwhile() -> None:
    async def test() -> None:
        async with serving_tls() as server:
            client = await connect_tls(server)
            await client.ask("ApiVersions", 0)
            [session] = server.connections.sessions
            session.suspend_io()
            for _ in range(20):
                client.send("ApiVersions", 0)
            answer = asyncio.create_task(client.frame())
            await asyncio.wait([answer], timeout=0.1)
            assert not answer.done()
            session.resume_io()
            await asyncio.wait_for(answer, 60)
            for _ in range(19):
                await asyncio.wait_for(client.frame(), 60)
            await client.close()

    run(test)
