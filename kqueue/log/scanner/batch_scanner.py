"""The loop over the batches of a log file, of magic 0, 1 and 2, and the checks of one batch.

Recovery, read verification, compaction, look-ups and the offline tools all read segments with it.
Reads are bounded: one chunk, or one batch that lies within the scanned range. A length beyond the
range allocates nothing.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple, Protocol

from crc32c import crc32c

from kqueue.base.errors import CorruptBatch, PluginError, UnsupportedCodec
from kqueue.records.batch import (
    BATCH_OVERHEAD,
    CONTROL,
    CRC_START,
    DECOMPRESSED_BYTES_MAX,
    HEADER,
    LENGTH_FIELD_END,
    MAGIC_POSITION,
    BatchHeader,
    decompressed,
    iter_records,
    read_header,
    stated_size,
)
from kqueue.records.message_set import LegacyEntry, entry_records, read_entry
from kqueue.records.record import Record

AnyHeader = BatchHeader | LegacyEntry
"""The header of a batch of magic 2, or a message of the old formats, which is its own header."""
BulkRead = Callable[[bytes, int, int], int]
"""`bulk(buf, at, limit)` reads whole batches in `buf[at:limit]` and returns their bytes, 0: none.
"""
CHUNK_BYTES = 64 * 1024
CHUNK_BYTES_CHECKED = 1024 * 1024
SIZE_MIN = (LENGTH_FIELD_END + 14, LENGTH_FIELD_END + 22, BATCH_OVERHEAD)  # by magic
_ATTRIBUTES_LOW = 22  # position of the byte with the control flag, magic 2
_LEGACY = struct.Struct(">qiIbbq")


class Readable(Protocol):
    """A file, or an open one that a region holds."""

    def read_at(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position`; fewer at the file's end."""
        ...


class CheckLevel(IntEnum):
    """The checks besides those of length, magic and header; each level includes those before it."""

    HEADERS = 0
    CONTROL_CHECKSUMS = 1  # of control batches, which decide over the records of others and are small
    CHECKSUMS = 2
    RECORDS = 3  # lengths, counts and offset deltas of every record, decompressed


# members of an enum are slow to look up for a scan of one batch
_CONTROL_CHECKSUMS, _CHECKSUMS, _RECORDS = map(
    int, (CheckLevel.CONTROL_CHECKSUMS, CheckLevel.CHECKSUMS, CheckLevel.RECORDS)
)


class Fault(NamedTuple):
    """The faults that the bytes of a batch can have."""

    expected: str
    found: str

    def __str__(self) -> str:
        return f"expected {self.expected}, found {self.found}"


class ScannedBatch(NamedTuple):
    """One batch, or message of an old format, at `position` of its file.

    buf, at: its bytes begin at `buf[at]`. All are there if the checksum was checked or the magic
    is below 2; otherwise the header is.
    fault: None: valid, as far as it was checked.
    inner_count: messages in a wrapper of magic 0 or 1, -1 if its records were not checked.
    note: an oddity that is no fault, found by `CheckLevel.RECORDS`; empty: none.
    """

    position: int
    header: AnyHeader
    buf: bytes
    at: int
    fault: Fault | None = None
    inner_count: int = -1
    note: str = ""

    @property
    def end(self) -> int:
        """The position after the batch."""
        return self.position + self.header.size

    @property
    def first_offset(self) -> int | None:
        """The offset of its first record; None: a wrapper of magic 0 or 1 stores only its last."""
        header = self.header
        if isinstance(header, BatchHeader):
            return header.base_offset
        return header.offset if not header.codec_id else None

    @property
    def record_count(self) -> int:
        """Records in the batch. A wrapper counts as 1 unless its records were checked."""
        header = self.header
        return header.record_count if isinstance(header, BatchHeader) else max(self.inner_count, 1)

    @property
    def raw(self) -> memoryview:
        """All bytes of the batch, not copied; needs `buf` to hold them."""
        return memoryview(self.buf)[self.at : self.at + self.header.size]

    def records_data(self, limit_bytes: int) -> bytes:
        """The decompressed records of a batch of magic 2. Raises: as `decompressed`."""
        assert isinstance(self.header, BatchHeader)
        if self.header.codec_id == 0:
            return self.buf[self.at + BATCH_OVERHEAD : self.at + self.header.size]
        return decompressed(self.buf, self.at, self.header, limit_bytes)

    def messages(self, limit_bytes: int) -> list[Record]:
        """The records of a message of an old format, several if it is a wrapper.

        Raises: as `entry_records`; CorruptBatch: their offsets do not rise to the wrapper's.
        """
        assert isinstance(self.header, LegacyEntry)
        records = entry_records(self.header, limit_bytes)
        offsets = [-1, *(record.offset for record in records)]
        if any(offset >= after for offset, after in pairwise(offsets)) or offsets[-1] != self.header.offset:
            raise CorruptBatch(f"the offsets in a wrapper have to rise to its own, {self.header.offset}: {offsets[1:]}")
        return records


class HeaderFix(NamedTuple):
    """The only values that fit the neighbouring batches; both fields lie outside the checksum."""

    base_offset: int
    leader_epoch: int


class CorruptRange(NamedTuple):
    """The bytes from `position` to `end` are no batch that can be there.

    fix: the range is a batch that is valid with these fields; None: the range is lost.
    next_offset: with a fix: the offset after the batch.
    is_misplaced: the range is a whole batch, only its offsets do not fit.
    is_truncated: the range ends within the batch that begins it, as after a torn write.
    """

    position: int
    end: int
    expected: str
    found: str
    fix: HeaderFix | None = None
    next_offset: int | None = None
    is_misplaced: bool = False
    is_truncated: bool = False


class ScanStop(NamedTuple):
    """The place where a scan ended before its range did, and the fault there.

    size: bytes that the batch's length names, if these lie within the range; else 0.
    header: as far as it can be read; None if `size` is 0.
    is_truncated: the file or the range ends within the batch.
    """

    position: int
    fault: Fault
    size: int = 0
    header: AnyHeader | None = None
    is_truncated: bool = False

    def error(self) -> CorruptBatch:
        """The fault as an exception, with the position in the file."""
        return CorruptBatch(f"batch at position {self.position}: {self.fault}")


class BatchScanner:
    """Iterates over the valid batches of a range of a file; ends at the range's end or a fault.

    Args:
        file: read with `read_at` only.
        position, end: bytes; a batch begins at `position`.
        chunk_bytes: size of one read; a larger batch is read whole if its checksum is checked.
        bulk: consumes many batches at once; those are not yielded.

    position: of the batch yielded last, or where the scan ended. `stop`: why it ended; None: the
    range is at its end. Set `position` and iterate again to continue elsewhere: what was read is
    reused.
    Raises, while iterating: StorageFailed; what `bulk` raises.
    """

    __slots__ = ("_buf", "_bulk", "_check", "_chunk_bytes", "_start", "end", "file", "position", "stop")

    def __init__(
        self,
        file: Readable,
        position: int,
        end: int,
        *,
        check: CheckLevel = CheckLevel.HEADERS,
        chunk_bytes: int | None = None,
        bulk: BulkRead | None = None,
    ) -> None:
        self.file = file
        self.position = position
        self.end = end
        self.stop: ScanStop | None = None
        self._check = check
        self._chunk_bytes = chunk_bytes
        self._bulk = bulk
        self._buf, self._start = b"", position

    def __iter__(self) -> Iterator[ScannedBatch]:
        if self.position < self._start:
            self._buf, self._start = b"", self.position
        self.stop = None
        return _batches(self.file, self.position, self.end, self._check, self._chunk_bytes, self._bulk, self)


def scan(
    file: Readable,
    position: int,
    end: int,
    *,
    check: CheckLevel = CheckLevel.HEADERS,
    chunk_bytes: int | None = None,
    allow_truncated: bool = True,
) -> Iterator[ScannedBatch]:
    """Yield each valid batch between `position`, where one begins, and `end`.

    Args: allow_truncated: ends where the last batch is cut off; False: raises there. Others: as
        for `BatchScanner`.
    Raises: CorruptBatch: at the first batch that is not valid. StorageFailed.
    """
    return _batches(file, position, end, check, chunk_bytes, allow_truncated=allow_truncated)


def _batches(
    file: Readable,
    position: int,
    end: int,
    check: CheckLevel,
    chunk_bytes: int | None,
    bulk: BulkRead | None = None,
    scanner: BatchScanner | None = None,
    *,
    allow_truncated: bool = True,
) -> Iterator[ScannedBatch]:
    """The one loop. A `scanner` receives where and why it stops; without one a fault is raised."""
    read_at = file.read_at
    buf, start = (b"", position) if scanner is None else (scanner._buf, scanner._start)
    stop: ScanStop | None = None
    if chunk_bytes is None:
        chunk_bytes = CHUNK_BYTES_CHECKED if check >= _CHECKSUMS else CHUNK_BYTES
    if chunk_bytes < BATCH_OVERHEAD:
        chunk_bytes = BATCH_OVERHEAD
    checks_all, checks_control, checks_records = check >= _CHECKSUMS, check == _CONTROL_CHECKSUMS, check == _RECORDS
    while position < end:
        at = position - start
        if at + BATCH_OVERHEAD > len(buf):
            buf, start, at = read_at(position, min(chunk_bytes, end - position)), position, 0
            if len(buf) <= MAGIC_POSITION:
                fault = Fault("a batch", f"the last {len(buf)} bytes of the file")
                stop = ScanStop(position, fault, is_truncated=True)
                break
        if scanner is not None:
            scanner.position = position
        if bulk is not None and (bulk_bytes := bulk(buf, at, at + end - position)):
            position += bulk_bytes
            continue
        size, magic = stated_size(buf, at), buf[at + MAGIC_POSITION]
        if magic > 2 or size < SIZE_MIN[magic] or size > end - position:
            stop = _not_framed(position, size, magic, end)
            break
        is_checked = checks_all or (checks_control and magic == 2 and buf[at + _ATTRIBUTES_LOW] & CONTROL != 0)
        if at + size > len(buf) and (is_checked or magic < 2):
            buf, start, at = read_at(position, min(max(chunk_bytes, size), end - position)), position, 0
            if len(buf) < size:
                fault = Fault(f"a batch of {size} bytes", f"a file that ends after {len(buf)} of them")
                stop = ScanStop(position, fault, is_truncated=True)
                break
        try:
            header: AnyHeader
            if magic == 2 and not is_checked:  # most batches, without the call of `parse_batch`
                header = read_header(buf, at)
            else:
                header = parse_batch(buf, at, size, check=is_checked)
            if checks_records:
                inner_count, note = _check_records(header, buf, at)
                batch = ScannedBatch(position, header, buf, at, None, inner_count, note)
            else:
                batch = tuple.__new__(ScannedBatch, (position, header, buf, at, None, -1, ""))
        except CorruptBatch as error:
            fault = error.fault if isinstance(error, _Faulty) else Fault("a valid batch", _without_position(error))
            stop = ScanStop(position, fault, size, _raw_header(buf, at, size, magic))
            break
        yield batch
        position += size
    if scanner is not None:
        scanner.position, scanner._buf, scanner._start, scanner.stop = position, buf, start, stop
    elif stop is not None and not (allow_truncated and stop.is_truncated):
        raise stop.error()


def scan_reporting(scanner: BatchScanner) -> Iterator[ScannedBatch | CorruptRange]:
    """Yield every batch, invalid ones with their fault; then at most one range up to the end.

    A batch whose header, checksum or records are wrong is skipped by the length that it names.
    Bytes without a possible length end the scan. Raises StorageFailed.
    """
    while True:
        yield from scanner
        stop = scanner.stop
        if stop is None:
            return
        if stop.header is None:
            yield CorruptRange(stop.position, scanner.end, *stop.fault, is_truncated=stop.is_truncated)
            return
        at = stop.position - scanner._start
        yield ScannedBatch(stop.position, stop.header, scanner._buf, at, stop.fault)
        scanner.position = stop.position + stop.size


def first_offset(header: AnyHeader) -> int:
    """Return the offset at which a batch begins; for a wrapper of magic 0 or 1, its last offset."""
    return header.base_offset if isinstance(header, BatchHeader) else header.offset


class _Faulty(CorruptBatch):
    """A batch whose fault is known in two parts."""

    def __init__(self, expected: str, found: str) -> None:
        self.fault = Fault(expected, found)
        super().__init__(str(self.fault))


def parse_batch(buf: bytes | memoryview, at: int, size: int, *, check: bool) -> AnyHeader:
    """Return the header of the batch that `buf[at : at + size]` holds, or the start of it.

    Args: check: compare the checksum too, for which all bytes must be there; so they must for
        magic 0 and 1.
    Raises: CorruptBatch: the header, message or checksum is wrong.
    """
    header: AnyHeader | None
    if buf[at + MAGIC_POSITION] == 2:
        try:
            header = read_header(buf, at)
        except CorruptBatch as error:
            if check and len(buf) - at >= BATCH_OVERHEAD:  # a wrong checksum explains a wrong header
                _check_crc(HEADER.unpack_from(buf, at)[4], buf, at, size, f" ({_without_position(error)})")
            raise
        if check and crc32c(memoryview(buf)[at + CRC_START : at + size]) != header.crc:
            _check_crc(header.crc, buf, at, size)
        return header
    header = read_entry(buf, at, at + size)
    if header is None:
        raise _Faulty("a whole message", "one that is cut off by its own length")
    if check and (crc := zlib.crc32(memoryview(buf)[at + MAGIC_POSITION : at + size])) != header.crc:
        raise _Faulty(f"checksum {header.crc:#010x}", f"bytes that give {crc:#010x}")
    return header


def _check_crc(expected: int, buf: bytes | memoryview, at: int, size: int, note: str = "") -> None:
    crc = crc32c(memoryview(buf)[at + CRC_START : at + size])
    if crc != expected:
        raise _Faulty(f"checksum {expected:#010x}", f"bytes that give {crc:#010x}{note}")


def _not_framed(position: int, size: int, magic: int, end: int) -> ScanStop:
    if magic > 2 or size < SIZE_MIN[magic]:
        return ScanStop(position, Fault("a batch", f"length {size - LENGTH_FIELD_END}, magic {magic}"))
    fault = Fault(f"a batch of {size} bytes", f"{end - position} bytes up to the end of the file")
    return ScanStop(position, fault, is_truncated=True)


def _raw_header(buf: bytes, at: int, size: int, magic: int) -> AnyHeader | None:
    """The header's fields, unchecked; a message of an old format without key and value."""
    if magic == 2:
        return BatchHeader(*HEADER.unpack_from(buf, at)) if len(buf) - at >= BATCH_OVERHEAD else None
    offset, _, crc, _, attributes, timestamp = _LEGACY.unpack_from(buf.ljust(at + _LEGACY.size, b"\0"), at)
    return LegacyEntry(offset, at, size, magic, crc, attributes, timestamp if magic else -1, None, None)


def _check_records(header: AnyHeader, buf: bytes, at: int) -> tuple[int, str]:
    """Decode all records; returns the count of inner messages (-1 for magic 2) and an oddity."""
    try:
        if not isinstance(header, BatchHeader):
            return len(entry_records(header, DECOMPRESSED_BYTES_MAX)), ""
        latest = max((record.timestamp for record in iter_records(buf, at)), default=header.max_timestamp)
    except (UnsupportedCodec, PluginError) as error:
        return -1, str(error)
    if latest != header.max_timestamp:
        return -1, f"max timestamp {header.max_timestamp}, but the latest record's is {latest}"
    return -1, ""


def _without_position(error: CorruptBatch) -> str:
    # such positions count from the start of a buffer; messages name the position in the file
    return re.sub(r" at position \d+", "", str(error))
