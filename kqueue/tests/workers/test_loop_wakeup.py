from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable

import pytest

from kqueue.tests.network.harness import until
from kqueue.workers.loop_wakeup import LoopWakeup

Calls = list[threading.Thread]


@pytest.fixture(params=["eventfd", "call_soon_threadsafe"])
def woken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Test], None]:
    """Runs a test with a wakeup of each kind, and the calls that it made."""
    if request.param == "call_soon_threadsafe":
        monkeypatch.delattr(os, "eventfd", raising=False)
    elif not hasattr(os, "eventfd"):
        pytest.skip("this platform has no eventfd")

    async def run(test: Test) -> None:
        calls: Calls = []
        wakeup = LoopWakeup(asyncio.get_running_loop(), lambda: calls.append(threading.current_thread()))
        try:
            await test(wakeup, calls)
        finally:
            wakeup.close()

    return lambda test: asyncio.run(run(test))


Test = Callable[[LoopWakeup, Calls], Awaitable[None]]


def wake_in_thread(wakeup: LoopWakeup, times: int) -> None:
    """Return when a thread has called `wake` so often, without a turn of the loop."""
    thread = threading.Thread(target=lambda: [wakeup.wake() for _ in range(times)])
    thread.start()
    thread.join()


def test_wakes_of_one_turn_make_one_call_on_the_loop(woken: Callable[[Test], None]) -> None:
    async def test(wakeup: LoopWakeup, calls: Calls) -> None:
        wake_in_thread(wakeup, 3)
        assert calls == []
        await until(lambda: bool(calls))
        wake_in_thread(wakeup, 1)
        await until(lambda: len(calls) > 1)
        await asyncio.sleep(0)
        assert calls == [threading.current_thread()] * 2

    woken(test)


def test_closed_wakeup_calls_nothing_more(woken: Callable[[Test], None]) -> None:
    async def test(wakeup: LoopWakeup, calls: Calls) -> None:
        wake_in_thread(wakeup, 1)
        wakeup.close()
        wakeup.close()
        wake_in_thread(wakeup, 1)
        marker: list[int] = []
        asyncio.get_running_loop().call_soon_threadsafe(marker.append, 1)
        await until(lambda: bool(marker))
        assert calls == []

    woken(test)


def test_wake_of_a_closed_loop_has_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "eventfd", raising=False)
    loop = asyncio.new_event_loop()
    wakeup = LoopWakeup(loop, lambda: None)
    loop.close()
    wakeup.wake()


@pytest.mark.skipif(not hasattr(os, "eventfd"), reason="this platform has no eventfd")
def test_wake_after_close_writes_to_no_file_that_uses_the_descriptor_now() -> None:
    async def run() -> None:
        wakeup = LoopWakeup(asyncio.get_running_loop(), lambda: None)
        fd = wakeup._fd
        wakeup.close()
        reader, writer = os.pipe2(os.O_NONBLOCK)
        try:
            assert fd in (reader, writer), "the lowest free number is used first"
            wakeup.wake()
            with pytest.raises(BlockingIOError):
                os.read(reader, 8)
        finally:
            os.close(reader)
            os.close(writer)

    asyncio.run(run())
