from __future__ import annotations

import asyncio

from kqueue.api.request_context import RequestContext
from kqueue.network.connections import SWEEP_MS, SessionLimits
from kqueue.tests.network.harness import LIMITS, network_harness, until
from kqueue.tests.network.test_session import heartbeat
from kqueue.tests.tables import for_each
from kqueue.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kqueue.workers.loop_pass import PASS_S


def test_limits_come_from_the_settings() -> None:
    from kqueue.base.config import Config
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


@for_each("idle_ms, sweep_ms", [(None, SWEEP_MS), (600_000, SWEEP_MS), (2_000, 500), (4, 1)])
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


def test_a_throttled_connection_begins_nothing_meanwhile_and_others_go_on() -> None:
    """The response leaves at once; the longest of several throttles counts (KIP-219)."""

    async def test() -> None:
        async with network_harness() as harness:

            def throttling(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
                for ms in (500, 2000, 100) if request.generation_id == 1 else ():
                    context.throttle(ms)
                return heartbeat(request, context)

            harness.serve("Heartbeat", throttling)
            client, session = await harness.connect()
            other, _ = await harness.connect()
            for number in range(1, 5):
                client.send("Heartbeat", 0, number, group_id="g", generation_id=number, member_id="m")
            assert (await client.receive("Heartbeat", 0))[0] == 1
            assert (await other.ask("Heartbeat", 0, group_id="g", generation_id=9, member_id="m")).error_code == 0
            pending = asyncio.ensure_future(client.receive("Heartbeat", 0))
            await harness.pass_ms(1900)
            assert not pending.done()
            await harness.pass_ms(101)
            assert (await pending)[0] == 2
            assert [(await client.receive("Heartbeat", 0))[0] for _ in range(2)] == [3, 4]
            assert session in harness.connections.sessions

    asyncio.run(test())


def test_a_connection_that_closes_while_throttled_leaves_nothing() -> None:
    async def test() -> None:
        async with network_harness() as harness:
            client, session = await harness.connect()
            session.throttle(60_000)
            session.close()
            session.throttle(60_000)
            await client.closed()
            await harness.pass_ms(2 * SWEEP_MS)
            assert harness.timers.next_deadline_ms() is None

    asyncio.run(test())
