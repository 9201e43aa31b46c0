"""Log lines of a server's process on standard error."""

from __future__ import annotations

import logging

from kqueue.base.terminal import escape_terminal_output

TIME_AND_LEVEL = "%(asctime)s %(levelname)-7s "


class LabelledFormatter(logging.Formatter):
    """Writes the label of a process in each line, those of a traceback included."""

    def __init__(self, label: str) -> None:
        super().__init__(f"{TIME_AND_LEVEL}{label}: %(message)s")
        self._next_line = f"\n{label}: "

    def format(self, record: logging.LogRecord) -> str:
        """Return one record's lines."""
        return super().format(record).replace("\n", self._next_line)


def log_to_stderr(*, verbose: bool, label: str | None = None) -> None:
    """Write all log lines to standard error. `label`: of one of several processes that write to
    it.
    """
    escape_terminal_output()  # names in the lines come from clients
    handler = logging.StreamHandler()
    handler.setFormatter(LabelledFormatter(label) if label else logging.Formatter(TIME_AND_LEVEL + "%(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.DEBUG if verbose else logging.INFO, force=True)
