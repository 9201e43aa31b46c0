from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

from kqueue.embedded.server_loop import ServerLoop
from kqueue.network.event_loop import BrokerEventLoop


def on_loop(test: Callable[[ServerLoop, list[object]], Awaitable[None]]) -> None:
    async def run() -> None:
        await test(ServerLoop(asyncio.get_running_loop()), [])

    asyncio.run(run())


async def passes(turns: int = 5) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


def test_callbacks_wait_while_it_is_paused_and_then_run_in_order() -> None:
    async def test(loop: ServerLoop, ran: list[object]) -> None:
        loop.call_soon(ran.append, 1)
        await passes()
        loop.call_soon(ran.append, 2)
        loop.call_later(0.001, ran.append, 4)
        loop.pause()
        loop.call_soon_threadsafe(ran.append, 3)
        await asyncio.sleep(0.01)
        assert ran == [1]
        loop.resume()
        await passes()
        assert ran == [1, 2, 3, 4]

    on_loop(test)


def test_the_end_of_a_turn_waits_while_it_is_paused() -> None:
    async def test() -> None:
        loop, ran = ServerLoop(asyncio.get_running_loop()), list[object]()
        loop.at_turn_end(lambda: ran.append(1))
        await passes(1)
        assert ran == [1]
        loop.at_turn_end(lambda: ran.append(2))
        loop.pause()
        await passes()
        assert ran == [1]
        loop.resume()
        await passes()
        assert ran == [1, 2]
        loop.at_turn_end(lambda: ran.append(3))
        loop.close()
        await passes()
        assert ran == [1, 2]

    with asyncio.Runner(loop_factory=BrokerEventLoop) as runner:
        runner.run(test())


def test_a_callback_is_cancelled_before_and_during_a_pause() -> None:
    async def test(loop: ServerLoop, ran: list[object]) -> None:
        first, second = loop.call_later(0, ran.append, 1), loop.call_soon(ran.append, 2)
        loop.call_soon(ran.append, 3)
        first.cancel()
        loop.pause()
        await asyncio.sleep(0.002)
        second.cancel()
        loop.resume()
        await passes()
        assert ran == [3]

    on_loop(test)


def test_a_callback_that_waited_cancels_a_later_one() -> None:
    async def test(loop: ServerLoop, ran: list[object]) -> None:
        loop.pause()
        loop.call_soon(lambda: later.cancel())
        later = loop.call_soon(ran.append, 1)
        await passes()
        loop.resume()
        await passes()
        assert ran == []

    on_loop(test)


def test_sockets_are_not_read_or_written_while_it_is_paused() -> None:
    async def test(loop: ServerLoop, ran: list[object]) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.send(b"x")
            loop.add_reader(ours, lambda: ran.append(ours.recv(10)))
            await passes()
            assert ran == [b"x"]
            loop.pause()
            loop.add_writer(ours, lambda: ran.append("writable"))
            theirs.send(b"y")
            await asyncio.sleep(0.005)
            assert ran == [b"x"]
            loop.resume()
            await passes()
            assert ran[1:3] in ([b"y", "writable"], ["writable", b"y"])
            assert loop.remove_writer(ours)
            assert not loop.remove_writer(ours)
            assert loop.remove_reader(ours)
            del ran[:]
            theirs.send(b"z")
            await passes()
            assert ran == []

    on_loop(test)


def test_a_reader_that_is_removed_during_a_pause_does_not_come_back() -> None:
    async def test(loop: ServerLoop, ran: list[object]) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            loop.add_reader(ours, ran.append, "readable")
            loop.pause()
            loop.pause()
            assert loop.remove_reader(ours)
            theirs.send(b"x")
            loop.resume()
            await passes()
            assert ran == []

    on_loop(test)


def test_nothing_runs_after_it_was_closed() -> None:
    async def test(loop: ServerLoop, ran: list[object]) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            loop.add_reader(ours, ran.append, "readable")
            loop.call_soon(ran.append, 1)
            loop.close()
            theirs.send(b"x")
            loop.call_soon(ran.append, 2)
            loop.call_later(0, ran.append, 3)
            loop.resume()
            await asyncio.sleep(0.005)
            assert ran == []
            assert not loop.remove_reader(ours)

    on_loop(test)
