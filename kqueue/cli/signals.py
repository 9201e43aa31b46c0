"""Ctrl-C and TERM as a request to stop cleanly.

`stop_on_signal` is for commands that check a flag, `interrupt_on_signal` for those that an
exception may leave at any point.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import click

from kqueue.base.clock import monotonic_s
from kqueue.cli.exit_status import INTERRUPTED

INSIST_AFTER_S = 1.0


@contextlib.contextmanager
def stop_on_signal(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` on the first Ctrl-C or TERM; a later second signal ends the process.

    Raises: Exit: at the end of the block, with the status of a Ctrl-C, if that was the signal.

    A second signal within `INSIST_AFTER_S` is ignored: wrappers such as `timeout` forward one
    Ctrl-C twice.

    Thread: does nothing outside of the main thread, which alone receives signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    handle = _handler(stop, received)
    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    if signal.SIGINT in received:
        raise click.exceptions.Exit(INTERRUPTED)


@contextlib.contextmanager
def interrupt_on_signal() -> Iterator[Callable[[], None]]:
    """Raise KeyboardInterrupt in the block on the first Ctrl-C or TERM; then as `stop_on_signal`.

    Yields: a function that reinstalls the handlers after a library has replaced them.

    Thread: does nothing outside of the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    handle = _handler(_interrupt, [])

    def install() -> None:
        for number in previous:
            signal.signal(number, handle)

    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    install()
    try:
        yield install
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _handler(act: Callable[[], object], received: list[int]) -> Callable[[int, FrameType | None], None]:
    """Return a handler that calls `act` once, and ends the process on a later signal.

    The first signal is added to `received`.
    """
    first_s: float | None = None

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal first_s
        now_s = monotonic_s()
        if first_s is None:
            first_s = now_s
            received.append(number)
            act()
        elif now_s - first_s >= INSIST_AFTER_S:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    return handle


def _interrupt() -> None:
    raise KeyboardInterrupt
