"""Connections that end: malformed or failing requests, disconnects and the stop."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kqueue.api.request_context import RequestContext
from kqueue.base.errors import CoordinatorNotAvailable
from kqueue.broker.purgatory import DelayedOperation
from kqueue.tests.network.harness import (
    API,
    MiB,
    framed,
    network_harness,
    request_bytes,
    until,
)
from kqueue.tests.network.test_session import (
    heartbeat,
    produce_waits,
    run,
    send_produce,
)
from kqueue.wire.messages.api_versions import ApiVersionsResponse
from kqueue.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff\xff\xff\xff", "found -1"),
        (b"\x7f\xff\xff\xff", "found 2147483647"),
        ((4 * MiB + 1).to_bytes(4, "big"), f"found {4 * MiB + 1}"),
        (b"GET / HTTP/1.1\r\n", "it speaks HTTP"),
        (b"\x16\x03\x01\x02\x00", "it speaks TLS"),
        (framed(b""), "found 0 bytes"),
        (framed(b"\x00\x0c\x00\x04"), "Header"),
        (framed(b"\x03\xe7\x00\x00\x00\x00\x00\x01\xff\xff"), "no API with key 999"),
        (framed(b"\x00\x0c\x00\x63\x00\x00\x00\x01\xff\xff"), "version 99"),
        (request_bytes(API["Heartbeat"], 4, HeartbeatRequest())[:3] + b"\x00" + b"\x00" * 20, ""),
    ],
)
def test_malformed_request_closes_the_connection_with_one_line(
    data: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with network_harness() as harness:
            harness.serve("Heartbeat", heartbeat)
            neighbour, _ = await harness.connect()
            client, _ = await harness.connect()
            client.send_raw(data)
            assert await client.closed() == b""
            assert (await neighbour.ask("Heartbeat", 4, generation_id=8)).throttle_time_ms == 8

    with caplog.at_level(logging.INFO, "kqueue"):
        run(test)
    [record] = caplog.records
    assert reason in record.getMessage()
    assert "closed the connection of 127.0.0.1:" in record.getMessage()


def test_valid_requests_before_a_malformed_one_get_responses(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with network_harness() as harness:
            harness.serve("Heartbeat", heartbeat)
            client, _ = await harness.connect()
            client.send("Heartbeat", 4, generation_id=1)
            client.send_raw(framed(request_bytes(API["Heartbeat"], 4, HeartbeatRequest())[4:-1]))
            await client.receive("Heartbeat", 4)
            assert await client.closed() == b""

    run(test)
    [record] = caplog.records
    assert "closed the connection of 127.0.0.1:" in record.getMessage()


def test_trailing_bytes_of_a_request_are_ignored() -> None:
    """Kafka does so, and librdkafka's Metadata request for all topics leaves three."""

    async def test() -> None:
        async with network_harness() as harness:
            harness.serve("Heartbeat", heartbeat)
            client, _ = await harness.connect()
            client.send_raw(
                framed(request_bytes(API["Heartbeat"], 4, HeartbeatRequest(generation_id=7))[4:] + b"\1\0\0")
            )
            assert (await client.receive("Heartbeat", 4))[1].throttle_time_ms == 7

    run(test)


def test_uncaught_kafka_error_becomes_an_error_response() -> None:
    async def test() -> None:
        async with network_harness() as harness:

            def refuse(request: HeartbeatRequest, call: RequestContext) -> HeartbeatResponse:
                raise CoordinatorNotAvailable("try again")

            harness.serve("Heartbeat", refuse)
            client, _ = await harness.connect()
            assert (await client.ask("Heartbeat", 4)).error_code == 15

    run(test)


@pytest.mark.parametrize("late", [False, True])
def test_unexpected_error_is_logged_once_and_returned_to_the_client(
    late: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with network_harness() as harness:

            def bug(*_: object) -> HeartbeatResponse:
                raise ZeroDivisionError("a bug")

            harness.serve("Heartbeat", (lambda request, call: DelayedOperation(("k",), None, bug)) if late else bug)
            client, _ = await harness.connect()
            client.send("Heartbeat", 4)
            await asyncio.sleep(0)
            await until(lambda: bool(caplog.records) or len(harness.purgatory) == 1)
            harness.purgatory.wake("k")
            assert (await client.receive("Heartbeat", 4))[1].error_code == -1
            harness.serve("Heartbeat", heartbeat)

    run(test)
    [record] = caplog.records
    assert record.exc_info is not None
    assert "Heartbeat version 4 of 127.0.0.1:" in record.getMessage()


def test_newer_api_versions_request_is_dispatched_with_its_version() -> None:
    async def test() -> None:
        async with network_harness() as harness:
            versions = []
            harness.serve(
                "ApiVersions",
                lambda request, call: versions.append(call.api_version) or ApiVersionsResponse(error_code=35),
            )
            client, _ = await harness.connect()
            client.send_raw(framed(b"\x00\x12\x00\x09\x00\x00\x00\x05\xff\xff\x00" + b"who knows"))
            assert await client.receive("ApiVersions", 0) == (5, ApiVersionsResponse(error_code=35))
            assert versions == [9]

    run(test)


def test_stop_reading_starts_nothing_and_expire_ends_delayed_requests() -> None:
    async def test() -> None:
        async with network_harness() as harness:
            started: list[int] = []
            produce_waits(harness, started)
            client, session = await harness.connect()
            send_produce(client, "a", 1)
            send_produce(client, "!a", 2)
            await until(lambda: len(harness.purgatory) == 2)
            session.stop_reading()
            session.expire()
            harness.connections.flush()
            send_produce(client, "", 3)
            assert (await client.receive("Produce", 9))[0] == 1
            assert not session.is_idle
            harness.purgatory.wake("!a")
            assert (await client.receive("Produce", 9))[0] == 2
            assert session.is_idle
            session.close()
            assert await client.closed() == b""
            assert started == [1, 2]

    run(test)


def test_disconnect_within_a_request_logs_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with network_harness() as harness:
            client, _ = await harness.connect()
            client.send_raw(request_bytes(API["Heartbeat"], 4, HeartbeatRequest())[:-1])
            await client.close()
            await until(lambda: bool(harness.gone))

    with caplog.at_level(logging.INFO, "kqueue"):
        run(test)
    [record] = caplog.records
    assert "it ended in the middle of a request" in record.getMessage()


def test_disconnect_between_requests_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with network_harness() as harness:
            harness.serve("Heartbeat", heartbeat)
            client, _ = await harness.connect()
            await client.ask("Heartbeat", 4)
            await client.close()
            await until(lambda: bool(harness.gone))

    with caplog.at_level(logging.INFO, "kqueue"):
        run(test)
    assert caplog.records == []
