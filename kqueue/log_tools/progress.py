"""Progress of long work, in bytes."""

from __future__ import annotations

from collections.abc import Callable

ProgressCallback = Callable[[int, int], None]
"""Called with the bytes that are done, and those that there are in all."""

STEP_BYTES = 1024 * 1024


class ProgressMeter:
    """Counts bytes and reports them each MiB, and at the end.

    A call for each batch would cost more than reading the batch.
    """

    def __init__(self, progress: ProgressCallback | None, total: int) -> None:
        self.total = total
        self.done = 0
        self._progress = progress
        self._next = STEP_BYTES if progress is not None else 2**63

    def add(self, size: int) -> None:
        """Count `size` more bytes as done."""
        self.done += size
        if self.done >= self._next:
            assert self._progress is not None
            self._next = self.done + STEP_BYTES
            self._progress(self.done, self.total)

    def finish(self) -> None:
        """Report the total as done, even if some bytes were skipped."""
        if self._progress is not None:
            self._progress(self.total, self.total)
