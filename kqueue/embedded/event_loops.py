"""Helpers of calls from coroutines: a thread to wait in, and a refusal of what would block the
event loop on which clients may run. The loop is that of asyncio, or of trio.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def check_may_block(instead: str) -> None:
    """Raise RuntimeError if this thread runs an event loop: its clients would be blocked.

    `instead`: the awaitable call for the message.
    """
    if _running_trio() is None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
    raise RuntimeError(
        f"this call would block the running event loop, and with it the clients that it waits for; write: {instead}"
    )


async def run_in_thread(function: Callable[P, T], *args: P.args, **keywords: P.kwargs) -> T:
    """Run a function in a thread, while the event loop runs on; return its result."""
    trio = _running_trio()
    if trio is None:
        return await asyncio.to_thread(function, *args, **keywords)
    result: T = await trio.to_thread.run_sync(functools.partial(function, *args, **keywords))
    return result


def _running_trio() -> Any:
    """Return trio, if it runs this thread's coroutine. kqueue does not import it by itself."""
    trio = sys.modules.get("trio")
    try:
        if trio is not None and trio.lowlevel.current_task() is not None:
            return trio
    except (RuntimeError, AttributeError):  # another loop, or trio is being imported
        pass
    return None
