"""Bounds how many lines of one event a log has, so that clients can't fill a disk with them.

Only events that clients cause have a bound (`LogEvent.is_limited`), and no line of ERROR: of
`LINES_MAX` in a minute the rest is left out, and counted in a line of `LINES_LEFT_OUT`. The minute
of an event begins with its first line; time is that of the lines themselves. So a line that counts
is written before the next line of whatever kind, or at the end.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from kqueue.base import events
from kqueue.base.log_event import LogEvent, event_of

LINES_MAX: Final = 10
"""Of each event and minute."""
MINUTE_S: Final = 60.0


class LineLimit:
    """Says which lines are written. It remembers one number for each event of `table` that has a
    bound.

    Thread: one at a time, as of a handler of `logging`.
    """

    def __init__(self, table: Iterable[LogEvent] = events.EVENTS) -> None:
        self._limited = {event.name for event in table if event.is_limited and event.level < logging.ERROR}
        self._minutes: dict[str, _Minute] = {}

    def admits(self, record: logging.LogRecord) -> bool:
        """Return whether a line is written; count it."""
        name = event_of(record)
        if name not in self._limited or record.levelno >= logging.ERROR:
            return True
        minute = self._minutes.get(name)
        if minute is None or minute.is_over(record.created):
            minute = self._minutes[name] = _Minute(record.created)
        minute.lines += 1
        return minute.lines <= LINES_MAX

    def summaries(self, now_s: float | None = None) -> list[logging.LogRecord]:
        """Return a line for each event some of whose lines were left out in a minute that is over.

        Args: now_s: of the wall clock; None: all minutes are over.
        """
        over = [name for name, minute in self._minutes.items() if now_s is None or minute.is_over(now_s)]
        minutes = {name: self._minutes.pop(name) for name in over}
        return [
            _summary(name, minute.lines - LINES_MAX) for name, minute in minutes.items() if minute.lines > LINES_MAX
        ]


class _Minute:
    __slots__ = ("began_s", "lines")

    def __init__(self, began_s: float) -> None:
        self.began_s = began_s
        self.lines = 0

    def is_over(self, now_s: float) -> bool:
        """Whether a minute has passed, or the clock was set back by more than that."""
        return abs(now_s - self.began_s) >= MINUTE_S


def _summary(name: str, lines: int) -> logging.LogRecord:
    event = events.LINES_LEFT_OUT
    text = f"{name}: {lines:,} more lines were left out within a minute"
    return logging.getLogger("kqueue.log_lines").makeRecord(
        "kqueue.log_lines", event.level, __file__, 0, text, (), None, extra=event.extra(of=name, lines=lines)
    )
