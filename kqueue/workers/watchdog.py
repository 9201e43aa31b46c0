"""Reports which function or plugin blocks the event loop: meanwhile no client is served."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple

from kqueue.base import events
from kqueue.base.clock import monotonic_s
from kqueue.base.registry import BUILT_IN, PluginSource

LOOK_S_MAX = 0.25
_IDLE = ("selectors", "asyncio.windows_events")
logger = logging.getLogger("kqueue.workers.watchdog")  # a logger of its own, so that it can be disabled


class Watchdog:
    """A thread that checks whether the loop runs its callbacks.

    When it has not for `limit_ms`, one line at WARNING names the call that blocks it: a plugin's,
    by name and distribution, else a function of kqueue. When it runs again, one line at INFO says
    how long that took.

    Args:
        limit_ms: 0: no thread.
        sources: returns the plugins and their modules; called only while the loop is blocked.
    Thread: `start`, `stop` and `suspended` belong to the loop's thread. Watching begins in the
        loop's next iteration.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limit_ms: int, sources: Callable[[], Sequence[PluginSource]]
    ) -> None:
        self._loop = loop
        self._limit_s = limit_ms / 1000
        self._look_s = min(self._limit_s / 4, LOOK_S_MAX)
        self._sources = sources
        self._stopped = threading.Event()
        self._has_run = threading.Event()
        self._suspended = 0
        self._suspended_until_s = 0.0
        self._first: asyncio.Handle | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread in the loop's next iteration."""
        if self._limit_s:
            # later: the start of the server does not wait for a thread
            self._first = self._loop.call_soon(self._begin, threading.get_ident())

    def stop(self) -> None:
        """End the thread. A second call, or one without a start, does nothing."""
        if self._first is not None:
            self._first.cancel()
        self._stopped.set()
        self._has_run.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Report nothing within this `with`: its code may block the loop."""
        self._suspended += 1
        try:
            yield
        finally:
            self._suspended_until_s = monotonic_s()
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
            posted_s = monotonic_s()
            if not self._post():
                return
            if not self._has_run.wait(self._limit_s):
                self._report(posted_s, loop_thread)

    def _post(self) -> bool:
        self._has_run.clear()
        try:
            self._loop.call_soon_threadsafe(self._has_run.set)
        except RuntimeError:  # the loop was closed without a stop
            return False
        return not self._stopped.is_set()

    def _report(self, posted_s: float, loop_thread: int) -> None:
        while (holder := self._holder(posted_s, loop_thread)) is None:
            if self._has_run.wait(self._look_s):
                return
        since_s = max(posted_s, self._suspended_until_s)
        events.LOOP_BLOCKED.log(
            logger,
            "the event loop has been blocked for %.1f s, so no client is served: %s holds it",
            seconds=monotonic_s() - since_s,
            holder=holder,
        )
        self._has_run.wait()
        if not self._stopped.is_set():
            events.LOOP_RUNS_AGAIN.log(
                logger,
                "the event loop runs again after %.1f s; %s held it",
                seconds=monotonic_s() - since_s,
                holder=holder,
            )

    def _holder(self, posted_s: float, loop_thread: int) -> str | None:
        """Return the call that blocks the loop; None: none, or it is allowed to."""
        if self._suspended or monotonic_s() - max(posted_s, self._suspended_until_s) < self._limit_s:
            return None
        frame = _busy_frame(loop_thread)  # None: this thread, or the whole process, was not scheduled
        return None if frame is None else blocking_call(frame, self._sources())


def _busy_frame(loop_thread: int) -> FrameType | None:
    """Return the innermost frame of the loop's thread; None: it waits for events."""
    frame = sys._current_frames().get(loop_thread)
    return None if frame is None or frame.f_globals.get("__name__") in _IDLE else frame


class _Call(NamedTuple):
    """A call on the stack."""

    module: str
    function: str
    line: int

    def __str__(self) -> str:
        return f"{self.module}.{self.function}, line {self.line}"


def blocking_call(frame: FrameType, sources: Sequence[PluginSource]) -> str:
    """Return the call that `frame`, the innermost one, belongs to: a plugin's, anywhere in the
    stack, else kqueue's innermost function.
    """
    calls = list(_calls(frame))
    for call in calls:
        source = _source_of(call, sources)
        if source is not None:
            return f"{source.title} ({call})"
    return str(next((call for call in calls if call.module.partition(".")[0] == BUILT_IN), calls[0]))


def _calls(frame: FrameType) -> Iterator[_Call]:
    """Yield the calls of the stack, innermost first."""
    inner: FrameType | None = frame
    while inner is not None:
        yield _Call(str(inner.f_globals.get("__name__")), inner.f_code.co_qualname, inner.f_lineno or 0)
        inner = inner.f_back


def _source_of(call: _Call, sources: Sequence[PluginSource]) -> PluginSource | None:
    """Return the plugin with this function, else with this module, else with its package."""
    for source in sources:
        if source.module == call.module and f"{call.function}.".startswith(f"{source.qualname}."):
            return source
    for source in sources:
        if source.module == call.module:
            return source
    package = call.module.partition(".")[0]
    if package == BUILT_IN:
        return None
    return next((source for source in sources if source.module.partition(".")[0] == package), None)
