"""Interception of requests and connections, over real sockets in virtual time."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kqueue.base.errors import InvalidRequest
from kqueue.broker.purgatory import DelayedOperation
from kqueue.network.interception import BrokerHooks, HeldRequest, InterceptedRequest, InterceptingDispatcher
from kqueue.network.session import Session
from kqueue.storage.region import Region
from kqueue.tests.network.harness import LIMITS, Client, Harness, KiB, network_harness, overwriting, until
from kqueue.wire.messages.heartbeat import HeartbeatResponse


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run the test on its own event loop."""

    @functools.wraps(test)
    def run(*args: Any, **keywords: Any) -> None:
        asyncio.run(test(*args, **keywords))

    return run


def hooked(harness: Harness, *hooks: Callable[[InterceptedRequest], None]) -> list[str]:
    """Serve Heartbeat with these hooks; return the list of groups of handled requests."""
    handled: list[str] = []
    broker_hooks = BrokerHooks()
    start = InterceptingDispatcher(harness.dispatcher, broker_hooks, harness.client_log).start
    harness.connections.start = overwriting(start)
    for hook in hooks:
        broker_hooks.add(hook, lambda kind, path, size: None)

    def handle(request: object, call: object) -> HeartbeatResponse:
        handled.append(request.group_id)  # type: ignore[attr-defined]
        return HeartbeatResponse(error_code=len(handled))

    harness.serve("Heartbeat", handle)
    return handled


@on_loop
async def test_held_request_delays_its_own_connection_only() -> None:
    held: list[HeldRequest] = []

    def hook(asked: InterceptedRequest) -> None:
        if asked.request.group_id == "first" and not held:
            held.append(asked.hold())

    async with network_harness() as harness:
        handled = hooked(harness, hook)
        client, _ = await harness.connect()
        other, _ = await harness.connect()
        for number, group in enumerate(("first", "second", "third")):
            client.send("Heartbeat", 4, number, group_id=group)
        await other.ask("Heartbeat", 4, group_id="other")
        await until(lambda: bool(held))
        assert handled == ["other"]
        held[0].release()
        harness.connections.flush()
        assert [(await client.receive("Heartbeat", 4))[0] for _ in range(3)] == [0, 1, 2]
        assert handled == ["other", "first", "second", "third"]
        held[0].release()


@on_loop
async def test_request_may_be_held_repeatedly() -> None:
    held: list[HeldRequest] = []

    def hook(asked: InterceptedRequest) -> None:
        if asked.request.group_id == "a" and len(held) < 3:
            held.append(asked.hold())

    async with network_harness() as harness:
        handled = hooked(harness, hook)
        client, _ = await harness.connect()
        client.send("Heartbeat", 4, 1, group_id="a")
        client.send("Heartbeat", 4, 2, group_id="b")
        for count in (1, 2, 3):
            await until(lambda count=count: len(held) == count)  # type: ignore[misc]
            for _ in range(5):  # turns in which the requests behind it could begin
                await asyncio.sleep(0)
            assert handled == []
            held[-1].release()
        harness.connections.flush()
        assert [(await client.receive("Heartbeat", 4))[0] for _ in range(2)] == [1, 2]
        assert handled == ["a", "b"]
        assert len(set(held)) == 1


@on_loop
async def test_held_request_of_a_closed_connection_never_starts() -> None:
    held: list[HeldRequest] = []
    async with network_harness() as harness:
        handled = hooked(harness, lambda asked: None if held else held.append(asked.hold()))
        client, session = await harness.connect()
        client.send("Heartbeat", 4, group_id="a")
        await until(lambda: bool(held))
        session.close()
        held[0].release()
        assert handled == []
        assert harness.connections.waiting_requests == 0


@on_loop
async def test_held_request_that_fails_without_a_response_closes_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    held: list[HeldRequest] = []

    def hook(asked: InterceptedRequest) -> None:
        if not held:
            held.append(asked.hold())
        else:
            asked.modify(_fails)

    def _fails(asked: InterceptedRequest) -> None:
        raise InvalidRequest("read again")

    async with network_harness() as harness:
        hooked(harness, hook)
        client, _ = await harness.connect()
        client.send("Heartbeat", 4, group_id="a")
        await until(lambda: bool(held))
        held[0]._intercepted.modifiers.append(_fails)
        held[0].release()
        assert await client.closed() == b""
        assert "read again" in caplog.text


@on_loop
async def test_hooks_run_in_order_until_one_decides() -> None:
    seen: list[str] = []

    def first(asked: InterceptedRequest) -> None:
        seen.append("first")
        asked.changes.append(lambda response: HeartbeatResponse(error_code=response.error_code, throttle_time_ms=9))

    def second(asked: InterceptedRequest) -> None:
        seen.append("second")
        asked.refuse(InvalidRequest("no"))

    async with network_harness() as harness:
        handled = hooked(harness, first, second, lambda asked: seen.append("third"))
        client, _ = await harness.connect()
        answer = await client.ask("Heartbeat", 4, group_id="a")
        assert (answer.error_code, answer.throttle_time_ms) == (42, 9)
        assert (handled, seen) == ([], ["first", "second"])


@on_loop
async def test_failed_response_change_is_a_request_error(caplog: pytest.LogCaptureFixture) -> None:
    async with network_harness() as harness:
        hooked(harness, lambda asked: asked.changes.append(lambda response: 1 / 0))
        client, _ = await harness.connect()
        assert (await client.ask("Heartbeat", 4, group_id="a")).error_code == -1
        assert "ZeroDivisionError" in caplog.text


@on_loop
async def test_dropped_response_waits_for_its_handler() -> None:
    handled: list[bool] = []

    def retry(expired: bool) -> HeartbeatResponse:
        handled.append(expired)
        return HeartbeatResponse()

    async with network_harness() as harness:
        hooked(harness, lambda asked: asked.drop_reply())
        harness.serve(
            "Heartbeat", lambda request, call: DelayedOperation((), harness.clock.monotonic_ms() + 100, retry)
        )
        client, session = await harness.connect()
        client.send("Heartbeat", 4, group_id="a")
        await until(lambda: not session.is_idle)
        assert handled == []
        await harness.pass_ms(101)
        assert await client.closed() == b""
        assert handled == [True]


@on_loop
async def test_cut_connection_receives_earlier_responses() -> None:
    async with network_harness() as harness:
        handled = hooked(harness, lambda asked: asked.cut("as asked") if asked.request.group_id == "b" else None)
        client, _ = await harness.connect()
        for number, group in enumerate("abc"):
            client.send("Heartbeat", 4, number, group_id=group)
        assert (await client.receive("Heartbeat", 4))[0] == 0
        assert await client.closed() == b""
        assert handled == ["a"]


# --- suspended I/O


async def silent(harness: Harness) -> tuple[Client, Session]:
    client, session = await harness.connect()
    await client.ask("Heartbeat", 4, group_id="a")
    session.suspend_io()
    return client, session


@on_loop
async def test_suspended_connection_neither_reads_nor_sends_nor_ends() -> None:
    async with network_harness(LIMITS._replace(idle_ms=1_000)) as harness:
        handled = hooked(harness)
        client, session = await silent(harness)
        client.send("Heartbeat", 4, 5, group_id="b")
        session.response_ready()
        await harness.pass_ms(60_000)
        assert (handled, harness.gone) == (["a"], [])
        session.resume_io()
        assert (await client.receive("Heartbeat", 4))[0] == 5
        session.resume_io()
        await harness.pass_ms(500)
        assert harness.gone == []
        await harness.pass_ms(1_000)
        assert harness.gone == ["127.0.0.1"]  # the idle time counts again


@on_loop
async def test_response_is_suspended_midway_and_resumed() -> None:
    size = 2 * 1024 * KiB
    async with network_harness() as harness:
        hooked(harness)
        client, session = await harness.connect(receive_bytes=8 * KiB, send_bytes=8 * KiB)
        session._output.add([bytes(size)])
        session.flush()
        assert session._output.waits_for_client
        session.suspend_io()
        sent = session._output.sent_bytes
        await client.reader.readexactly(sent)
        await harness.pass_ms(120_000)
        assert (session._output.sent_bytes, harness.gone) == (sent, [])
        assert not session.has_unsent  # stop does not wait for it
        session.resume_io()
        await client.reader.readexactly(size - sent)


@on_loop
async def test_read_ahead_data_is_suspended_too() -> None:
    class Cold:
        """A file of zeros that is never in the page cache."""

        def read_at(self, position: int, size: int) -> bytes:
            return bytes(size)

        def fileno(self) -> None:
            return None

        def is_cached(self, position: int, size: int) -> bool:
            return False

    async with network_harness() as harness:
        hooked(harness)
        client, session = await harness.connect()
        session._output.add([Region(Cold(), 0, 100 * KiB)])
        session.flush()
        session.suspend_io()
        await harness.jobs.drain()
        assert session._output.sent_bytes == 0
        session.resume_io()
        assert len(await client.reader.readexactly(100 * KiB)) == 100 * KiB


@on_loop
async def test_suspended_connection_notices_the_end() -> None:
    async with network_harness() as harness:
        hooked(harness)
        client, session = await silent(harness)
        harness.connections.close()
        session.suspend_io()
        session.resume_io()
        assert await client.closed() == b""
