"""Clients that hold memory, against a whole server with small limits."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kqueue.app import Server
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.network.harness import API, KiB, MiB, connect, request_bytes, serving, until
from kqueue.tests.network.test_session import run
from kqueue.tests.network.test_session_limits import produce_request  # type: ignore[attr-defined]
from kqueue.wire.messages.create_topics import CreatableTopic

SOON_S = 60
"""For the test to end if nothing happens; it is done within seconds."""
SLOW_MS = 10_000
TOPICS = 200
STEP_MS = 1_000


async def make_topics(server: Server, count: int) -> None:
    topics = [
        CreatableTopic(name=f"topic-{number:04}", num_partitions=1, replication_factor=1) for number in range(count)
    ]
    await (await connect(server)).ask("CreateTopics", 4, topics=topics, timeout_ms=30_000)


async def pass_ms(server: Server, ms: int) -> None:
    """Advance the server's clock in steps, and run what becomes due in each."""
    for _ in range(0, ms, STEP_MS):
        server.clock.advance(STEP_MS)  # type: ignore[attr-defined]
        server.loop_driver.run_now()
        await asyncio.sleep(0)


@pytest.mark.long
def test_clients_that_do_not_read_share_one_limit_and_are_evicted(caplog: pytest.LogCaptureFixture) -> None:
    limit = 2 * MiB

    async def test() -> None:
        async with serving(
            kqueue_queued_max_response_bytes_total=limit,
            socket_send_buffer_bytes=4 * KiB,
            kqueue_slow_holder_timeout_ms=SLOW_MS,
            clock=ManualClock(),
        ) as server:
            await make_topics(server, TOPICS)
            for _ in range(30):
                hostile = await connect(server)
                hostile.writer.transport.pause_reading()  # type: ignore[attr-defined]
                for _ in range(60):
                    hostile.send("Metadata", 1, topics=None)
            await until(lambda: server.connections.response_budget.is_short, SOON_S)
            good = await connect(server)

            async def is_served() -> None:
                """At once while anything is free, else once the slowest are evicted."""
                async with asyncio.timeout(SOON_S):
                    asked = asyncio.ensure_future(good.ask("Metadata", 1, topics=None))
                    while not asked.done():
                        await pass_ms(server, STEP_MS)
                        await asyncio.sleep(0.001)  # the server's sockets and jobs have their turn
                    assert len((await asked).topics) == TOPICS
                assert server.connections.response_budget.used < limit + MiB

            sessions = len(server.connections.sessions)
            await is_served()
            await pass_ms(server, 2 * SLOW_MS)
            await is_served()
            assert len(server.connections.sessions) < sessions

    run(test)
    assert any("kqueue.queued.max.response.bytes.total" in record.getMessage() for record in caplog.records)


def test_large_request_completes_beside_slow_senders(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        limits = {"queued_max_request_bytes": 2 * MiB, "kqueue_slow_holder_timeout_ms": SLOW_MS}
        async with serving(**limits, clock=ManualClock()) as server:
            slow = [await connect(server) for _ in range(3)]
            for client in slow:
                client.send_raw((8 * MiB).to_bytes(4, "big") + bytes(MiB))
            await until(lambda: server.connections.request_budget.used > 2 * MiB, SOON_S)
            good = await connect(server)
            good.send_raw(request_bytes(API["Produce"], 9, produce_request(bytes(4 * MiB))))
            response = asyncio.ensure_future(good.receive("Produce", 9))
            async with asyncio.timeout(SOON_S):
                while not response.done():
                    for client in slow:
                        client.send_raw(bytes(300))
                    await pass_ms(server, STEP_MS)
                await response

    with caplog.at_level(logging.WARNING, "kqueue"):
        run(test)
    assert any("queued.max.request.bytes" in record.getMessage() for record in caplog.records)
