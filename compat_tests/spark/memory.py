"""Measures the peak memory of a process and its descendants by sampling."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Self

import psutil

EVERY_S = 0.25


def tree_bytes(process: psutil.Process, enough: int) -> int:
    """Return the bytes that a process and its descendants use now.

    RSS counts shared pages in each process: it is cheap and never too small. PSS (where the system
    has it) is read only if the RSS sum exceeds `enough`. A Java process that forks appears twice
    for a moment and is counted once.
    """
    family = [process, *process.children(recursive=True)]
    own = [one for one in family if not _is_shadow(one)]
    total = sum(_bytes(one, exact=False) for one in own)
    return total if total <= enough else sum(_bytes(one, exact=True) for one in own)


def _is_shadow(process: psutil.Process) -> bool:
    try:
        parent = process.parent()
        return parent is not None and process.exe().endswith("/java") and process.cmdline() == parent.cmdline()
    except psutil.Error:
        return False


def _bytes(process: psutil.Process, *, exact: bool) -> int:
    try:
        info = process.memory_full_info() if exact else process.memory_info()
    except psutil.Error:  # the process has ended
        return 0
    return int(getattr(info, "pss", 0) or info.rss)


class Peak:
    """Samples in a thread: ``with Peak(enough) as peak``.

    Attributes:
        bytes: the maximum so far.
        test: the test in which it was reached, as pytest names it; empty: outside of one.
    """

    def __init__(self, enough: int, every_s: float = EVERY_S) -> None:
        self.bytes = 0
        self.test = ""
        self._enough = enough
        self._every_s = every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        process = psutil.Process()
        while not self._ended.wait(self._every_s):
            now = tree_bytes(process, self._enough)
            if now > self.bytes:
                self.bytes, self.test = now, os.environ.get("PYTEST_CURRENT_TEST", "")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
