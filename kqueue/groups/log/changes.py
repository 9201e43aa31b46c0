"""The changes of one step in a group: records to append, and how to take each of them back."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kqueue.groups.log.group_log import GroupRecords

Undo = Callable[[], None]


class Change(NamedTuple):
    """A change in memory, the record that says it (None: memory only), and its reverse."""

    record: tuple[bytes, bytes | None] | None
    undo: Undo


class Changes:
    """Changes of a group that are in memory and not yet in the log, in their order.

    Attributes:
        on_committed: called once all are committed.
    """

    def __init__(self) -> None:
        self.on_committed: list[Callable[[], None]] = []
        self._changes: list[Change] = []

    def __len__(self) -> int:
        """Return how many changes there are."""
        return len(self._changes)

    def add(self, key: bytes, value: bytes | None, undo: Undo) -> None:
        """Add a change that was just made in memory; a `value` of None is a tombstone."""
        self._changes.append(Change((key, value), undo))

    def add_unlogged(self, undo: Undo) -> None:
        """Add a change in memory that no record says."""
        self._changes.append(Change(None, undo))

    def records(self, start: int = 0, end: int | None = None) -> GroupRecords:
        """Return the records of the changes from `start` to `end`."""
        return [change.record for change in self._changes[start:end] if change.record is not None]

    def roll_back(self, start: int = 0) -> None:
        """Take back the changes from `start` on, the last one first."""
        while len(self._changes) > start:
            self._changes.pop().undo()
