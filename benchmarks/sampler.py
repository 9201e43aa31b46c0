"""`python -m benchmarks.sampler FILE COMMAND...`: runs kqueue's command line, and samples it.

The timer runs while the process uses a processor, so a process that waits is not sampled. A
sample is the Python function that the main thread is in, or comes back to from a system call; the
time of other threads counts for what the main thread does meanwhile. USR1 begins, USR2 ends and
writes the counts.
"""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

HERTZ = 250
"""The kernel's own ticks are no finer."""


class Sampler:
    """Counts samples by file and function, and writes them to a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._counts: Counter[tuple[str, str]] = Counter()

    def install(self) -> None:
        """Handle the signals."""
        signal.signal(signal.SIGPROF, self._take)
        signal.signal(signal.SIGUSR1, self._begin)
        signal.signal(signal.SIGUSR2, self._end)

    def _take(self, _: int, frame: FrameType | None) -> None:
        if frame is not None:
            self._counts[frame.f_code.co_filename, frame.f_code.co_qualname] += 1

    def _begin(self, _: int, __: FrameType | None) -> None:
        self._counts.clear()
        signal.setitimer(signal.ITIMER_PROF, 1 / HERTZ, 1 / HERTZ)

    def _end(self, _: int, __: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps([[*place, count] for place, count in self._counts.items()]))
        fresh.replace(self._file)


if __name__ == "__main__":
    from kqueue.cli import main

    Sampler(Path(sys.argv[1])).install()
    sys.argv[1:] = sys.argv[2:]
    main()
