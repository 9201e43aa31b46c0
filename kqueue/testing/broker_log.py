"""The broker's log lines of one test, kept apart from those that the test itself looks at."""

from __future__ import annotations

import logging
from collections import deque

LINES_MAX = 200
LEVEL = logging.INFO - 1
"""A level that nobody else sets: where it still stands, the level is ours."""


class BrokerLog(logging.Handler):
    """Keeps what the broker logs from INFO on: `lines`, the last `LINES_MAX` since `begin`.

    What it lets pass to the handlers above (pytest's own among them) is what they would have had without it: lines at or above the
    level that was in force, or that somebody sets for the loggers of kqueue.
    """

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
        self.lines: deque[str] = deque(maxlen=LINES_MAX)
        self._logger = logging.getLogger("kqueue")
        self._level = self._logger.level

    def install(self) -> None:
        """Listen from now on. A level of DEBUG that is in force stays."""
        self._level = self._logger.level
        if self._logger.getEffectiveLevel() > logging.INFO:
            self._logger.setLevel(LEVEL)
        self._logger.addHandler(self)
        self._logger.propagate = False

    def remove(self) -> None:
        """All as it was before `install`."""
        self._logger.removeHandler(self)
        self._logger.propagate = True
        if self._logger.level == LEVEL:
            self._logger.setLevel(self._level)

    def begin(self) -> None:
        """A test begins: what was kept belongs to another."""
        self.lines.clear()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))

    def handle(self, record: logging.LogRecord) -> bool:
        kept = super().handle(record)
        parent = self._logger.parent
        if parent is not None and self._would_pass(record):
            parent.callHandlers(record)
        return kept

    def _would_pass(self, record: logging.LogRecord) -> bool:
        """Whether this line would have been logged without us."""
        origin: logging.Logger | None = logging.getLogger(record.name)
        while origin is not None and origin is not self._logger:
            if origin.level:
                return True  # a level that somebody has set, and that let it pass
            origin = origin.parent
        if self._logger.level != LEVEL:
            return True
        before = self._level or logging.getLogger().getEffectiveLevel()
        return record.levelno >= before
