"""Events of the log: each line has the stable name of one, by which people and programs find it.

`kqueue.base.events` is the table of all of them. A line is written by its event:

    events.DISK_FULL.log(logger, "%s is full: %s", location=folder, error=error)

The fields fill the text in their order, as arguments of `logging` do, and are on the record by
their names (`record.fields`), beside the name of the event (`record.event`). Who calls `logging`
directly gives ``extra=EVENT.extra(...)``.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

EVENT: Final = "event"
"""The attribute of a log record that holds the name of its event."""
FIELDS: Final = "fields"
"""The attribute of a log record that holds the values by their names."""

LOG_FORMAT: Final = "kqueue.log.format"
"""The setting of the form in which `kqueue serve` writes lines."""
TEXT_LENGTH_MAX: Final = 1000
"""Characters of one value: names of clients may have 32 KB."""


class LogEvent(NamedTuple):
    """One row of the table.

    Attributes:
        name: ``subject.what-happened``; it does not change between versions.
        level: of `logging`.
        meaning: one sentence.
        action: what an operator does; "" if nothing.
        is_limited: whether clients can cause as many lines as they like, so that `kqueue serve`
            writes only some of each minute.
    """

    name: str
    level: int
    meaning: str
    action: str = ""
    is_limited: bool = False

    def log(
        self,
        logger: logging.Logger,
        text: str,
        /,
        *,
        exc_info: BaseException | bool | None = None,
        **fields: object,
    ) -> None:
        """Write one line.

        Args:
            text: with one placeholder for each of the fields, in their order.
            exc_info: the error whose traceback follows; True: the one that is being handled.
        """
        extra = {EVENT: self.name, FIELDS: fields}
        logger.log(self.level, text, *fields.values(), exc_info=exc_info, extra=extra, stacklevel=2)

    def extra(self, **fields: object) -> dict[str, Any]:
        """Return the argument ``extra`` of a call of `logging`, for a text without placeholders."""
        return {EVENT: self.name, FIELDS: fields}


class ForwardedLine(NamedTuple):
    """A line of another process, to be logged in this one; picklable. The values of `fields` are
    numbers, texts and None.
    """

    level: int
    text: str
    event: str | None
    fields: Mapping[str, int | float | str | None]

    @classmethod
    def of(cls, record: logging.LogRecord, text: str) -> ForwardedLine:
        """Return the line of a record; `text`: formatted, with its traceback."""
        return cls(record.levelno, text, event_of(record), plain_fields(record))

    def log(self, logger: logging.Logger) -> None:
        """Write the line."""
        logger.log(self.level, "%s", self.text, extra={EVENT: self.event, FIELDS: dict(self.fields)})


def event_of(record: logging.LogRecord) -> str | None:
    """Return the name of a record's event; None: it is of a library, or below INFO."""
    return getattr(record, EVENT, None)


def plain_fields(record: logging.LogRecord) -> dict[str, int | float | str | None]:
    """Return the values of a record by their names, empty without an event. All but numbers and
    None are texts of at most `TEXT_LENGTH_MAX` characters.
    """
    fields: Mapping[str, object] = getattr(record, FIELDS, {})
    return {name: _plain(value) for name, value in fields.items()}


def _plain(value: object) -> int | float | str | None:
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float) and math.isfinite(value):  # JSON has no others
        return value
    try:
        text = str(value)
    except Exception as error:  # of a plugin's class: its line must not be lost
        return f"{type(value).__name__} without a text: {type(error).__name__}"
    return text if len(text) <= TEXT_LENGTH_MAX else f"{text[:TEXT_LENGTH_MAX]}... ({len(text)} characters)"
