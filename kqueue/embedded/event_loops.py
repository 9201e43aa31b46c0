"""Refuses calls that would block an event loop on which their clients may run."""

from __future__ import annotations

import asyncio

from kqueue.network.event_loop import BrokerEventLoop


def check_may_block(instead: str) -> None:
    """Raise RuntimeError if this thread runs an event loop: its clients would be blocked.

    `instead`: the awaitable call for the message.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    if isinstance(loop, BrokerEventLoop):
        return  # gevent runs the broker as a greenlet of this thread; this is another greenlet
    raise RuntimeError(
        f"this call would block the running event loop, and with it the clients that it waits for; write: {instead}"
    )
