"""Verifies the indexes of a segment against its batches, entry by entry in one pass.

An index may name the last offset of several batches that were appended at once (followers, old
formats), and compaction leaves the last offset that it kept. Such entries lead to the right
position; they count as `loose`.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Iterator

from kqueue.log.formats.offset_index import ENTRY as INDEX_ENTRY
from kqueue.log.formats.time_index import ENTRY as TIME_ENTRY
from kqueue.log.formats.time_index import NO_TIMESTAMP

ReportMismatch = Callable[[int | None, str, str], None]
"""Called with position, expected, found."""


class _Entries:
    """The entries of an index file in order.

    `padded`: entries of zeros at the end (preallocation).
    """

    def __init__(self, data: memoryview, entry: struct.Struct) -> None:
        self.count = _without_zeros(data, entry.size)
        self.padded = len(data) // entry.size - self.count
        self.left_over = len(data) % entry.size
        self.number = -1
        self._entries: Iterator[tuple[int, ...]] = entry.iter_unpack(data[: self.count * entry.size])
        self._ahead = next(self._entries, None)
        self._size = entry.size

    def next(self) -> tuple[int, ...] | None:
        self.number += 1
        entry, self._ahead = self._ahead, next(self._entries, None)
        return entry

    def stands_out(self, entry: tuple[int, ...], last: tuple[int, ...]) -> bool:
        """Return whether `entry` is the wrong one: the next entry fits `last`, but not `entry`."""
        ahead = self._ahead
        return ahead is not None and any(map(operator.le, ahead, entry)) and all(map(operator.gt, ahead, last))

    @property
    def position(self) -> int:
        """Position of the last returned entry, bytes."""
        return self.number * self._size


def _without_zeros(data: memoryview, size: int) -> int:
    """Return the number of entries before the zeros at the end."""
    count = len(data) // size
    step = 4096
    zeros = bytes(step * size)
    while count >= step and data[(count - step) * size : count * size] == zeros:
        count -= step
    zero = zeros[:size]
    while count and data[(count - 1) * size : count * size] == zero:
        count -= 1
    return count


class OffsetIndexVerifier:
    """Verifies `.index`: each entry is the last offset of a batch and the batch's position.

    Args:
        data: the file.
        base: base offset of the segment.
        report: receives errors.
        loose: receives entries that are errors only in a log that was never compacted.
    """

    def __init__(self, data: memoryview, base: int, report: ReportMismatch, loose: ReportMismatch) -> None:
        self._entries = _Entries(data, INDEX_ENTRY)
        self.padded = self._entries.padded
        self._base = base
        self._report = report
        self._loose = loose
        self._last = (-1, 0)
        self._before = base - 1  # last offset of the previous batch
        self._owed: int | None = None  # an entry's offset that must be a later batch's last
        self.next_position = -1
        self._offset = 0
        if self._entries.left_over:
            report(
                len(data) - self._entries.left_over,
                f"entries of {INDEX_ENTRY.size} bytes",
                f"{self._entries.left_over} bytes left over",
            )
        self._advance()

    def batch(self, position: int, last_offset: int) -> None:
        """Verify the entries up to the next batch."""
        if self._owed is not None and last_offset >= self._owed:
            if last_offset > self._owed:
                self._loose(None, f"the last offset of a batch, such as {last_offset}", str(self._owed))
            self._owed = None
        while 0 <= self.next_position <= position:
            at = self._entries.position
            if self.next_position < position:
                self._report(at, "the position of a batch", f"{self.next_position}, where none begins")
            elif self._offset <= self._before:
                self._report(at, f"offset {last_offset} at position {position}", str(self._offset))
            elif self._offset < last_offset:
                self._loose(at, f"offset {last_offset} at position {position}", str(self._offset))
            elif self._offset > last_offset:
                self._owed = self._offset
            self._advance()
        self._before = last_offset

    def skip(self, end: int) -> None:
        """Skip the entries that lead into damaged bytes, which end at position `end`."""
        while 0 <= self.next_position < end:
            self._advance()
        self._owed = None

    def close(self, size: int) -> None:
        """Report the entries beyond the log file, which has `size` bytes."""
        if self._owed is not None:
            self._report(None, f"offsets up to {self._before}", str(self._owed))
        while self.next_position >= 0:
            self._report(
                self._entries.position, f"a position below {size}, where a batch begins", str(self.next_position)
            )
            self._advance()

    def _advance(self) -> None:
        while (entry := self._entries.next()) is not None:
            relative, position = entry
            if (
                relative > self._last[0]
                and position > self._last[1]
                and not self._entries.stands_out(entry, self._last)
            ):
                self._last = relative, position
                self._offset, self.next_position = self._base + relative, position
                return
            self._report(self._entries.position, f"an entry in order, above {self._last}", str((relative, position)))
        self.next_position = -1


class TimeIndexVerifier:
    """Verifies `.timeindex`: each entry is the greatest timestamp up to an offset."""

    def __init__(self, data: memoryview, base: int, report: ReportMismatch) -> None:
        self._entries = _Entries(data, TIME_ENTRY)
        self.padded = self._entries.padded
        self._base = base
        self._report = report
        self._last = (NO_TIMESTAMP, 0)
        self.greatest = NO_TIMESTAMP
        self._uncertain = False  # batches with unknown timestamps were skipped
        self._skipping = False
        self.next_offset = -1
        self._timestamp = NO_TIMESTAMP
        if self._entries.left_over:
            report(
                len(data) - self._entries.left_over,
                f"entries of {TIME_ENTRY.size} bytes",
                f"{self._entries.left_over} bytes left over",
            )
        self._advance()

    def batch(self, first_offset: int, last_offset: int, max_timestamp: int) -> None:
        """Verify the entries up to the next batch."""
        while self._skipping and 0 <= self.next_offset < first_offset:
            self._advance()
        self._skipping = False
        if max_timestamp > self.greatest:
            self.greatest = max_timestamp
        while 0 <= self.next_offset <= last_offset:
            wrong = self._timestamp < self.greatest if self._uncertain else self._timestamp != self.greatest
            if wrong:
                self._report(
                    self._entries.position,
                    f"timestamp {self.greatest} up to offset {self.next_offset}",
                    str(self._timestamp),
                )
            self._advance()

    def skip(self) -> None:
        """Note that damaged bytes were skipped, whose timestamps are unknown."""
        self._uncertain = self._skipping = True

    def close(self, last_offset: int, *, sealed: bool) -> None:
        """Verify the end of the index against the log's `last_offset`.

        Args:
            sealed: the index must end with an entry for the segment's greatest timestamp.
        """
        beyond = False
        while self.next_offset >= 0:
            beyond = True
            if not self._uncertain:
                self._report(self._entries.position, f"offsets up to {last_offset}", str(self.next_offset))
            self._advance()
        if sealed and not beyond and not self._uncertain and self._last[0] < self.greatest:
            self._report(
                None, f"a last entry for the segment's greatest timestamp, {self.greatest}", f"one for {self._last[0]}"
            )

    def _advance(self) -> None:
        while (entry := self._entries.next()) is not None:
            timestamp, relative = entry
            if (
                timestamp > self._last[0]
                and relative >= self._last[1]
                and not self._entries.stands_out(entry, self._last)
            ):
                self._last = timestamp, relative
                self._timestamp, self.next_offset = timestamp, self._base + relative
                return
            self._report(self._entries.position, f"an entry in order, above {self._last}", str((timestamp, relative)))
        self.next_offset = -1
