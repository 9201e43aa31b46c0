"""Clients that request more than they read, or send less than they announced."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kqueue.api.request_context import RequestContext
from kqueue.broker.purgatory import DelayedOperation
from kqueue.tests.network.harness import API, LIMITS, Harness, MiB, network_harness, request_bytes, until
from kqueue.tests.network.test_session import heartbeat, produce_request, run, send_produce, settle, waits
from kqueue.wire.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from kqueue.wire.messages.produce import ProduceRequest, ProduceResponse, TopicProduceResponse


def big_responses(harness: Harness, size: int) -> list[int]:
    """Serve DescribeGroups with responses of about `size` bytes; return the list of started
    requests.
    """
    started: list[int] = []

    def handle(request: Any, call: RequestContext) -> DescribeGroupsResponse:
        started.append(len(started))
        return DescribeGroupsResponse(groups=[DescribedGroup(group_id="g" * 1000)] * (size // 1000))

    harness.serve("DescribeGroups", handle)
    return started


def test_client_that_does_not_read_is_paused_and_then_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        async with network_harness() as harness:
            started = big_responses(harness, 1 * MiB)
            client, _ = await harness.connect(receive_bytes=4096, send_bytes=4096)
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            for _ in range(50):
                client.send("DescribeGroups", 0, groups=["x"])
            await until(lambda: len(started) >= 2)
            await harness.pass_ms(20_000)
            assert len(started) <= 4, "from half of the limit on, requests stay unread"
            assert harness.gone == []
            await harness.pass_ms(12_000)
            await until(lambda: bool(harness.gone))

    run(test)
    [record] = caplog.records
    assert "it took no byte of its answers for 30000 ms" in record.getMessage()


@pytest.mark.long
def test_late_reader_receives_everything() -> None:
    async def test() -> None:
        async with network_harness() as harness:
            started = big_responses(harness, 1 * MiB)
            client, _ = await harness.connect(receive_bytes=4096, send_bytes=4096)
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            for number in range(20):
                client.send("DescribeGroups", 0, number, groups=["x"])
            await until(lambda: len(started) >= 2)
            await harness.pass_ms(10_000)
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]
            for number in range(20):
                assert (await client.receive("DescribeGroups", 0))[0] == number

    run(test)


def big_produce_responses(harness: Harness, size: int) -> list[int]:
    """Serve Produce with responses of about `size` bytes.

    The response is immediate or, with a topic's name, sent when this key is woken.

    Returns: the list of started requests.
    """
    started: list[int] = []
    response = ProduceResponse(responses=[TopicProduceResponse(name="t" * 1000)] * (size // 1000))

    def handle(request: ProduceRequest, call: RequestContext) -> ProduceResponse | DelayedOperation[ProduceResponse]:
        started.append(len(started))
        key = request.topic_data[0].name
        return DelayedOperation((key,), None, lambda expired: response) if key else response

    harness.serve("Produce", handle)
    return started


def test_responses_behind_a_delayed_one_count_as_memory() -> None:
    async def test() -> None:
        async with network_harness() as harness:
            started = big_produce_responses(harness, 1 * MiB)
            client, _ = await harness.connect()
            send_produce(client, "a")
            for _ in range(50):
                send_produce(client, "")
            await until(lambda: len(started) >= 2)
            await settle()
            assert len(started) <= 4
            harness.purgatory.wake("a")
            for _ in range(51):
                await client.receive("Produce", 9)

    run(test)


def test_stalled_request_closes_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with network_harness() as harness:
            harness.serve("Heartbeat", heartbeat)
            small, _ = await harness.connect()
            large, _ = await harness.connect()
            small.send_raw(b"\x00\x00")
            large.send_raw((1 * MiB).to_bytes(4, "big") + bytes(100_000))
            await until(lambda: harness.connections.request_budget.used == 100_000)
            await harness.pass_ms(29_000)
            large.send_raw(b"more")
            await until(lambda: harness.connections.request_budget.used == 100_004)
            await harness.pass_ms(2_000)
            await until(lambda: len(harness.gone) == 1)
            await harness.pass_ms(30_000)
            await until(lambda: len(harness.gone) == 2)
            assert await small.closed() == b""
            assert await large.closed() == b""
            assert harness.connections.request_budget.used == 0

    run(test)
    assert len(caplog.records) == 2
    assert all("it stopped in the middle of a request for 30000 ms" in record.getMessage() for record in caplog.records)


def test_idle_connection_is_closed_but_not_one_with_a_delayed_request() -> None:
    async def test() -> None:
        async with network_harness(LIMITS._replace(idle_ms=5_000)) as harness:
            harness.serve("Heartbeat", waits(harness))
            idle, _ = await harness.connect()
            waiting, session = await harness.connect()
            waiting.send("Heartbeat", 4, group_id="a", member_id="no deadline")
            await until(lambda: not session.is_idle)
            await harness.pass_ms(4_000)
            assert harness.gone == []
            await harness.pass_ms(3_000)
            assert await idle.closed() == b""
            assert len(harness.gone) == 1
            harness.purgatory.wake("a")
            await waiting.receive("Heartbeat", 4)
            await harness.pass_ms(4_000)
            assert len(harness.gone) == 1, "its own idle time begins with the answer"
            await harness.pass_ms(3_000)
            assert len(harness.gone) == 2

    run(test)


def test_large_requests_wait_for_memory_and_a_stalled_one_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with network_harness(LIMITS._replace(request_bytes_of_all=1 * MiB)) as harness:
            harness.serve("Produce", lambda request, call: ProduceResponse())
            stalled = [(await harness.connect())[0] for _ in range(3)]
            for client in stalled:
                client.send_raw((2 * MiB).to_bytes(4, "big") + bytes(600_000))
            await until(lambda: harness.connections.request_budget.used >= 1 * MiB)
            honest, _ = await harness.connect()
            honest.send_raw(request_bytes(API["Produce"], 9, produce_request(bytes(2 * MiB))))
            small, _ = await harness.connect()
            small.send_raw(request_bytes(API["Produce"], 9, produce_request(bytes(100))))
            await small.receive("Produce", 9)  # a request that needs no memory of its own never waits
            await until(lambda: harness.connections.request_budget.has_waiters)
            answer = asyncio.ensure_future(honest.receive("Produce", 9))
            async with asyncio.timeout(60):
                while not answer.done():
                    await harness.pass_ms(100)
                    await asyncio.sleep(0.001)
            assert harness.connections.request_budget.used <= 2 * MiB

    run(test)
    assert caplog.records
    assert all("slow to send its request while others wait" in record.getMessage() for record in caplog.records)


def test_unread_response_beyond_the_limit_closes_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        async with network_harness(LIMITS._replace(response_bytes=1 * MiB)) as harness:
            started = big_produce_responses(harness, 3 * MiB)
            client, _ = await harness.connect(receive_bytes=4096, send_bytes=4096)
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            for key in ("a", "b"):
                send_produce(client, key)
            await until(lambda: len(started) == 2)
            harness.purgatory.wake("a")
            await settle()
            assert harness.gone == [], "a single answer may be larger"
            harness.purgatory.wake("b")
            await until(lambda: bool(harness.gone))

    run(test)
    [record] = caplog.records
    assert "it does not read its answers" in record.getMessage()
