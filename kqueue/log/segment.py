"""A segment: one stretch of a log in one file, with its indexes. Only the last segment of a log is
appended to.

Files, named by the first offset: `.log` (batches, one after another), `.index`, `.timeindex`, and
`.txnindex` where transactions were aborted. Crash: nothing is synced here but by `sync_files`'
callers; the indexes of a segment that was not synced after it was sealed are made anew at the next
start, so they may be lost or torn at any time before.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import NamedTuple

from kqueue.base.clock import Clock
from kqueue.base.errors import CorruptBatch, CorruptIndex, DiskFull, StorageFailed, StorageUnavailable
from kqueue.log.formats.filenames import INDEX, LOG, TIMEINDEX, TXNINDEX, file_name
from kqueue.log.formats.offset_index import ENTRY as INDEX_ENTRY
from kqueue.log.formats.offset_index import RELATIVE_OFFSET_MAX, IndexEntry, OffsetIndex
from kqueue.log.formats.time_index import ENTRY as TIME_ENTRY
from kqueue.log.formats.time_index import NO_TIMESTAMP, TimeEntry, TimeIndex
from kqueue.log.formats.transaction_index import TransactionIndex
from kqueue.log.policies import SegmentView
from kqueue.log.recovery.read_verification import DamagedBatch, SegmentVerification, scan_undamaged
from kqueue.log.scanner.batch_scanner import AnyHeader, ScannedBatch, first_offset, scan
from kqueue.storage import File, Storage

SEARCH_CHUNK_BYTES = 8 * 1024
ENTRIES_TRIED = 3
STEP_BATCHES = 64
POSITION_MAX = 2**31 - 1
_UNREAD = -(2**63) - 1  # of a timestamp that stands in a file and was not read yet; no timestamp is that small
logger = logging.getLogger("kqueue.log")


class LocatedBatch(NamedTuple):
    """Where a batch stands."""

    position: int
    unit: AnyHeader


class Segment:
    """One segment. `base`: its first offset; `size`: bytes in its log; `created_ms`: wall clock
    when this object was made.

    `unverified_size`: bytes up to there were in the file already, and are
    not known to be right (see `verifying`); 0: all are.
    """

    __slots__ = (
        "_checks",
        "_folder",
        "_index_mismatch",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_modified_ms",
        "_modified_size",
        "_rolling_timestamp",
        "_storage",
        "_unindexed",
        "base",
        "created_ms",
        "index",
        "indexes_full",
        "log",
        "size",
        "timeindex",
        "txnindex",
        "unverified_size",
    )  # fmt: skip

    def __init__(
        self,
        storage: Storage,
        folder: str,
        base: int,
        created_ms: int,
        *,
        create: bool = False,
        sizes: dict[str, int] | None = None,
    ) -> None:
        """Open the files, or (`create`) make those that are missing.

        `sizes`: bytes by file name where the caller just listed the folder. Raises
        FileNotFoundError, StorageFailed.
        """
        sizes = sizes if sizes is not None else {}

        def path(suffix: str) -> str:
            return f"{folder}/{file_name(base, suffix)}"

        def size(suffix: str) -> int | None:
            return sizes.get(file_name(base, suffix))

        self._storage = storage
        self._folder = folder
        self.base = base
        self.created_ms = created_ms
        self.log: File = storage.open(path(LOG), create=create, size=size(LOG))
        self.index = OffsetIndex(storage, path(INDEX), base, create=create, size=size(INDEX))
        self.timeindex = TimeIndex(storage, path(TIMEINDEX), base, create=create, size=size(TIMEINDEX))
        self.txnindex = TransactionIndex(storage, path(TXNINDEX), exists=size(TXNINDEX) is not None)
        self.size = self.unverified_size = self._modified_size = self.log.size
        self._modified_ms: int | None = None  # when it had `_modified_size` bytes first; None: not asked yet
        self.indexes_full = False
        self._checks: SegmentVerification | None = None
        self._index_mismatch = False
        self._unindexed = 0
        self._max_timestamp = _UNREAD
        self._max_timestamp_offset = base
        self._rolling_timestamp = _UNREAD  # max timestamp of the first batch

    def __repr__(self) -> str:
        return f"Segment({self._folder}/{self.base})"

    @classmethod
    def make(cls, storage: Storage, folder: str, base: int, created_ms: int) -> Segment:
        """Make a segment that is not there. Raises StorageFailed: none of its files stays, unless
        they can't be removed.
        """
        try:
            return cls(storage, folder, base, created_ms, create=True)
        except StorageFailed:
            for suffix in (TIMEINDEX, INDEX, LOG):
                with contextlib.suppress(StorageFailed, FileNotFoundError):
                    storage.remove(f"{folder}/{file_name(base, suffix)}")
            raise

    # --- appending

    def activate(self, index_bytes_max: int) -> None:
        """Get ready for appends. Raises CorruptIndex, StorageFailed."""
        self._note_full(index_bytes_max)

    def append(
        self,
        data: bytes | bytearray | memoryview,
        last_offset: int,
        max_timestamp: int,
        interval_bytes: int,
        index_bytes_max: int,
    ) -> int:
        """Write one batch at the end and index it; returns its position.

        Crash: without a flush any part of it may be lost; recovery cuts the file after the last
        whole batch. Raises StorageFailed: the file may end in a part of the batch.
        StorageUnavailable: the segment is as before.
        """
        if self._max_timestamp == _UNREAD:
            self._load_max_timestamp()
        try:
            position = self.log.append(data)
        except DiskFull:
            self.log.truncate(self.size)  # needs no room
            raise
        size = len(data)
        if position == 0:
            self._rolling_timestamp = max_timestamp
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if self._unindexed > interval_bytes:
            with contextlib.suppress(
                StorageUnavailable
            ):  # the batch is written, and the next one can have the entry as well
                self._add_entries(last_offset, position)
            self._note_full(index_bytes_max)
        self._unindexed += size
        self.size = position + size
        return position

    def must_roll(
        self, size: int, last_offset: int, max_timestamp: int, clock: Clock, bytes_max: int, age_max_ms: int
    ) -> bool:
        """Whether a batch of these figures has to go to a new segment. Source: Kafka
        LogSegment.shouldRoll.
        """
        if self.size == 0:
            return False
        if self.size + size > bytes_max or self.indexes_full or last_offset - self.base > RELATIVE_OFFSET_MAX:
            return True
        first = self.first_timestamp
        waited_ms = max_timestamp - first if first >= 0 else clock.wall_ms() - self.created_ms
        return waited_ms > age_max_ms

    def has_room(self, size: int, last_offset: int) -> bool:
        """Whether such a batch may still be appended: positions and relative offsets are int32, and
        Kafka, which makes the indexes of an unflushed segment anew, does not start where the
        entries are more than `segment.index.bytes` allows.
        """
        fits = self.size + size <= POSITION_MAX and last_offset - self.base <= RELATIVE_OFFSET_MAX
        return fits and not self.indexes_full

    def seal(self) -> None:
        """End the segment: the last entry of the time index is written, and memory let go. Crash:
        see the module. Raises StorageFailed.
        """
        self.finish_timeindex()
        wrong = [
            found for entries in (self.index.entries, self.timeindex.entries) if (found := entries.unload()) is not None
        ]
        if wrong and not self._index_mismatch:
            logger.error("%r: %s; its indexes have been written again", self, "; ".join(wrong))

    def finish_timeindex(self) -> None:
        """Put the segment's greatest timestamp into the time index. Raises StorageFailed."""
        if self._max_timestamp == _UNREAD:
            return
        try:
            self.timeindex.maybe_append(self._max_timestamp, self._max_timestamp_offset)
        except CorruptIndex as error:
            self._note_index_mismatch(error)
            self.timeindex.restart()
            self.timeindex.maybe_append(self._max_timestamp, self._max_timestamp_offset)

    def _add_entries(self, last_offset: int, position: int) -> None:
        """Index the batch at `position`. Indexes that can't be read any more begin again with it,
        until they are rebuilt.
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

    def names(self) -> list[str]:
        """The names of its files, the log's first: without it the others count for nothing."""
        suffixes = (LOG, INDEX, TIMEINDEX) if self.txnindex.file is None else (LOG, INDEX, TIMEINDEX, TXNINDEX)
        return [file_name(self.base, suffix) for suffix in suffixes]

    def files(self) -> list[File]:
        """All files of the segment, to sync or to close."""
        files = [self.log, self.index.entries.file, self.timeindex.entries.file]
        return files if self.txnindex.file is None else [*files, self.txnindex.file]

    # --- reading

    def find(self, offset: int) -> LocatedBatch | None:
        """The batch that holds `offset`, or the first one after it; None: all batches lie before
        it.

        Reads from the last index entry on, a step of the index at most. Raises CorruptBatch,
        StorageFailed.
        """
        hurt = self._checks.damaged_at(offset) if self._checks is not None else None
        if hurt is not None:
            raise DamagedBatch(hurt)
        for entry in self._entries_before(offset):
            try:
                return self._find_from(entry, offset)
            except CorruptIndex as error:
                # an index may be damaged where nothing else is; the log alone decides
                self._note_index_mismatch(error)
        raise AssertionError("the last entry is the segment's start, which no index gives")

    def _entries_before(self, offset: int) -> Iterator[IndexEntry]:
        """Where to begin looking for `offset`: the index entry before it, some more in case that is
        wrong, the segment's start.
        """
        try:
            for _ in range(ENTRIES_TRIED):
                entry = self.index.lookup(offset)
                if entry.position == 0:
                    break
                if 0 < entry.position < self.size:
                    yield entry
                else:
                    self._note_index_mismatch(_misled(entry, f"{self.size} bytes"))
                offset = entry.offset - 1
        except CorruptIndex as error:
            self._note_index_mismatch(error)
        yield IndexEntry(self.base, 0)

    def _find_from(self, entry: IndexEntry, offset: int) -> LocatedBatch | None:
        """Raises CorruptIndex: the entry does not fit the log. CorruptBatch: the log is damaged."""
        is_named = entry.position > 0
        try:
            for batch in self._scan(entry.position, self.size):
                position, unit = batch.position, batch.header
                if is_named and position == entry.position and not _is_named(unit, entry):
                    raise _misled(entry, str(unit.last_offset))
                is_named = False
                if unit.last_offset >= offset:
                    return LocatedBatch(position, unit)
        except CorruptBatch as error:
            raise _misled(entry, str(error)) if is_named else error from None
        if is_named:
            raise _misled(entry, "none")
        return None

    def _note_index_mismatch(self, error: CorruptIndex) -> None:
        if not self._index_mismatch:
            logger.error("%r: the index leads astray (%s), reading from further back", self, error)
            self._index_mismatch = True

    def at(self, position: int) -> LocatedBatch | None:
        """The batch that begins at `position`; None: the segment ends there. Raises CorruptBatch,
        StorageFailed.
        """
        for batch in self._scan(position, self.size):
            return LocatedBatch(batch.position, batch.header)
        return None

    def _scan(self, start: int, end: int, chunk_bytes: int | None = SEARCH_CHUNK_BYTES) -> Iterator[ScannedBatch]:
        if self._checks is None or not self._checks.damaged_ranges:
            return scan(self.log, start, end, chunk_bytes=chunk_bytes, allow_truncated=False)
        return scan_undamaged(self.log, start, end, self._checks.damaged_ranges, chunk_bytes)

    def cut(self, position: int, limit: int, max_bytes: int) -> tuple[int, int]:
        """Where whole batches from `position` on stay within `max_bytes`, and not beyond `limit`,
        where a batch ends.

        Returns: (position, offset) of the first batch that is left out; (`position`, its offset) if
        not even one fits. Raises CorruptBatch, StorageFailed.
        """
        end = position + max_bytes
        if max_bytes > SEARCH_CHUNK_BYTES:
            try:
                entry = self.index.by_position(end)
                if entry.position > position:
                    return self._cut_from(entry, limit, end)
            except CorruptIndex as error:
                self._note_index_mismatch(error)
        return self._cut_from(IndexEntry(self.base, position), limit, end, is_named=False)

    def _cut_from(self, entry: IndexEntry, limit: int, end: int, *, is_named: bool = True) -> tuple[int, int]:
        try:
            for batch in scan(self.log, entry.position, limit, chunk_bytes=SEARCH_CHUNK_BYTES, allow_truncated=False):
                at, unit = batch.position, batch.header
                if is_named and not _is_named(unit, entry):
                    raise _misled(entry, str(unit.last_offset))
                is_named = False
                if at + unit.size > end:
                    return at, first_offset(unit)
        except CorruptBatch as error:
            raise _misled(entry, str(error)) if is_named else error from None
        if is_named:
            raise _misled(entry, "none")
        raise CorruptBatch(
            f"{self!r}: the batches from position {entry.position} on do not reach {end}, but should go on to {limit}"
        )

    @property
    def max_timestamp(self) -> int:
        """Greatest timestamp in the segment, in ms; -1: none. Raises CorruptIndex, StorageFailed."""
        if self._max_timestamp == _UNREAD:
            self._load_max_timestamp()
        return self._max_timestamp

    @property
    def first_timestamp(self) -> int:
        """Greatest timestamp of the first batch, in ms; -1: it has none, or there is no batch.
        Raises CorruptBatch, StorageFailed.
        """
        return self._rolling_timestamp if self._rolling_timestamp != _UNREAD else self._load_rolling_timestamp()

    def view(self, end_offset: int, is_active: bool, now_ms: int, *, with_first: bool) -> SegmentView:
        """The segment as cleanup policies see it; `with_first`: its first timestamp too. Raises
        CorruptData, StorageFailed.
        """
        greatest = self.max_timestamp
        # 0 too is no time: earlier versions of kqueue stored it for batches whose records have none
        time_ms = greatest if greatest > 0 else self.modified_ms(now_ms)
        return SegmentView(
            self.base, end_offset, self.size, greatest, is_active, time_ms, self.first_timestamp if with_first else -1
        )

    def modified_ms(self, now_ms: int) -> int:
        """Wall clock of the last change of its batches, in ms. Raises StorageFailed.

        Appends read no clock: what was appended since the last call counts as appended at `now_ms`.
        For bytes that were found on the disk the file's age counts, by the storage's clock, so that
        a broker whose clock was advanced ages them by no more than is true.
        """
        if self.size != self._modified_size:
            self.set_modified_ms(now_ms)
        elif self._modified_ms is None:
            age_ms = self.log.age_ms()
            self._modified_ms = self.created_ms if age_ms is None else min(self.created_ms, now_ms - age_ms)
        return self._modified_ms if self._modified_ms is not None else now_ms

    def set_modified_ms(self, modified_ms: int) -> None:
        """Let its bytes count as written at this time."""
        self._modified_ms, self._modified_size = modified_ms, self.size

    def since(self, timestamp: int, start_offset: int) -> Iterator[LocatedBatch | None]:
        """The batches from the one that holds `start_offset` on that have a record at `timestamp`
        or later, in order of offset.

        None comes after every `STEP_BATCHES` batches that have none, so that who looks may give
        way.

        Raises CorruptBatch, CorruptIndex, StorageFailed.
        """
        entry = self._time_entry(timestamp)
        with contextlib.suppress(CorruptBatch):  # if what it names is damaged, it helps nobody
            if entry.timestamp != NO_TIMESTAMP and entry.offset > start_offset and self._fits(entry):
                start_offset = entry.offset
        for number, batch in enumerate(self._scan(self.anchor(start_offset), self.size, None), 1):
            position, unit = batch.position, batch.header
            if unit.max_timestamp >= timestamp and unit.last_offset >= start_offset:
                yield LocatedBatch(position, unit)
            elif not number % STEP_BATCHES:
                yield None

    def _time_entry(self, timestamp: int) -> TimeEntry:
        """The last entry of the time index at or before `timestamp`; (-1, base): none, or the index
        can't be read.
        """
        try:
            return self.timeindex.lookup(timestamp)
        except CorruptIndex as error:
            self._note_index_mismatch(error)
            return TimeEntry(NO_TIMESTAMP, self.base)

    # --- what is known of the bytes that were found

    @property
    def checks(self) -> SegmentVerification:
        """What is known of the bytes that the file had when it was opened."""
        if self._checks is None:
            self._checks = SegmentVerification(
                f"{self._folder}/{file_name(self.base, LOG)}", self.base, self.unverified_size
            )
        return self._checks

    def anchor(self, offset: int) -> int:
        """Where to begin checking for the sake of the batch that holds `offset`: where `find`
        begins. Raises StorageFailed.
        """
        for entry in self._entries_before(offset):
            with contextlib.suppress(CorruptBatch):
                found = self.at(entry.position)
                if found is not None and found.position == entry.position and _is_named(found.unit, entry):
                    return entry.position
        return 0

    def mark_verified(self) -> None:
        """All bytes are known to be right: whoever wrote the file has checked them, or they all
        were checked since.
        """
        self.unverified_size = 0
        self._checks = None

    # --- changing what is there

    def truncate_to(self, offset: int, *, index_bytes_max: int) -> int | None:
        """Drop the batch that holds `offset` and all that follows; the segment is ready for appends
        then.

        Returns: the first offset that was dropped (it lies before `offset` where that is inside of
        a batch); None: nothing was. Durability: synced on return, so that what was cut off can't
        come back behind new batches. Raises CorruptBatch, StorageFailed.
        """
        found = self.find(offset)
        self.activate(index_bytes_max)
        if found is None:
            return None
        self.index.truncate_to(offset)
        self.timeindex.truncate_to(offset)
        self.txnindex.truncate_to(offset)
        self.log.truncate(found.position)
        self.size = found.position
        self.unverified_size = min(self.unverified_size, self.size)
        self._checks = None
        for file in self.files():
            file.sync()
        self.read_tail()
        self._rolling_timestamp = _UNREAD
        self._note_full(index_bytes_max)
        return min(first_offset(found.unit), offset)

    def read_tail(self) -> int:
        """Read the batches since the last index entry, and what appends need to know of them;
        returns the end offset.

        Raises CorruptBatch: no whole batches up to the end of the file, CorruptIndex,
        StorageFailed.
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

    @property
    def index_mismatch(self) -> bool:
        """Whether a look-up found that the index does not fit the log; reads do without it then."""
        return self._index_mismatch

    def mark_indexes_rebuilt(self) -> None:
        """The indexes were made anew."""
        self._index_mismatch = False

    def replace_indexes(self, index: bytes, times: bytes) -> None:
        """Take over indexes that were made by reading the whole log file, after it was cut to whole
        batches. Raises StorageFailed.
        """
        self.index.entries.replace(index)
        self.timeindex.replace(times)
        self.size = self.unverified_size = self.log.size
        self._rolling_timestamp = _UNREAD
        self.read_tail()

    def remove(self) -> None:
        """Remove the files, the log first. Crash: indexes that stay behind without a log are
        removed at the next start.
        """
        self.close()
        for name in self.names():
            self._storage.remove(f"{self._folder}/{name}")

    def close(self) -> None:
        for file in self.files():
            file.close()

    def _note_full(self, index_bytes_max: int) -> None:
        # the time index keeps room for the entry that ends it
        index_max = max(index_bytes_max // INDEX_ENTRY.size, 1)
        time_max = max(index_bytes_max // TIME_ENTRY.size - 1, 1)
        self.indexes_full = self.index.entries.count >= index_max or self.timeindex.entries.count >= time_max

    def _fits(self, entry: TimeEntry) -> bool:
        """Whether the batch that an entry of the time index names has that time. Raises
        CorruptBatch, StorageFailed.
        """
        found = self.find(entry.offset)
        if found is not None and found.unit.max_timestamp == entry.timestamp:
            return True
        self._note_index_mismatch(
            CorruptIndex(f"expected a batch with offset {entry.offset} and time {entry.timestamp}, found {found}")
        )
        return False

    def _load_max_timestamp(self) -> None:
        try:
            last = self.timeindex.last()
            is_right = self.timeindex.entries.count == 0 or self._fits(last)
        except CorruptBatch:
            is_right = True  # what it names is damaged: nothing says that the time is wrong
        except CorruptIndex as error:
            self._note_index_mismatch(error)
            is_right = False
        if not is_right:
            last = self._greatest_time()
        self._max_timestamp, self._max_timestamp_offset = last.timestamp, last.offset

    def _greatest_time(self) -> TimeEntry:
        """The greatest time of all batches, which are walked over; as far as they are whole."""
        last = TimeEntry(NO_TIMESTAMP, self.base)
        with contextlib.suppress(CorruptBatch):
            for batch in self._scan(0, self.size, None):
                unit = batch.header
                if unit.max_timestamp > last.timestamp:
                    last = TimeEntry(unit.max_timestamp, unit.last_offset)
        return last

    def _load_rolling_timestamp(self) -> int:
        found = self.at(0)
        self._rolling_timestamp = found.unit.max_timestamp if found is not None else NO_TIMESTAMP
        return self._rolling_timestamp


def _is_named(unit: AnyHeader, entry: IndexEntry) -> bool:
    """Whether the unit at an entry's position can be the one that it means.

    Kafka indexes messages of old formats that came together as one: from where the first begins, by
    the offset of the last.
    """
    return unit.last_offset == entry.offset or (unit.magic < 2 and unit.last_offset < entry.offset)


def _misled(entry: IndexEntry, found: str) -> CorruptIndex:
    return CorruptIndex(
        f"expected a batch that ends with offset {entry.offset} at position {entry.position}, found {found}"
    )
