"""A server that owns its process: signals, the limit on open files, and a garbage collector that knows what stays."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType

from kqueue.base.settings import Config
from kqueue.server.app import Server

INSIST_AFTER_S = 1.0
"""A second signal ends the process at once, but not sooner than this: wrappers such as `timeout` hand one Ctrl-C on twice."""
ENDED_BY_SIGNAL = 128
GC_THRESHOLDS = (50_000, 20, 20)
logger = logging.getLogger("kqueue.server")


def run(config: Config, started: Callable[[Server], None] = lambda server: None) -> None:
    """Serve until SIGINT or SIGTERM; returns after a graceful stop. A second signal ends the process at once.

    Call it on the main thread; `started` is called once clients can connect. Raises: what `Server.start` and `Server.stop` raise.
    """
    raise_open_files_limit()
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(_serve(config, started))


async def _serve(config: Config, started: Callable[[Server], None]) -> None:
    asked = asyncio.Event()
    with _signals(asked):
        server = Server(config)
        await server.start()
        try:
            settle_garbage_collector()
            started(server)
            await asked.wait()
        finally:
            await server.stop()


def raise_open_files_limit() -> None:
    """Allow as many open files as the system lets us have."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # Windows; or a system that says one thing and does another
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def settle_garbage_collector() -> None:
    """What start-up made stays, so it need not be looked at again; and requests make little garbage in cycles, so look rarely."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


@contextlib.contextmanager
def _signals(asked: asyncio.Event) -> Iterator[None]:
    """Let the first signal set `asked`; a later one ends the process, whatever it is waiting for."""
    loop = asyncio.get_running_loop()
    asked_s: float | None = None

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked_s
        now_s = time.monotonic()
        if asked_s is None:
            asked_s = now_s
            loop.call_soon_threadsafe(asked.set)
        elif now_s - asked_s >= INSIST_AFTER_S:
            logger.error("ended by a second signal before everything was written: the next start will check the logs")
            os._exit(ENDED_BY_SIGNAL + number)

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
