from __future__ import annotations

import asyncio

import pytest

from kqueue.network.connections import SWEEP_MS, SessionLimits
from kqueue.tests.network.harness import LIMITS, network_harness, until
from kqueue.tests.network.test_session import heartbeat
from kqueue.workers.loop_pass import PASS_S


def test_limits_come_from_the_settings() -> None:
    from kqueue.base.settings import Config
    from kqueue.config.catalog import CATALOG

    settings = {
        "socket.request.max.bytes": 2048,
        "queued.max.requests": 7,
        "connections.max.idle.ms": -1,
        "queued.max.request.bytes": -1,
        "kqueue.queued.max.response.bytes.total": 5000,
    }
    limits = SessionLimits.of(Config(CATALOG, settings))
    assert limits == SessionLimits(2048, 7, 100_000, 64 << 20, None, 30_000, 30_000, 10_000, None, 5000)
    assert SessionLimits.of(Config(CATALOG)).idle_ms == 600_000


@pytest.mark.parametrize(("idle_ms", "sweep_ms"), [(None, SWEEP_MS), (600_000, SWEEP_MS), (2_000, 500), (4, 1)])
def test_sweep_interval_fits_the_shortest_limit(idle_ms: int | None, sweep_ms: float) -> None:
    assert LIMITS._replace(idle_ms=idle_ms).sweep_ms == sweep_ms


def test_no_timer_runs_without_connections() -> None:
    async def test() -> None:
        async with network_harness() as harness:
            assert harness.timers.next_deadline_ms() is None
            client, _ = await harness.connect()
            assert harness.timers.next_deadline_ms() == SWEEP_MS
            await client.close()
            await until(lambda: bool(harness.gone))
            await harness.pass_ms(2 * SWEEP_MS)
            assert harness.timers.next_deadline_ms() is None

    asyncio.run(test())


def test_close_ends_all_connections_and_the_sweep() -> None:
    async def test() -> None:
        async with network_harness() as harness:
            harness.serve("Heartbeat", heartbeat)
            clients = [(await harness.connect())[0] for _ in range(5)]
            assert harness.connections.unsent() == 0
            harness.connections.close()
            for client in clients:
                assert await client.closed() == b""
            assert len(harness.gone) == 5
            assert not harness.connections.sessions
            assert harness.timers.next_deadline_ms() is None

    asyncio.run(test())


def test_responses_to_many_connections_are_sent_in_passes() -> None:
    async def test() -> None:
        async with network_harness() as harness:
            now_s, sent = 0.0, list[int]()
            harness.connections.scheduler.now = lambda: now_s

            class Slow:
                def flush(self) -> None:
                    nonlocal now_s
                    now_s += PASS_S / 4
                    sent.append(1)

            for _ in range(10):
                harness.connections.will_send(Slow())  # type: ignore[arg-type]
            harness.connections.flush()
            assert len(sent) == 4
            await asyncio.sleep(0)
            assert len(sent) == 8
            await asyncio.sleep(0)
            assert len(sent) == 10

    asyncio.run(test())
