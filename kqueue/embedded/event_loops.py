"""Calls that wait for clients must not be made on the event loop that those clients need."""

from __future__ import annotations

import asyncio


def check_may_block(instead: str) -> None:
    """Raise RuntimeError if this thread runs an event loop: the clients on it could do nothing
    meanwhile. `instead`: what to write.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        f"this call would block the running event loop, and with it the clients that it waits for; write: {instead}"
    )
