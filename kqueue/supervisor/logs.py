"""Log lines of a server's process on standard error, as text for people or as JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from kqueue.base.log_event import LOG_FORMAT, event_of, plain_fields
from kqueue.base.terminal import escape_terminal_output, escaped, one_line
from kqueue.supervisor.line_limit import LineLimit

if TYPE_CHECKING:
    from kqueue.config.properties import SourcedValue

TIME_AND_LEVEL: Final = "%(asctime)s %(levelname)-7s "
JSON: Final = "json"


class OneLineFormatter(logging.Formatter):
    """Writes each message as one line. Names of clients have no control characters, in tracebacks
    neither.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line of one record, without its traceback."""
        record.message = one_line(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: logging._SysExcInfoType | tuple[None, None, None]) -> str:
        """Return the lines of a traceback."""
        return escaped(super().formatException(ei))


class LabelledFormatter(OneLineFormatter):
    """Writes the label of a process in each line, those of a traceback included."""

    def __init__(self, label: str) -> None:
        super().__init__(f"{TIME_AND_LEVEL}{label}: %(message)s")
        self._next_line = f"\n{label}: "

    def format(self, record: logging.LogRecord) -> str:
        """Return one record's lines."""
        return super().format(record).replace("\n", self._next_line)


class JsonFormatter(logging.Formatter):
    """Writes each record as one object of ASCII characters on one line. docs/log-events.md has the
    keys.

    Args: label: of one of several processes that write to the same stream.
    """

    def __init__(self, label: str | None = None) -> None:
        super().__init__()
        self._label = label

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of one record."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        document: dict[str, object] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname,
            "event": event_of(record),
            "logger": record.name,
            "message": _message_of(record),
        }
        if self._label is not None:
            document["process"] = self._label
        if fields := plain_fields(record):
            document["fields"] = fields
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            document["stack"] = record.stack_info
        return json.dumps(document)


def _message_of(record: logging.LogRecord) -> str:
    """Return the message. A library's text may not fit its arguments: `logging` would write a
    traceback in its place, which is no line of JSON.
    """
    try:
        return record.getMessage()
    except Exception as error:
        return f"{record.msg} (its arguments do not fit: {error})"


class LogOutput(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes the lines of this process to standard error. Until `use` it holds them: their form is
    a setting, and reading settings has lines of its own.
    """

    def __init__(self, label: str | None = None) -> None:
        super().__init__()
        self._label = label
        self._held: list[logging.LogRecord] | None = []
        self._limit = LineLimit()
        self.is_json = False

    def use(self, form: object) -> None:
        """Write in this form from now on: ``json``, or anything else for people."""
        with self.lock or nullcontext():
            self.is_json = form == JSON
            if self.is_json:
                self.setFormatter(JsonFormatter(self._label))
                logging.captureWarnings(True)
            elif self._label is not None:
                self.setFormatter(LabelledFormatter(self._label))
            else:
                self.setFormatter(OneLineFormatter(TIME_AND_LEVEL + "%(message)s"))
            held, self._held = self._held, None
            for record in held or ():
                self.emit(record)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record, and before it what is due of lines that were left out."""
        if self._held is not None:
            self._held.append(record)
            return
        for summary in self._limit.summaries(record.created):
            super().emit(summary)
        if self._limit.admits(record):
            super().emit(record)

    def close(self) -> None:
        """Write what is due, at the end of the process."""
        if self._held is not None:  # the settings could not be read
            self.use(None)
        for summary in self._limit.summaries():
            super().emit(summary)
        if self.is_json:
            logging.captureWarnings(False)
        super().close()


def log_to_stderr(*, verbose: bool, label: str | None = None) -> LogOutput:
    """Write all log lines to standard error, once the result knows their form.

    Args: label: of one of several processes that write to it.
    """
    escape_terminal_output()  # names in the lines come from clients
    output = LogOutput(label)
    logging.basicConfig(handlers=[output], level=logging.DEBUG if verbose else logging.INFO, force=True)
    return output


def given_form(given: Mapping[str, SourcedValue]) -> object:
    """Return the form that settings ask for before they are checked; None: they do not say."""
    sourced = given.get(LOG_FORMAT)
    return None if sourced is None else sourced.value
