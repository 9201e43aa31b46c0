"""Records of `kqueue consume` whose keys and values are decoded by the schemas of a registry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import click

from kqueue.cli.formats import ConsumedRecord
from kqueue.console.messages.plain_values import plain_text
from kqueue.console.messages.schema_values import SchemaSettings, SchemaValues

WARNINGS_MAX = 10
"""Different reasons that are written to standard error; later ones are not."""
Write = Callable[[ConsumedRecord], bytes]


@dataclass(slots=True)
class DecodedRecord:
    """A record whose key and value are JSON on one line, if they were written by a schema."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    timestamp_type: int | None
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class RecordDecoder:
    """Decodes what begins with the frame of a registry, and leaves all else as it is.

    What can't be decoded stays as it is too: the reason is written to standard error, once.
    """

    def __init__(self, settings: SchemaSettings) -> None:
        self._values = SchemaValues(settings)
        self._reasons: set[str] = set()

    def writing(self, write: Write) -> Write:
        """Return a function that formats decoded records with `write`."""
        return lambda record: write(self.decode(record))

    def decode(self, record: ConsumedRecord) -> ConsumedRecord:
        """Return a record, decoded."""
        return DecodedRecord(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp,
            record.timestamp_type,
            self._decoded(record, record.key, is_key=True),
            self._decoded(record, record.value, is_key=False),
            record.headers,
        )

    def _decoded(self, record: ConsumedRecord, data: bytes | None, *, is_key: bool) -> bytes | None:
        if data is None or not self._values.applies_to(data, is_key=is_key):
            return data
        try:
            return plain_text(self._values.decode(data, is_key=is_key).value).encode("utf-8", "backslashreplace")
        except (ValueError, RecursionError) as error:
            self._warn(
                f"{'key' if is_key else 'value'} of offset {record.offset} in partition {record.partition}", error
            )
            return data

    def _warn(self, what: str, error: Exception) -> None:
        reason = str(error) or type(error).__name__
        if reason not in self._reasons and len(self._reasons) < WARNINGS_MAX:
            self._reasons.add(reason)
            click.echo(f"Warning: the {what} is printed as it is: {reason}", err=True)
