"""Work on many partitions or groups, some of them in each turn of the loop, so that no client waits
for all of it.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Iterator
from itertools import islice

from kqueue.base.clock import Clock
from kqueue.base.timers import Timers

logger = logging.getLogger("kqueue")
SLICE_MS = 5
STEPS_PER_LOOK = 20
"""Steps between two looks at the clock: one takes from 1 to 50 µs."""


class SliceQueue:
    """Runs iterators in the order in which they were added, a few ms per turn. Belongs to the owner
    thread.

    The first steps run within `add` if nothing is under way, so a small job is done when `add`
    returns.
    """

    def __init__(self, timers: Timers, clock: Clock) -> None:
        self._timers = timers
        self._clock = clock
        self._queue: deque[Iterator[object]] = deque()
        self._names: set[str] = set()

    def __len__(self) -> int:
        """How many iterators are not at their end."""
        return len(self._queue)

    def add_once(self, name: str, steps: Iterator[object]) -> None:
        """`add`, unless an earlier one of this name has not come to its end."""
        if name not in self._names:
            self._names.add(name)
            self.add(self._named(name, steps))

    def _named(self, name: str, steps: Iterator[object]) -> Iterator[object]:
        try:
            yield from steps
        finally:
            self._names.discard(name)

    def add(self, steps: Iterator[object]) -> None:
        """Run `steps` to its end, behind those that were added before."""
        self._queue.append(steps)
        if len(self._queue) == 1:
            self._go_on()

    def finish(self) -> None:
        """Run all that is left, now. Blocks."""
        while self._queue:
            self._run(sys.maxsize)

    def _go_on(self) -> None:
        until_ms = self._clock.monotonic_ms() + SLICE_MS
        while self._queue and self._clock.monotonic_ms() < until_ms:
            self._run(STEPS_PER_LOOK)
        if self._queue:
            self._timers.at(self._clock.monotonic_ms(), self._go_on)  # at once, but in another turn of the loop

    def _run(self, steps: int) -> None:
        """Run some steps of the first iterator. One that raises is logged and given up; the others
        go on.
        """
        try:
            if sum(1 for _ in islice(self._queue[0], steps)) < steps:
                self._queue.popleft()
        except Exception:
            logger.exception("work in slices failed, the rest of it is not done")
            self._queue.popleft()
