"""Reads the batches of a sealed segment one after another, each checked against its sum."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from crc32c import crc32c

from kqueue.base.errors import CorruptBatch
from kqueue.log.compaction.throttle import Throttle
from kqueue.log.scanner.batch_scanner import Unit, first_offset
from kqueue.records.any_format import LegacyEntry, entry_records
from kqueue.records.batch import (
    BATCH_OVERHEAD,
    CRC_START,
    LENGTH_FIELD_END,
    MAGIC_POSITION,
    BatchHeader,
    decompressed,
    read_header,
    stated_size,
)
from kqueue.records.message_set import read_entry
from kqueue.records.record import Record
from kqueue.storage import File

BulkRead = Callable[[bytes, int, int, int], tuple[int, int]]


class BatchSlice(NamedTuple):
    """One batch, or message of an old format: its bytes are `buf[at : at + unit.size]`."""

    buf: bytes
    at: int
    unit: Unit

    @property
    def raw(self) -> memoryview:
        """The bytes, not copied."""
        return memoryview(self.buf)[self.at : self.at + self.unit.size]

    def records(self, limit_bytes: int) -> bytes:
        """The decompressed records of a batch of magic 2. Raises: as `decompressed`."""
        assert isinstance(self.unit, BatchHeader)
        if self.unit.codec_id == 0:
            return self.buf[self.at + BATCH_OVERHEAD : self.at + self.unit.size]
        return decompressed(self.buf, self.at, self.unit, limit_bytes)

    def messages(self, limit_bytes: int) -> list[Record]:
        """The records of a message of an old format, several where it is a wrapper.

        Raises: as `entry_records`; CorruptBatch: their offsets do not rise to the wrapper's.
        """
        assert isinstance(self.unit, LegacyEntry)
        records = entry_records(self.unit, limit_bytes)
        offsets = [-1, *(record.offset for record in records)]
        if any(offset >= after for offset, after in pairwise(offsets)) or offsets[-1] != self.unit.offset:
            raise CorruptBatch(f"the offsets in a wrapper have to rise to its own, {self.unit.offset}: {offsets[1:]}")
        return records


class SegmentReader:
    """All batches of a log file of `size` bytes, in order, whose offsets go from `base_offset` to
    `end_offset` (exclusive) at most.

    `path`, `position`: where it is, for messages.

    `take(buf, at, limit, next_offset)` may go through whole batches from `buf[at]` on by itself,
    not beyond `limit`, where the file ends; it returns how many bytes that was, 0 if it did not,
    and the next offset then. Those batches are not yielded.

    Raises, while iterating: CorruptBatch: a sum, magic or length is wrong, the offsets do not rise
    or leave the segment, or the file does not end with a batch; the message does not say where.
    StorageFailed, FileNotFoundError.
    """

    def __init__(
        self,
        file: File,
        path: str,
        size: int,
        base_offset: int,
        end_offset: int,
        chunk_bytes: int,
        throttle: Throttle,
        take: BulkRead | None = None,
    ) -> None:
        self.path = path
        self.position = 0
        self._file = file
        self._size = size
        self._next_offset = base_offset
        self._end_offset = end_offset
        self._chunk_bytes = max(chunk_bytes, BATCH_OVERHEAD)
        self._throttle = throttle
        self._take = take

    def __iter__(self) -> Iterator[BatchSlice]:
        buf, start = b"", 0
        while (left := self._size - self.position) > 0:
            if self.position - start + BATCH_OVERHEAD > len(buf):
                buf, start = self._read(buf[self.position - start :], 0), self.position
            if self._take is not None:
                at = self.position - start
                taken, self._next_offset = self._take(buf, at, at + left, self._next_offset)
                if taken:
                    self._check_end()
                    self.position += taken
                    continue
            size = self._unit_size(buf[self.position - start : self.position - start + BATCH_OVERHEAD], left)
            if self.position - start + size > len(buf):
                buf, start = self._read(buf[self.position - start :], size), self.position
            yield BatchSlice(buf, self.position - start, self._unit(buf, self.position - start, size))
            self.position += size

    def _read(self, buf: bytes, size: int) -> bytes:
        """`buf`, which was read before and begins at the position, and what follows it: `size`
        bytes at least, where the file has them.
        """
        end = self.position + len(buf)
        size = min(max(self._chunk_bytes, size - len(buf)), self._size - end)
        more = self._file.read_at(end, size)
        if len(more) < size:
            raise CorruptBatch(f"the file should have {self._size} bytes, and ends at {end + len(more)}")
        self._throttle.spend(size)
        return buf + more

    def _unit_size(self, start: bytes, left: int) -> int:
        if len(start) <= MAGIC_POSITION:
            raise CorruptBatch(f"the last {left} bytes of the file are no whole batch")
        size, magic = stated_size(start, 0), start[MAGIC_POSITION]
        if magic > 2 or not MAGIC_POSITION < size <= left:
            length = size - LENGTH_FIELD_END
            raise CorruptBatch(
                f"no batch begins here: length {length}, magic {magic}, {left} bytes to the end of the file"
            )
        return size

    def _unit(self, buf: bytes, at: int, size: int) -> Unit:
        with memoryview(buf)[at : at + size] as raw:
            unit: Unit | None
            if raw[MAGIC_POSITION] == 2:
                unit = read_header(raw)
                found = crc32c(raw[CRC_START:])
            else:
                unit = read_entry(raw, 0, size)
                found = zlib.crc32(raw[MAGIC_POSITION:])
        if unit is None:
            raise CorruptBatch("a message of old format is cut off by its own length")
        if found != unit.crc & 0xFFFFFFFF:
            raise CorruptBatch(f"checksum {unit.crc:#010x} stands in the batch, but its bytes give {found:#010x}")
        if first_offset(unit) < self._next_offset:
            raise CorruptBatch(f"offsets have to rise: {first_offset(unit)} follows {self._next_offset - 1}")
        self._next_offset = unit.last_offset + 1
        self._check_end()
        return unit

    def _check_end(self) -> None:
        # no sum covers offsets
        if self._next_offset > self._end_offset:
            raise CorruptBatch(
                f"offset {self._next_offset - 1} lies beyond the end of its segment at {self._end_offset}"
            )

    def located(self, error: CorruptBatch) -> CorruptBatch:
        """The same error, with the place where the walk is."""
        return CorruptBatch(f"{self.path}, batch at position {self.position}: {error}")
