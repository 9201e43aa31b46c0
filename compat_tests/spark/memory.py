"""How much memory a process and all that it started take at most, looked at now and then."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

import psutil

EVERY_S = 0.25


def tree_bytes(process: psutil.Process, enough: int) -> int:
    """What a process and its descendants hold now.

    Pages that several of them share count in each (RSS), which is quick to ask and never too
    little. Only where that is more than `enough` are they asked what is theirs (PSS, where the
    system knows it). A Java that starts a program is there twice for a moment, with the same
    memory, and counts once.
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
    except psutil.Error:  # it has ended meanwhile
        return 0
    return int(getattr(info, "pss", 0) or info.rss)


class Peak:
    """``with Peak(enough) as peak``: looks in a thread of its own; `peak.bytes` is the most that
    was seen.
    """

    def __init__(self, enough: int, every_s: float = EVERY_S) -> None:
        self.bytes = 0
        self._enough = enough
        self._every_s = every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        process = psutil.Process()
        while not self._ended.wait(self._every_s):
            self.bytes = max(self.bytes, tree_bytes(process, self._enough))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
