"""Ctrl-C and TERM as a request to end, for commands that have something to put in order first.

`ending` is for those that look now and then whether they shall end, `interrupting` for those that
can be left at any moment.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

INSIST_AFTER_S = 1.0


@contextlib.contextmanager
def ending(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` on the first Ctrl-C or TERM; one that comes a second later or more insists, and
    ends the process.

    Not at once, because wrappers such as `timeout` hand one Ctrl-C on twice. Off the main thread
    signals can't be caught, and nothing is done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handle = _insistent(stop)
    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def interrupting() -> Iterator[Callable[[], None]]:
    """Raise KeyboardInterrupt in the block on the first Ctrl-C or TERM; one that comes a second
    later or more insists, as in `ending`.

    Yields: a function that takes the signals back from a library that has laid hands on them. Off
    the main thread nothing is done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    handle = _insistent(_interrupt)

    def take() -> None:
        for number in previous:
            signal.signal(number, handle)

    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    take()
    try:
        yield take
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _insistent(act: Callable[[], object]) -> Callable[[int, FrameType | None], None]:
    """A handler that does `act` the first time, and ends the process when it is asked again, a
    second later or more.
    """
    asked_s: float | None = None

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked_s
        now_s = time.monotonic()
        if asked_s is None:
            asked_s = now_s
            act()
        elif now_s - asked_s >= INSIST_AFTER_S:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    return handle


def _interrupt() -> None:
    raise KeyboardInterrupt
