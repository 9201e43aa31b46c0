"""Refuses calls that would block an event loop on which their clients may run."""

from __future__ import annotations

import asyncio


def check_may_block(instead: str) -> None:
    """Raise RuntimeError if this thread runs an event loop: its clients would be blocked.

    `instead`: the awaitable call for the message.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        f"this call would block the running event loop, and with it the clients that it waits for; write: {instead}"
    )
