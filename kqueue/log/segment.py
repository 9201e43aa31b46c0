"""A segment: consecutive batches of a log in one file, with indexes. Only the last is active."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Final, NamedTuple

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.errors import CorruptBatch, CorruptIndex, DiskFull, StorageUnavailable
from kqueue.log.formats.filenames import LOG, file_name
from kqueue.log.formats.offset_index import ENTRY as INDEX_ENTRY
from kqueue.log.formats.offset_index import RELATIVE_OFFSET_MAX, IndexEntry
from kqueue.log.formats.time_index import ENTRY as TIME_ENTRY
from kqueue.log.formats.time_index import NO_TIMESTAMP, TimeEntry
from kqueue.log.recovery.read_verification import DamagedBatch, SegmentVerification, scan_undamaged
from kqueue.log.scanner.batch_scanner import AnyHeader, ScannedBatch, first_offset, scan
from kqueue.log.segment_files import SegmentFiles
from kqueue.log.views import SegmentView
from kqueue.storage import Storage

SEARCH_CHUNK_BYTES = 8 * 1024
ENTRIES_TRIED = 3
STEP_BATCHES = 64
POSITION_MAX = 2**31 - 1
_UNREAD: Final = -(2**63) - 1  # a timestamp that is in a file and not read yet; below every timestamp
logger = logging.getLogger("kqueue.log")


class LocatedBatch(NamedTuple):
    """A batch (or message of an old format) and its byte position in the segment's file."""

    position: int
    unit: AnyHeader


class Segment:
    """One segment.

    Attributes:
        files: its open files; `log`, `index`, `timeindex` and `txnindex` are those of `files`.
        base: first offset.
        created_ms: wall clock when this object was made.
        size: bytes of batches in the log file.
        unverified_size: bytes that were in the file when it was opened and whose checksums are not
            all compared yet (see `recovery.read_verification`); 0: all are.
        indexes_full: an index has reached segment.index.bytes.
        index_mismatch: a look-up found an index that does not fit the log; reads scan instead.
    Durability: nothing is synced here, except by `truncate_to`; see `segment_files`.
    """

    __slots__ = (
        "_checks", "_max_timestamp", "_max_timestamp_offset", "_modified_ms", "_modified_size", "_rolling_timestamp",
        "_unindexed", "base", "created_ms", "files", "index", "index_mismatch", "indexes_full", "log", "size",
        "timeindex", "txnindex", "unverified_size",
    )  # fmt: skip

    def __init__(self, files: SegmentFiles, created_ms: int) -> None:
        self.files = files
        self.base = files.base
        self.created_ms = created_ms
        # bound once: every append and look-up uses them
        self.log, self.index, self.timeindex, self.txnindex = files.log, files.index, files.timeindex, files.txnindex
        self.size = self.unverified_size = self._modified_size = self.log.size
        self._modified_ms: int | None = None  # when the file first had `_modified_size` bytes; None: not read yet
        self.indexes_full = False
        self._checks: SegmentVerification | None = None
        self.index_mismatch = False
        self._unindexed = 0
        self._max_timestamp = _UNREAD
        self._max_timestamp_offset = files.base
        self._rolling_timestamp = _UNREAD  # max timestamp of the first batch

    def __repr__(self) -> str:
        return f"Segment({self.files.folder}/{self.base})"

    @classmethod
    def open(
        cls,
        storage: Storage,
        folder: str,
        base: int,
        created_ms: int,
        *,
        create: bool = False,
        sizes: dict[str, int] | None = None,
    ) -> Segment:
        """Open the segment's files; for `create`, `sizes` and errors see `SegmentFiles`."""
        return cls(SegmentFiles(storage, folder, base, create=create, sizes=sizes), created_ms)

    # --- appending

    def append(
        self,
        data: bytes | bytearray | memoryview,
        last_offset: int,
        max_timestamp: int,
        interval_bytes: int,
        index_bytes_max: int,
    ) -> int:
        """Write one batch at the end, index it, and return its position.

        Durability: a crash before a flush may lose any part of it; recovery truncates the file
            after the last whole batch.
        Raises: StorageFailed: the file may end in a partial batch. StorageUnavailable: nothing
            changed.
        """
        if self._max_timestamp == _UNREAD:
            self._load_max_timestamp()
        try:
            position = self.log.append(data)
        except DiskFull:
            self.log.truncate(self.size)  # needs no room
            raise
        size = len(data)
        # Kafka rolls by the time of a segment's first batch, which is not in an index.
        if position == 0:
            self._rolling_timestamp = max_timestamp
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        # Looked at after the write, with the bytes before this batch: the entry maps the last
        # offset of the batch to the position of its first byte, as Kafka's do.
        if self._unindexed > interval_bytes:
            # the batch is written: an entry that finds no room is left to the next batch
            with contextlib.suppress(StorageUnavailable):
                self._add_entries(last_offset, position)
            self.note_full(index_bytes_max)
        self._unindexed += size
        self.size = position + size
        return position

    def must_roll(
        self, size: int, last_offset: int, max_timestamp: int, clock: Clock, bytes_max: int, age_max_ms: int
    ) -> bool:
        """Whether a batch of this size, last offset and time belongs in a new segment.

        Source: Kafka LogSegment.shouldRoll.
        """
        if self.size == 0:
            return False
        if self.size + size > bytes_max or self.indexes_full or last_offset - self.base > RELATIVE_OFFSET_MAX:
            return True
        # The age is a difference of record times: old records that are written again roll as they
        # did the first time. Only batches without a time go by the clock.
        first = self._rolling_timestamp if self._rolling_timestamp != _UNREAD else self.first_timestamp
        waited_ms = max_timestamp - first if first >= 0 else clock.wall_ms() - self.created_ms
        return waited_ms > age_max_ms

    def has_room(self, size: int, last_offset: int) -> bool:
        """Whether such a batch can still be appended.

        Positions and relative offsets are int32. Kafka rebuilds the indexes of an unflushed segment
        and does not start if the entries exceed `segment.index.bytes`.
        """
        fits = self.size + size <= POSITION_MAX and last_offset - self.base <= RELATIVE_OFFSET_MAX
        return fits and not self.indexes_full

    def seal(self) -> None:
        """Write the last time index entry and free the indexes' memory. Raises: StorageFailed."""
        self.finish_timeindex()
        problems = [entries.unload() for entries in (self.index.entries, self.timeindex.entries)]
        if any(problems) and not self.index_mismatch:
            events.INDEX_MISMATCH.log(
                logger,
                "%r: %s; its indexes have been written again",
                segment=self,
                problems="; ".join(filter(None, problems)),
            )

    def finish_timeindex(self) -> None:
        """Put the segment's greatest timestamp into the time index. Raises: StorageFailed."""
        if self._max_timestamp == _UNREAD:
            return
        try:
            self.timeindex.maybe_append(self._max_timestamp, self._max_timestamp_offset)
        except CorruptIndex as error:
            self._note_index_mismatch(error)
            self.timeindex.restart()
            self.timeindex.maybe_append(self._max_timestamp, self._max_timestamp_offset)

    def _add_entries(self, last_offset: int, position: int) -> None:
        """Index the batch at `position`. Unreadable indexes restart with it, until they are
        rebuilt.
        """
        try:
            self.index.append(last_offset, position)
            self._unindexed = 0
            self.timeindex.maybe_append(self._max_timestamp, self._max_timestamp_offset)
        except CorruptIndex as error:
            self._note_index_mismatch(error)
            self.index.entries.restart(INDEX_ENTRY.pack(last_offset - self.base, position))
            self._unindexed = 0
            self.timeindex.restart()
            self.timeindex.maybe_append(self._max_timestamp, self._max_timestamp_offset)

    def note_full(self, index_bytes_max: int) -> None:
        """Compare the indexes' sizes with segment.index.bytes. Raises: CorruptIndex."""
        # the time index keeps room for its last entry
        index_max = max(index_bytes_max // INDEX_ENTRY.size, 1)
        time_max = max(index_bytes_max // TIME_ENTRY.size - 1, 1)
        self.indexes_full = self.index.entries.count >= index_max or self.timeindex.entries.count >= time_max

    # --- reading by offset

    def find(self, offset: int) -> LocatedBatch | None:
        """Return the batch that holds `offset`, else the next one; None: all batches precede it.

        Scans from the last index entry before it: at most index.interval.bytes.
        Raises: CorruptBatch, StorageFailed.
        """
        damaged = self._checks.damaged_at(offset) if self._checks is not None else None
        if damaged is not None:
            raise DamagedBatch(damaged)
        for entry in self._entries_before(offset):
            try:
                return self._find_from(entry, offset)
            except CorruptIndex as error:
                # an index may be damaged where nothing else is; the log decides
                self._note_index_mismatch(error)
        raise AssertionError("the last entry is the segment's start, which no index gives")

    def _entries_before(self, offset: int) -> Iterator[IndexEntry]:
        """Return where to start a scan for `offset`: the index entry before it, further ones in
        case that entry is wrong, and the segment's start.
        """
        try:
            for _ in range(ENTRIES_TRIED):
                entry = self.index.lookup(offset)
                if entry.position == 0:
                    break
                if 0 < entry.position < self.size:
                    yield entry
                else:
                    self._note_index_mismatch(_index_error(entry, f"{self.size} bytes"))
                offset = entry.offset - 1
        except CorruptIndex as error:
            self._note_index_mismatch(error)
        yield IndexEntry(self.base, 0)

    def _find_from(self, entry: IndexEntry, offset: int) -> LocatedBatch | None:
        """Scan from `entry`. Raises: CorruptIndex: the entry does not fit the log. CorruptBatch."""
        is_indexed = entry.position > 0
        try:
            for batch in self._scan(entry.position, self.size):
                position, unit = batch.position, batch.header
                if is_indexed and position == entry.position and not _is_entry_of(unit, entry):
                    raise _index_error(entry, str(unit.last_offset))
                is_indexed = False
                if unit.last_offset >= offset:
                    return LocatedBatch(position, unit)
        except CorruptBatch as error:
            raise _index_error(entry, str(error)) if is_indexed else error from None
        if is_indexed:
            raise _index_error(entry, "none")
        return None

    def _note_index_mismatch(self, error: CorruptIndex) -> None:
        if not self.index_mismatch:
            events.INDEX_MISMATCH.log(
                logger, "%r: the index leads astray (%s), reading from further back", segment=self, error=error
            )
            self.index_mismatch = True

    def batch_at(self, position: int) -> LocatedBatch | None:
        """Return the batch at `position`; None: the end. Raises: CorruptBatch, StorageFailed."""
        batch = next(self._scan(position, self.size), None)
        return LocatedBatch(batch.position, batch.header) if batch is not None else None

    def _scan(self, start: int, end: int, chunk_bytes: int | None = SEARCH_CHUNK_BYTES) -> Iterator[ScannedBatch]:
        if self._checks is None or not self._checks.damaged_ranges:
            return scan(self.log, start, end, chunk_bytes=chunk_bytes, allow_truncated=False)
        return scan_undamaged(self.log, start, end, self._checks.damaged_ranges, chunk_bytes)

    def limit_bytes(self, position: int, limit: int, max_bytes: int) -> tuple[int, int]:
        """Return where whole batches from `position` on end within `max_bytes`, and before `limit`.

        Args: limit: position where a batch ends.
        Returns: (position, offset) of the first batch left out; (`position`, its offset) if not one
            batch fits.
        Raises: CorruptBatch, StorageFailed.
        """
        end = position + max_bytes
        # Jump near the end by the index. A scan from `position` would read the headers of all the
        # batches of a fetch, which may have a megabyte of them.
        if max_bytes > SEARCH_CHUNK_BYTES:
            try:
                entry = self.index.by_position(end)
                if entry.position > position:
                    return self._limit_from(entry, limit, end)
            except CorruptIndex as error:
                self._note_index_mismatch(error)
        return self._limit_from(IndexEntry(self.base, position), limit, end, is_indexed=False)

    def _limit_from(self, entry: IndexEntry, limit: int, end: int, *, is_indexed: bool = True) -> tuple[int, int]:
        try:
            for batch in scan(self.log, entry.position, limit, chunk_bytes=SEARCH_CHUNK_BYTES, allow_truncated=False):
                position, unit = batch.position, batch.header
                if is_indexed and not _is_entry_of(unit, entry):
                    raise _index_error(entry, str(unit.last_offset))
                is_indexed = False
                if position + unit.size > end:
                    return position, first_offset(unit)
        except CorruptBatch as error:
            raise _index_error(entry, str(error)) if is_indexed else error from None
        if is_indexed:
            raise _index_error(entry, "none")
        raise CorruptBatch(
            f"{self!r}: the batches from position {entry.position} on do not reach {end}, but should go on to {limit}"
        )

    # --- times

    @property
    def max_timestamp(self) -> int:
        """Greatest timestamp of the segment, ms; -1: none. Raises CorruptIndex, StorageFailed."""
        if self._max_timestamp == _UNREAD:
            self._load_max_timestamp()
        return self._max_timestamp

    @property
    def first_timestamp(self) -> int:
        """Greatest timestamp of the first batch, in ms; -1: it has none, or the segment is empty.

        Raises: CorruptBatch, StorageFailed.
        """
        if self._rolling_timestamp == _UNREAD:
            located = self.batch_at(0)
            self._rolling_timestamp = located.unit.max_timestamp if located is not None else NO_TIMESTAMP
        return self._rolling_timestamp

    def view(self, end_offset: int, is_active: bool, now_ms: int, *, with_first: bool) -> SegmentView:
        """Return the segment as cleanup policies see it; `with_first`: with its first timestamp.

        Raises: CorruptData, StorageFailed.
        """
        greatest = self.max_timestamp
        # 0 too is no time: earlier versions of kqueue stored it for batches whose records have none
        time_ms = greatest if greatest > 0 else self.modified_ms(now_ms)
        return SegmentView(
            self.base, end_offset, self.size, greatest, is_active, time_ms, self.first_timestamp if with_first else -1
        )

    def modified_ms(self, now_ms: int) -> int:
        """Return the wall clock of the last change of its batches, in ms. Raises: StorageFailed.

        Appends read no clock: what was appended since the last call counts as appended at `now_ms`.
        Bytes from before the start have the file's age by the storage's clock, so an advanced
        broker clock does not make them older than they are.
        """
        if self.size != self._modified_size:
            self.set_modified_ms(now_ms)
        elif self._modified_ms is None:
            age_ms = self.log.age_ms()
            self._modified_ms = self.created_ms if age_ms is None else min(self.created_ms, now_ms - age_ms)
        return self._modified_ms if self._modified_ms is not None else now_ms

    def set_modified_ms(self, modified_ms: int) -> None:
        """Set the time at which its current bytes count as written."""
        self._modified_ms, self._modified_size = modified_ms, self.size

    def batches_since(self, timestamp: int, start_offset: int) -> Iterator[LocatedBatch | None]:
        """Return the batches with a record at `timestamp` or later, in offset order.

        Starts with the batch that holds `start_offset`. Yields None after every `STEP_BATCHES`
        batches without such a record, so that the caller can let other work run.
        Raises: CorruptBatch, CorruptIndex, StorageFailed.
        """
        entry = self._time_entry(timestamp)
        with contextlib.suppress(CorruptBatch):  # an entry that names a damaged batch is useless
            if entry.timestamp != NO_TIMESTAMP and entry.offset > start_offset and self._fits(entry):
                start_offset = entry.offset
        for number, batch in enumerate(self._scan(self.anchor(start_offset), self.size, None), 1):
            position, unit = batch.position, batch.header
            if unit.max_timestamp >= timestamp and unit.last_offset >= start_offset:
                yield LocatedBatch(position, unit)
            elif not number % STEP_BATCHES:
                yield None

    def _time_entry(self, timestamp: int) -> TimeEntry:
        """Return the last time index entry at or before `timestamp`; (-1, base): none, or
        unreadable.
        """
        try:
            return self.timeindex.lookup(timestamp)
        except CorruptIndex as error:
            self._note_index_mismatch(error)
            return TimeEntry(NO_TIMESTAMP, self.base)

    def _fits(self, entry: TimeEntry) -> bool:
        """Whether the batch that a time index entry names has that time.

        Raises: CorruptBatch, StorageFailed.
        """
        located = self.find(entry.offset)
        if located is not None and located.unit.max_timestamp == entry.timestamp:
            return True
        self._note_index_mismatch(
            CorruptIndex(f"expected a batch with offset {entry.offset} and time {entry.timestamp}, found {located}")
        )
        return False

    def _load_max_timestamp(self) -> None:
        try:
            last = self.timeindex.last()
            is_right = self.timeindex.entries.count == 0 or self._fits(last)
        except CorruptBatch:
            is_right = True  # the batch that it names is damaged: nothing contradicts the time
        except CorruptIndex as error:
            self._note_index_mismatch(error)
            is_right = False
        if not is_right:
            last = self._scan_max_timestamp()
        self._max_timestamp, self._max_timestamp_offset = last.timestamp, last.offset

    def _scan_max_timestamp(self) -> TimeEntry:
        """Return the greatest time of all whole batches, by a scan."""
        last = TimeEntry(NO_TIMESTAMP, self.base)
        with contextlib.suppress(CorruptBatch):
            for batch in self._scan(0, self.size, None):
                unit = batch.header
                if unit.max_timestamp > last.timestamp:
                    last = TimeEntry(unit.max_timestamp, unit.last_offset)
        return last

    # --- verification

    @property
    def checks(self) -> SegmentVerification:
        """The verification of the bytes that the file held when it was opened."""
        if self._checks is None:
            self._checks = SegmentVerification(
                f"{self.files.folder}/{file_name(self.base, LOG)}", self.base, self.unverified_size
            )
        return self._checks

    def anchor(self, offset: int) -> int:
        """Return the position where `find(offset)` starts its scan. Raises: StorageFailed."""
        for entry in self._entries_before(offset):
            with contextlib.suppress(CorruptBatch):
                located = self.batch_at(entry.position)
                if located is not None and located.position == entry.position and _is_entry_of(located.unit, entry):
                    return entry.position
        return 0

    def restore_checks(self, unverified_size: int, checks: SegmentVerification | None) -> None:
        """Set what another opening of the same file has verified."""
        self.unverified_size, self._checks = unverified_size, checks

    def mark_verified(self) -> None:
        """Note that all bytes are right: their writer checked them, or verification has ended."""
        self.unverified_size = 0
        self._checks = None

    # --- truncating and rebuilding

    def truncate_to(self, offset: int, *, index_bytes_max: int) -> int | None:
        """Remove the batch that holds `offset` and all that follow; prepare for appends.

        Returns: the first removed offset, which may be below `offset`; None: nothing was removed.
        Durability: synced on return, so removed bytes can't reappear behind new batches.
        Raises: CorruptBatch, StorageFailed.
        """
        located = self.find(offset)
        self.note_full(index_bytes_max)
        if located is None:
            return None
        # Indexes first, the log last: one that ends early costs a longer scan, one that goes on
        # behind the log's end leads reads astray.
        self.index.truncate_to(offset)
        self.timeindex.truncate_to(offset)
        self.txnindex.truncate_to(offset)
        self.log.truncate(located.position)
        self.size = located.position
        self.unverified_size = min(self.unverified_size, self.size)
        self._checks = None
        for file in self.files.all():
            file.sync()
        self.read_tail()
        # The first batch may be another one now.
        self._rolling_timestamp = _UNREAD
        self.note_full(index_bytes_max)
        return min(first_offset(located.unit), offset)

    def read_tail(self) -> int:
        """Read the batches since the last index entry, and return the end offset.

        Raises: CorruptBatch, CorruptIndex: the file does not end with a whole batch. StorageFailed.
        """
        entry = self.index.last()
        start, end_offset = entry.position, self.base
        last = self.timeindex.last()
        self._max_timestamp, self._max_timestamp_offset = last.timestamp, last.offset
        position = start
        for batch in scan(self.log, start, self.size):
            position, unit = batch.position, batch.header
            end_offset = unit.last_offset + 1
            if unit.max_timestamp > self._max_timestamp:
                self._max_timestamp, self._max_timestamp_offset = unit.max_timestamp, unit.last_offset
            position += unit.size
        if position != self.size:
            raise CorruptIndex(f"{self!r}: the last whole batch ends at {position}, the file at {self.size}")
        self._unindexed = self.size - start
        return end_offset

    def mark_indexes_rebuilt(self) -> None:
        """Use the indexes again, because they were rebuilt."""
        self.index_mismatch = False

    def replace_indexes(self, index: bytes, times: bytes) -> None:
        """Replace the indexes by ones rebuilt from the log file. Raises: StorageFailed."""
        self.index.entries.replace(index)
        self.timeindex.replace(times)
        self.size = self.unverified_size = self.log.size
        self._rolling_timestamp = _UNREAD
        self.read_tail()


def _is_entry_of(unit: AnyHeader, entry: IndexEntry) -> bool:
    """Whether an index entry can mean the unit at its position.

    Kafka indexes messages of old formats that came together as one: the position of the first, the
    offset of the last.
    """
    return unit.last_offset == entry.offset or (unit.magic < 2 and unit.last_offset < entry.offset)


def _index_error(entry: IndexEntry, actual: str) -> CorruptIndex:
    return CorruptIndex(
        f"expected a batch that ends with offset {entry.offset} at position {entry.position}, found {actual}"
    )
