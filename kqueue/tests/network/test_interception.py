"""What hooks can do to requests and connections, over real sockets; time is the test's."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kqueue.base.errors import InvalidRequest
from kqueue.broker.waiting import Wait
from kqueue.network.interception import Asked, Held, Hooks
from kqueue.network.session import Session
from kqueue.storage.region import Region
from kqueue.tests.network.wiring import BOUNDS, Client, KiB, Wiring, until, wired
from kqueue.wire.messages.heartbeat import HeartbeatResponse


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run the test on an event loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **keywords: Any) -> None:
        asyncio.run(test(*args, **keywords))

    return run


def hooked(wiring: Wiring, *hooks: Callable[[Asked], None]) -> list[str]:
    """Serve Heartbeat with these hooks; the groups of handled requests go into the list."""
    handled: list[str] = []
    made = Hooks()
    wiring.dispatcher._hooks = made
    for hook in hooks:
        made.add(hook, lambda kind, path, size: None)

    def handle(request: object, call: object) -> HeartbeatResponse:
        handled.append(request.group_id)  # type: ignore[attr-defined]
        return HeartbeatResponse(error_code=len(handled))

    wiring.serve("Heartbeat", handle)
    return handled


@on_loop
async def test_requests_stay_behind_one_that_is_held_and_other_connections_go_on() -> None:
    held: list[Held] = []

    def hook(asked: Asked) -> None:
        if asked.request.group_id == "first" and not held:
            held.append(asked.hold())

    async with wired() as wiring:
        handled = hooked(wiring, hook)
        client, _ = await wiring.connect()
        other, _ = await wiring.connect()
        for number, group in enumerate(("first", "second", "third")):
            client.send("Heartbeat", 4, number, group_id=group)
        await other.ask("Heartbeat", 4, group_id="other")
        await until(lambda: bool(held))
        assert handled == ["other"]
        held[0].release()
        wiring.hub.flush()
        assert [(await client.receive("Heartbeat", 4))[0] for _ in range(3)] == [0, 1, 2]
        assert handled == ["other", "first", "second", "third"]
        held[0].release()


@on_loop
async def test_a_request_may_be_held_again_and_again() -> None:
    held: list[Held] = []

    def hook(asked: Asked) -> None:
        if asked.request.group_id == "a" and len(held) < 3:
            held.append(asked.hold())

    async with wired() as wiring:
        handled = hooked(wiring, hook)
        client, _ = await wiring.connect()
        client.send("Heartbeat", 4, 1, group_id="a")
        client.send("Heartbeat", 4, 2, group_id="b")
        for count in (1, 2, 3):
            await until(lambda count=count: len(held) == count)  # type: ignore[misc]
            for _ in range(5):  # turns in which what stands behind it could begin
                await asyncio.sleep(0)
            assert handled == []
            held[-1].release()
        wiring.hub.flush()
        assert [(await client.receive("Heartbeat", 4))[0] for _ in range(2)] == [1, 2]
        assert handled == ["a", "b"]
        assert len(set(held)) == 1


@on_loop
async def test_what_is_held_when_its_connection_ends_is_never_begun() -> None:
    held: list[Held] = []
    async with wired() as wiring:
        handled = hooked(wiring, lambda asked: None if held else held.append(asked.hold()))
        client, session = await wiring.connect()
        client.send("Heartbeat", 4, group_id="a")
        await until(lambda: bool(held))
        session.close()
        held[0].release()
        assert handled == []
        assert wiring.hub.waiting_requests == 0


@on_loop
async def test_a_held_request_that_must_fail_without_an_answer_ends_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    held: list[Held] = []

    def hook(asked: Asked) -> None:
        if not held:
            held.append(asked.hold())
        else:
            asked.modify(_fails)

    def _fails(asked: Asked) -> None:
        raise InvalidRequest("read anew")

    async with wired() as wiring:
        hooked(wiring, hook)
        client, _ = await wiring.connect()
        client.send("Heartbeat", 4, group_id="a")
        await until(lambda: bool(held))
        held[0]._asked.modifiers.append(_fails)
        held[0].release()
        assert await client.closed() == b""
        assert "read anew" in caplog.text


@on_loop
async def test_hooks_are_asked_in_order_until_one_settles_it() -> None:
    seen: list[str] = []

    def first(asked: Asked) -> None:
        seen.append("first")
        asked.changes.append(lambda response: HeartbeatResponse(error_code=response.error_code, throttle_time_ms=9))

    def second(asked: Asked) -> None:
        seen.append("second")
        asked.refuse(InvalidRequest("no"))

    async with wired() as wiring:
        handled = hooked(wiring, first, second, lambda asked: seen.append("third"))
        client, _ = await wiring.connect()
        answer = await client.ask("Heartbeat", 4, group_id="a")
        assert (answer.error_code, answer.throttle_time_ms) == (42, 9)
        assert (handled, seen) == ([], ["first", "second"])


@on_loop
async def test_a_change_of_an_answer_that_fails_is_an_error_of_the_request(caplog: pytest.LogCaptureFixture) -> None:
    async with wired() as wiring:
        hooked(wiring, lambda asked: asked.changes.append(lambda response: 1 / 0))
        client, _ = await wiring.connect()
        assert (await client.ask("Heartbeat", 4, group_id="a")).error_code == -1
        assert "ZeroDivisionError" in caplog.text


@on_loop
async def test_a_dropped_reply_waits_for_its_handler() -> None:
    handled: list[bool] = []

    def retry(expired: bool) -> HeartbeatResponse:
        handled.append(expired)
        return HeartbeatResponse()

    async with wired() as wiring:
        hooked(wiring, lambda asked: asked.drop_reply())
        wiring.serve("Heartbeat", lambda request, call: Wait((), wiring.clock.monotonic_ms() + 100, retry))
        client, session = await wiring.connect()
        client.send("Heartbeat", 4, group_id="a")
        await until(lambda: not session.quiet)
        assert handled == []
        await wiring.pass_ms(101)
        assert await client.closed() == b""
        assert handled == [True]


@on_loop
async def test_a_cut_connection_gets_what_was_answered_before() -> None:
    async with wired() as wiring:
        handled = hooked(wiring, lambda asked: asked.cut("as asked") if asked.request.group_id == "b" else None)
        client, _ = await wiring.connect()
        for number, group in enumerate("abc"):
            client.send("Heartbeat", 4, number, group_id=group)
        assert (await client.receive("Heartbeat", 4))[0] == 0
        assert await client.closed() == b""
        assert handled == ["a"]


# --- silence


async def silent(wiring: Wiring) -> tuple[Client, Session]:
    client, session = await wiring.connect()
    await client.ask("Heartbeat", 4, group_id="a")
    session.silence()
    return client, session


@on_loop
async def test_a_silent_connection_neither_reads_nor_sends_nor_ends() -> None:
    async with wired(BOUNDS._replace(idle_ms=1_000)) as wiring:
        handled = hooked(wiring)
        client, session = await silent(wiring)
        client.send("Heartbeat", 4, 5, group_id="b")
        session.answered()
        await wiring.pass_ms(60_000)
        assert (handled, wiring.gone) == (["a"], [])
        session.speak()
        assert (await client.receive("Heartbeat", 4))[0] == 5
        session.speak()
        await wiring.pass_ms(500)
        assert wiring.gone == []
        await wiring.pass_ms(1_000)
        assert wiring.gone == ["127.0.0.1"]  # idle since, which counts again


@on_loop
async def test_an_answer_stops_in_its_middle_and_goes_on() -> None:
    size = 2 * 1024 * KiB
    async with wired() as wiring:
        hooked(wiring)
        client, session = await wiring.connect(receive_bytes=8 * KiB, send_bytes=8 * KiB)
        session._pump.push([bytes(size)])
        session.flush()
        assert session._pump.waits_for_room
        session.silence()
        sent = session._pump.sent_bytes
        await client.reader.readexactly(sent)
        await wiring.pass_ms(120_000)
        assert (session._pump.sent_bytes, wiring.gone) == (sent, [])
        assert not session.owes_answers  # a stop does not wait for it
        session.speak()
        await client.reader.readexactly(size - sent)


@on_loop
async def test_what_was_read_ahead_waits_too() -> None:
    class Cold:
        """A file of zeros that is never in memory."""

        def read_at(self, position: int, size: int) -> bytes:
            return bytes(size)

        def fileno(self) -> None:
            return None

        def is_cached(self, position: int, size: int) -> bool:
            return False

    async with wired() as wiring:
        hooked(wiring)
        client, session = await wiring.connect()
        session._pump.push([Region(Cold(), 0, 100 * KiB)])
        session.flush()
        session.silence()
        await wiring.jobs.drain()
        assert session._pump.sent_bytes == 0
        session.speak()
        assert len(await client.reader.readexactly(100 * KiB)) == 100 * KiB


@on_loop
async def test_the_end_comes_through_silence_all_the_same() -> None:
    async with wired() as wiring:
        hooked(wiring)
        client, session = await silent(wiring)
        wiring.hub.close()
        session.silence()
        session.speak()
        assert await client.closed() == b""
