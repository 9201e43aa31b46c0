"""The log of all changes: what the registry asks of it, and one in memory.

A registry changes nothing by itself. It appends a record, and the record changes its state when it
comes back from the log, as the records of other registries do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple, Protocol

from kqueue.base.clock import wall_ms
from kqueue.base.errors import KqueueError


class StoreUnavailable(KqueueError):
    """The log did not take a record: no broker, not enough replicas, or another registry leads.

    Whether the record is there may be unknown. A log that accepts the next one knows, and its
    reader has passed the first if it is there.
    """


class NotTheWriter(StoreUnavailable):
    """Another registry writes, or none does at present: the record was not written."""


class StoredRecordTooLarge(KqueueError):
    """The log takes no record of this size."""


class SchemaLog(Protocol):
    """One partition of records in one order: `_schemas`.

    Its reader calls `Registry.apply` for every record, in their order, from one thread, and never
    within `append`'s caller holding what `apply` needs.
    """

    def append(self, key: bytes, value: bytes | None) -> int:
        """Write one record; return its offset when it can't be lost (acks=all).

        Args: value: None is a tombstone, which deletes the key when the topic is compacted.
        Raises: StoreUnavailable; StoredRecordTooLarge. Thread: one at a time.
        """
        ...


class LoggedRecord(NamedTuple):
    """A record of a log in memory. `timestamp_ms`: since 1970 UTC."""

    key: bytes
    value: bytes | None
    timestamp_ms: int


Apply = Callable[[int, bytes | None, bytes | None, int], None]
"""Takes offset, key, value and timestamp: `Registry.apply`."""


class InMemorySchemaLog:
    """A log that lasts as long as its object. Each record reaches `apply` before `append` returns.

    Thread: any.
    """

    def __init__(self, now_ms: Callable[[], int] = wall_ms) -> None:
        self.records: list[LoggedRecord] = []
        self._now_ms = now_ms
        self._apply: Apply | None = None
        self._lock = threading.Lock()

    def append(self, key: bytes, value: bytes | None) -> int:
        """Add a record; return its offset, which is its place in `records`."""
        with self._lock:
            offset = len(self.records)
            self.records.append(LoggedRecord(key, value, self._now_ms()))
            if self._apply is not None:
                self._apply(offset, *self.records[offset])
            return offset

    def follow(self, apply: Apply) -> None:
        """Pass on all records, and each that is appended from now on. One at a time."""
        with self._lock:
            for offset, record in enumerate(self.records):
                apply(offset, *record)
            self._apply = apply
