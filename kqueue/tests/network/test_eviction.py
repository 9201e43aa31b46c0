from __future__ import annotations

import asyncio
import math
import socket
from typing import Any

import pytest

from kqueue.broker.purgatory import DelayedOperation
from kqueue.network.contract import MemoryHolding
from kqueue.network.eviction import (
    ThroughputMeter,
    select_slowest,
    unread_bytes,
)
from kqueue.tests.network.harness import API, LIMITS, Client, Harness, KiB, MiB, network_harness, request_bytes, until
from kqueue.tests.network.test_session import produce_request, run
from kqueue.tests.network.test_session_limits import big_responses
from kqueue.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kqueue.wire.messages.produce import ProduceResponse


def test_rate_is_known_after_two_samples_of_a_second() -> None:
    meter = ThroughputMeter(100, 0)
    meter.sample(200, 999)
    assert meter.holding(10, 10) is None
    meter.sample(1100, 1000)
    assert (meter.bytes_per_s, meter.holding(10, 10)) == (1000, None)
    meter.sample(1100, 2000)
    assert meter.holding(10, 2000) == MemoryHolding(10, 2000, 500, 4)
    still = ThroughputMeter(5, 0)
    still.sample(5, 1000)
    still.sample(5, 2000)
    holding = still.holding(1, 1)
    assert holding is not None and holding.remaining_s == math.inf  # noqa: PT018


def test_a_total_that_shrinks_is_a_rate_of_zero() -> None:
    """As of a TLS client that sends each byte in a record of its own, once these are decrypted."""
    meter = ThroughputMeter(100, 0)
    for second, total in enumerate((80, 60, 40), start=1):
        meter.sample(total, 1000 * second)
    holding = meter.holding(10, 10)
    assert holding == MemoryHolding(10, 10, 0, math.inf)


def test_slowest_connections_are_evicted_first_and_no_more_than_needed() -> None:
    holdings = {
        "fast": MemoryHolding(500, 100, 1000, 0.1),
        "slow": MemoryHolding(300, 100, 1, 100),
        "slower": MemoryHolding(200, 100, 0.1, 1000),
        "dead, little": MemoryHolding(10, 100, 0, math.inf),
        "dead, much": MemoryHolding(100, 100, 0, math.inf),
        "nothing held": MemoryHolding(0, 100, 0, math.inf),
        "not known": None,
    }

    def names(excess: int) -> list[Any]:
        return [name for name, _ in select_slowest(holdings, holdings.get, excess, 10)]  # type: ignore[arg-type, call-overload]

    assert names(0) == []
    assert names(1) == ["dead, much"]
    assert names(101) == ["dead, much", "dead, little"]
    assert names(111) == ["dead, much", "dead, little", "slower"]
    assert names(10**6) == ["dead, much", "dead, little", "slower", "slow"]


def test_unreceived_bytes_are_counted() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert unread_bytes(one) == 0
        other.send(b"abc")
        assert unread_bytes(one) in (0, 3)


async def answered(harness: Harness, answer: asyncio.Future[Any], seconds: int) -> Any:
    """Return the next response, which must arrive before this much time has passed."""
    for _ in range(seconds):
        await asyncio.wait([answer], timeout=0.1)
        if answer.done():
            break
        await harness.pass_second()
    return await asyncio.wait_for(answer, 60)


async def take(client: Client, count: int) -> None:
    """Read a few bytes, as a slow reader does."""
    client.writer.transport.resume_reading()  # type: ignore[attr-defined]
    if client.reader._buffer:  # type: ignore[attr-defined]
        await client.reader.read(count)
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]


def test_unread_responses_stay_within_the_limit_and_the_slowest_are_evicted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limit, answer = 8 * MiB, 256 * KiB

    async def test() -> None:
        async with network_harness(LIMITS._replace(response_bytes_of_all=limit)) as harness:
            big_responses(harness, answer)
            hostile = []
            for _ in range(40):
                client, _ = await harness.connect(receive_bytes=4096, send_bytes=4096)
                client.writer.transport.pause_reading()  # type: ignore[attr-defined]
                for _ in range(20):
                    client.send("DescribeGroups", 0, groups=["x"])
                hostile.append(client)
            await until(lambda: harness.connections.response_budget.is_short)
            good, _ = await harness.connect()
            for _ in range(6):
                await harness.pass_second()
                for client in hostile:
                    await take(client, 10)
                assert harness.connections.response_budget.used <= limit + answer
            for _ in range(5):
                asked = asyncio.ensure_future(good.ask("DescribeGroups", 0, groups=["x"]))
                await answered(harness, asked, seconds=5)
            assert harness.gone

        assert harness.connections.response_budget.used == 0

    run(test)
    assert caplog.records
    assert all(
        "slow to take its answers while memory for them is short" in record.getMessage() for record in caplog.records
    )
    assert all("kqueue.queued.max.response.bytes.total" in record.getMessage() for record in caplog.records)


def test_fast_reader_is_not_evicted_however_many_bytes_are_queued() -> None:
    async def test() -> None:
        async with network_harness(LIMITS._replace(response_bytes=16 * MiB, response_bytes_of_all=2 * MiB)) as harness:
            big_responses(harness, 4 * MiB)
            client, _ = await harness.connect(receive_bytes=64 * KiB, send_bytes=64 * KiB)
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            client.send("DescribeGroups", 0, groups=["x"])
            await until(lambda: harness.connections.response_budget.is_short)
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]
            size = 4 + int.from_bytes(await client.reader.readexactly(4), "big")
            received = 4
            while received < size:
                received += len(await client.reader.readexactly(min(MiB, size - received)))
                await harness.pass_second()
            assert harness.gone == []
            assert harness.connections.response_budget.used == 0

    run(test)


def test_fast_sender_completes_while_slow_senders_hold_the_memory(caplog: pytest.LogCaptureFixture) -> None:
    size = 3 * MiB

    async def test() -> None:
        async with network_harness(LIMITS._replace(request_bytes_of_all=4 * MiB)) as harness:
            harness.serve("Produce", lambda request, call: ProduceResponse())
            slow = [(await harness.connect())[0] for _ in range(12)]
            for client in slow:
                client.send_raw(size.to_bytes(4, "big") + bytes(500_000))
            await until(lambda: harness.connections.request_budget.has_waiters)
            fast, _ = await harness.connect()
            fast.send_raw(request_bytes(API["Produce"], 9, produce_request(bytes(size - 100))))
            answer = asyncio.ensure_future(fast.receive("Produce", 9))
            for _ in range(9):
                for client in slow:
                    client.send_raw(bytes(6000))
                await asyncio.wait([answer], timeout=0.2)
                if answer.done():
                    break
                await harness.pass_second()
            await asyncio.wait_for(answer, 60)
            assert harness.gone

        assert harness.connections.request_budget.used == 0

    run(test)
    assert all(
        "it is slow to send its request while others wait for room" in record.getMessage() for record in caplog.records
    )


def test_sender_waiting_for_memory_is_not_slow() -> None:
    async def test() -> None:
        async with network_harness(LIMITS._replace(request_bytes_of_all=1 * MiB)) as harness:
            harness.serve("Produce", lambda request, call: ProduceResponse())
            blocking = [await harness.connect() for _ in range(3)]
            for client, _ in blocking:
                client.send_raw((3 * MiB).to_bytes(4, "big") + bytes(500_000))
            await until(lambda: harness.connections.request_budget.used > MiB)
            ready, session = await harness.connect()
            ready.send_raw(request_bytes(API["Produce"], 9, produce_request(bytes(3 * MiB))))
            await until(lambda: session._waits_for_memory)
            for _ in range(8):
                await harness.pass_second()
            assert 0 < len(harness.gone) <= 3
            assert (await ready.receive("Produce", 9))[1] == ProduceResponse()

    run(test)


def test_waiting_request_counts_as_memory_and_is_evicted_after_a_timeout() -> None:
    async def test() -> None:
        async with network_harness(LIMITS._replace(request_bytes_of_all=200 * KiB)) as harness:
            harness.serve(
                "Heartbeat", lambda request, call: DelayedOperation((1,), None, lambda expired: HeartbeatResponse())
            )
            client, session = await harness.connect()
            client.send_raw(request_bytes(API["Heartbeat"], 4, HeartbeatRequest(group_id="g" * 20_000)))
            await until(lambda: harness.connections.request_budget.used > 60_000)
            assert session.request_memory() is None
            await harness.pass_ms(9_000)
            assert session.request_memory() is None
            await harness.pass_ms(2_000)
            holding = session.request_memory()
            assert holding is not None
            assert (holding.held_bytes, holding.remaining_s) == (harness.connections.request_budget.used, math.inf)
            harness.purgatory.wake(1)
            await client.receive("Heartbeat", 4)
            assert (harness.connections.request_budget.used, session.request_memory()) == (0, None)

    run(test)
