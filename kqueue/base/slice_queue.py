"""Background work on many partitions or groups, a few milliseconds per event-loop turn."""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.sliced_task import SlicedWork, run_slice, run_to_end
from kqueue.base.timers import Timers

logger = logging.getLogger("kqueue")
SLICE_MS = 5
STEPS_PER_LOOK = 20
"""Steps between two looks at the clock: one takes from 1 to 50 µs."""


class SliceQueue:
    """Runs sliced work to its end, in the order in which it was added. Belongs to the owner thread.

    The first slice runs within `add` if the queue was empty, so small work is done when `add`
    returns. Work that raises is logged and dropped; the queue continues.
    """

    def __init__(self, timers: Timers, clock: Clock) -> None:
        self._timers = timers
        self._clock = clock
        self._queue: deque[SlicedWork[Any]] = deque()
        self._names: set[str] = set()

    def __len__(self) -> int:
        """Return how many pieces of work have not ended."""
        return len(self._queue)

    def add(self, work: SlicedWork[Any]) -> None:
        """Run `work` to its end, behind the work that was added before."""
        self._queue.append(work)
        if len(self._queue) == 1:
            self._run_slice()

    def add_once(self, name: str, work: SlicedWork[Any]) -> None:
        """`add`, unless earlier work of this name has not ended."""
        if name not in self._names:
            self._names.add(name)
            self.add(self._named(name, work))

    def _named(self, name: str, work: SlicedWork[Any]) -> SlicedWork[None]:
        try:
            yield from work
        finally:
            self._names.discard(name)

    def finish(self) -> None:
        """Run all work to its end. Blocks."""
        while self._queue:
            try:
                run_to_end(self._queue[0])
            except Exception:
                events.INTERNAL_ERROR.log(logger, "work in slices failed, the rest of it is not done", exc_info=True)
            self._queue.popleft()

    def _run_slice(self) -> None:
        end_ms = self._clock.monotonic_ms() + SLICE_MS
        while self._queue and (left_ms := end_ms - self._clock.monotonic_ms()) > 0:
            try:
                run_slice(self._queue[0], self._clock, left_ms, steps_per_look=STEPS_PER_LOOK)
            except StopIteration:
                self._queue.popleft()
            except Exception:
                events.INTERNAL_ERROR.log(logger, "work in slices failed, the rest of it is not done", exc_info=True)
                self._queue.popleft()
        if self._queue:  # the timer is due at once, but runs in a later turn of the loop
            self._timers.at(self._clock.monotonic_ms(), self._run_slice)
