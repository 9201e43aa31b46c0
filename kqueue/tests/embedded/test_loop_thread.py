from __future__ import annotations

import asyncio
import threading

import pytest

from kqueue.embedded.loop_thread import LoopThread, unless


def test_begin_calls_and_end_run_on_one_thread() -> None:
    seen: list[object] = []

    async def note() -> int:
        seen.append(threading.get_ident())
        return len(seen)

    async def begin(stopping: asyncio.Event) -> None:
        await note()

    async def end() -> None:
        await note()

    thread = LoopThread("tested", begin, end, lambda: None)
    thread.start()
    assert thread.call(note) == 2
    thread.check_not_own()
    thread.stop()
    assert len(seen) == 3
    assert len({*seen}) == 1
    assert threading.get_ident() not in seen


def test_the_errors_of_begin_and_end_reach_the_caller() -> None:
    async def fine() -> None: ...

    async def begun(stopping: asyncio.Event) -> None: ...

    async def fail(stopping: asyncio.Event | None = None) -> None:
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        LoopThread("tested", fail, fine, lambda: None).start()
    thread = LoopThread("tested", begun, fail, lambda: None)
    thread.start()
    with pytest.raises(OSError, match="no disk"):
        thread.stop()


def test_unless_passes_on_errors_and_ends_with_the_event() -> None:
    async def test() -> None:
        stopping = asyncio.Event()
        with pytest.raises(OSError, match="no disk"):
            await unless(stopping, fail())
        waiting = asyncio.ensure_future(unless(stopping, asyncio.sleep(60)))
        await asyncio.sleep(0)
        stopping.set()
        await asyncio.wait_for(waiting, 60)

    async def fail() -> None:
        raise OSError("no disk")

    asyncio.run(test())
