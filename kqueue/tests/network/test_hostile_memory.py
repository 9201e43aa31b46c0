"""Clients that hold memory, against a whole server on the system clock with small limits."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from kqueue.app import Server
from kqueue.tests.network.harness import API, KiB, MiB, connect, request_bytes, serving, until
from kqueue.tests.network.test_session import run
from kqueue.tests.network.test_session_limits import produce_request  # type: ignore[attr-defined]
from kqueue.wire.messages.create_topics import CreatableTopic

SOON_S = 30
"""For the test to end if nothing happens; it is done within seconds."""


async def make_topics(server: Server, count: int) -> None:
    topics = [
        CreatableTopic(name=f"topic-{number:04}", num_partitions=1, replication_factor=1) for number in range(count)
    ]
    await (await connect(server)).ask("CreateTopics", 4, topics=topics, timeout_ms=30_000)


async def keeps_alive(clients: list[Any]) -> None:
    """Send or read a little at intervals on each connection, until cancelled."""
    while True:
        for client in clients:
            client.send_raw(bytes(300))
        await asyncio.sleep(0.05)


def test_clients_that_do_not_read_share_one_limit_and_are_evicted(caplog: pytest.LogCaptureFixture) -> None:
    limit = 2 * MiB

    async def test() -> None:
        async with serving(
            kqueue_queued_max_response_bytes_total=limit,
            socket_send_buffer_bytes=4 * KiB,
            kqueue_slow_holder_timeout_ms=1000,
        ) as server:
            await make_topics(server, 200)
            for _ in range(30):
                hostile = await connect(server)
                hostile.writer.transport.pause_reading()  # type: ignore[attr-defined]
                for _ in range(200):
                    hostile.send("Metadata", 1, topics=None)
            await until(lambda: server.connections.response_budget.is_short, SOON_S)
            good = await connect(server)
            sessions = len(server.connections.sessions)
            while len(server.connections.sessions) == sessions:
                async with asyncio.timeout(SOON_S):
                    assert len((await good.ask("Metadata", 1, topics=None)).topics) == 200
                assert server.connections.response_budget.used < limit + MiB
                await asyncio.sleep(0.01)

    run(test)
    assert any("kqueue.queued.max.response.bytes.total" in record.getMessage() for record in caplog.records)


def test_large_request_completes_beside_slow_senders(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with serving(queued_max_request_bytes=2 * MiB, kqueue_slow_holder_timeout_ms=1000) as server:
            slow = [await connect(server) for _ in range(3)]
            for client in slow:
                client.send_raw((8 * MiB).to_bytes(4, "big") + bytes(MiB))
            await until(lambda: server.connections.request_budget.used > 2 * MiB, SOON_S)
            trickle = asyncio.ensure_future(keeps_alive(slow))
            good = await connect(server)
            good.send_raw(request_bytes(API["Produce"], 9, produce_request(bytes(4 * MiB))))
            async with asyncio.timeout(SOON_S):
                await good.receive("Produce", 9)
            trickle.cancel()

    with caplog.at_level(logging.WARNING, "kqueue"):
        run(test)
    assert any("queued.max.request.bytes" in record.getMessage() for record in caplog.records)
