from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

from freezegun import freeze_time

from kqueue.network.event_loop import BrokerEventLoop, turn_end_of


def on_loop(test: Callable[[BrokerEventLoop, list[object]], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=BrokerEventLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, BrokerEventLoop)
        runner.run(test(loop, []))  # type: ignore[arg-type]


def test_a_timer_runs_while_a_test_has_frozen_the_time() -> None:
    with asyncio.Runner(loop_factory=BrokerEventLoop) as runner, freeze_time("2020-01-01"):
        loop = runner.get_loop()
        assert loop.time() != time.monotonic()
        runner.run(asyncio.sleep(0.001))


def test_loop_time_is_the_monotonic_clock() -> None:
    with asyncio.Runner(loop_factory=BrokerEventLoop) as runner:
        before_s = time.monotonic()
        assert before_s <= runner.get_loop().time() <= time.monotonic()


def test_the_end_of_a_turn_comes_after_all_callbacks_and_before_the_next_poll() -> None:
    async def test(loop: BrokerEventLoop, ran: list[object]) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:

            def readable(name: str, sock: socket.socket) -> None:
                ran.append((name, sock.recv(10)))
                loop.at_turn_end(lambda: ran.append("end of turn"))
                loop.call_soon(ran.append, "next turn")

            for name, sock in (("first", ours), ("second", theirs)):
                loop.add_reader(sock, readable, name, sock)
            ours.send(b"a")
            theirs.send(b"b")
            while len(ran) < 6:
                await asyncio.sleep(0)
            for sock in (ours, theirs):
                loop.remove_reader(sock)
        assert sorted(map(str, ran[:2])) == ["('first', b'b')", "('second', b'a')"]
        assert ran[2:] == ["end of turn", "end of turn", "next turn", "next turn"]

    on_loop(test)


def test_a_call_from_the_end_of_a_turn_runs_at_the_end_of_the_next_without_a_wait() -> None:
    async def test(loop: BrokerEventLoop, ran: list[object]) -> None:
        over = asyncio.Event()

        def again() -> None:
            ran.append(len(ran))
            if len(ran) < 3:
                loop.at_turn_end(again)
                loop.call_soon(ran.append, "a turn")
            else:
                over.set()

        loop.at_turn_end(again)
        await over.wait()  # nothing else wakes the loop
        assert ran == [0, "a turn", 2]

    on_loop(test)


def test_the_failure_of_a_call_reaches_the_exception_handler_and_the_others_run() -> None:
    async def test(loop: BrokerEventLoop, ran: list[object]) -> None:
        def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            ran.append(type(context["exception"]))

        loop.set_exception_handler(handle)
        loop.at_turn_end(lambda: ran.append(1 // 0))
        loop.at_turn_end(lambda: ran.append("second"))
        await asyncio.sleep(0)
        assert ran == [ZeroDivisionError, "second"]

    on_loop(test)


def test_other_loops_run_a_call_in_their_next_turn() -> None:
    async def test() -> None:
        ran: list[object] = []
        turn_end_of(asyncio.get_running_loop())(lambda: ran.append("called"))
        assert not ran
        await asyncio.sleep(0)
        assert ran == ["called"]

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(test())
