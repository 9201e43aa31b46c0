"""Log lines of a server's process on standard error."""

from __future__ import annotations

import logging

from kqueue.base.terminal import escape_terminal_output, one_line

TIME_AND_LEVEL = "%(asctime)s %(levelname)-7s "


class OneLineFormatter(logging.Formatter):
    """Writes each message as one line, in which names of clients have no control characters."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line of one record, without its traceback."""
        record.message = one_line(record.message)
        return super().formatMessage(record)


class LabelledFormatter(OneLineFormatter):
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
    handler.setFormatter(LabelledFormatter(label) if label else OneLineFormatter(TIME_AND_LEVEL + "%(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.DEBUG if verbose else logging.INFO, force=True)
