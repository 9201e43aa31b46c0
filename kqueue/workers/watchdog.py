"""Names whoever holds the event loop: while it does not turn, nobody is served."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple

from kqueue.base.registry import BUILT_IN, PluginSource

LOOK_S_MAX = 0.25
_IDLE = ("selectors", "asyncio.windows_events")
logger = logging.getLogger("kqueue.workers.watchdog")  # a name of its own, to be silenced by


class Watchdog:
    """A thread that looks whether the loop turns. When it has not for `limit_ms`, one line at
    WARNING says whose call it is in: a plugin's, by its name and distribution, or else a function
    of ours; when it turns again, one line at INFO says how long that took.

    Args: sources: gives the plugins, and where they are written; asked only where somebody holds
    the loop. limit_ms: 0: no thread. `start`, `stop` and `suspended` belong to the loop's thread. The
    watching begins with the loop's next turn.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limit_ms: int, sources: Callable[[], Sequence[PluginSource]]
    ) -> None:
        self._loop = loop
        self._limit_s = limit_ms / 1000
        self._look_s = min(self._limit_s / 4, LOOK_S_MAX)
        self._sources = sources
        self._stopped = threading.Event()
        self._turned = threading.Event()
        self._suspended = 0
        self._suspended_until_s = 0.0
        self._first: asyncio.Handle | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._limit_s:
            # not now: whoever waits for the server need not wait for a thread to begin, too
            self._first = self._loop.call_soon(self._begin, threading.get_ident())

    def stop(self) -> None:
        """End the thread. Twice, or without a start, is harmless."""
        if self._first is not None:
            self._first.cancel()
        self._stopped.set()
        self._turned.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """What happens in this `with` may hold the loop for as long as it takes, without a word."""
        self._suspended += 1
        try:
            yield
        finally:
            self._suspended_until_s = time.monotonic()
            self._suspended -= 1

    def _begin(self, loop_thread: int) -> None:
        thread = threading.Thread(target=self._watch, args=(loop_thread,), name="kqueue-watchdog", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the interpreter is ending
            return
        self._thread = thread

    # --- the thread

    def _watch(self, loop_thread: int) -> None:
        while not self._stopped.wait(self._look_s):
            if _busy_frame(loop_thread) is None:
                continue
            asked_s = time.monotonic()
            if not self._ask():
                return
            if not self._turned.wait(self._limit_s):
                self._tell(asked_s, loop_thread)

    def _ask(self) -> bool:
        self._turned.clear()
        try:
            self._loop.call_soon_threadsafe(self._turned.set)
        except RuntimeError:  # the loop was closed without a stop
            return False
        return not self._stopped.is_set()

    def _tell(self, asked_s: float, loop_thread: int) -> None:
        while (holder := self._holder(asked_s, loop_thread)) is None:
            if self._turned.wait(self._look_s):
                return
        since_s = max(asked_s, self._suspended_until_s)
        logger.warning(
            "the event loop has not turned for %.1f s, so nobody is served: %s holds it",
            time.monotonic() - since_s,
            holder,
        )
        self._turned.wait()
        if not self._stopped.is_set():
            logger.info("the event loop turns again, after %.1f s; %s held it", time.monotonic() - since_s, holder)

    def _holder(self, asked_s: float, loop_thread: int) -> str | None:
        """Who holds the loop; None: nobody does, or may."""
        if self._suspended or time.monotonic() - max(asked_s, self._suspended_until_s) < self._limit_s:
            return None
        frame = _busy_frame(loop_thread)  # None here: it is this thread, or the whole process, that had no turn
        return None if frame is None else blame(frame, self._sources())


def _busy_frame(loop_thread: int) -> FrameType | None:
    """Where the thread of the loop is; None: it waits for something to happen, so nobody holds it."""
    frame = sys._current_frames().get(loop_thread)
    return None if frame is None or frame.f_globals.get("__name__") in _IDLE else frame


class _Place(NamedTuple):
    """A call that is under way."""

    module: str
    function: str
    line: int

    def __str__(self) -> str:
        return f"{self.module}.{self.function}, line {self.line}"


def blame(frame: FrameType, sources: Sequence[PluginSource]) -> str:
    """Whose call `frame`, the innermost one, belongs to: a plugin's, wherever in the stack, or else
    kqueue's innermost function.
    """
    places = list(_places(frame))
    for place in places:
        source = _source_of(place, sources)
        if source is not None:
            return f"{source.title} ({place})"
    return str(next((place for place in places if place.module.partition(".")[0] == BUILT_IN), places[0]))


def _places(frame: FrameType) -> Iterator[_Place]:
    """From the inside out."""
    inner: FrameType | None = frame
    while inner is not None:
        yield _Place(str(inner.f_globals.get("__name__")), inner.f_code.co_qualname, inner.f_lineno or 0)
        inner = inner.f_back


def _source_of(place: _Place, sources: Sequence[PluginSource]) -> PluginSource | None:
    """The plugin whose function this is, or whose module, or else whose distribution's package it
    is in.
    """
    for source in sources:
        if source.module == place.module and f"{place.function}.".startswith(f"{source.qualname}."):
            return source
    for source in sources:
        if source.module == place.module:
            return source
    package = place.module.partition(".")[0]
    if package == BUILT_IN:
        return None
    return next((source for source in sources if source.module.partition(".")[0] == package), None)
