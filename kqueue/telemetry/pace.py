"""Keeps threads that compute from holding up the broker's thread."""

from __future__ import annotations

from kqueue.base.clock import monotonic_s, sleep

WORK_S, PAUSE_S = 0.001, 0.001
"""A thread that only computes holds the interpreter for 5 ms, and each system call of the broker's
thread waits for it anew. So after `WORK_S` the interpreter is free for `PAUSE_S`.
"""


class Pace:
    """Pauses a thread that writes text, so that the broker's thread goes on."""

    def __init__(self) -> None:
        self._until_s = monotonic_s() + WORK_S

    def keep(self) -> None:
        """Pause, if it is time to."""
        if monotonic_s() >= self._until_s:
            sleep(PAUSE_S)
            self._until_s = monotonic_s() + WORK_S
