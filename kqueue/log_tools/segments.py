"""The segments of a partition folder, and the iteration over their batches, with damaged ones.

Nothing here writes, locks, or keeps a file open for long; a running broker may append meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from kqueue.base.errors import CorruptBatch
from kqueue.log.formats.filenames import LOG, file_name
from kqueue.log.scanner.batch_scanner import (
    AnyHeader,
    BatchScanner,
    CheckLevel,
    CorruptRange,
    Fault,
    ScannedBatch,
    scan_reporting,
)
from kqueue.records.batch import DECOMPRESSED_BYTES_MAX, BatchHeader, iter_records
from kqueue.records.message_set import entry_records
from kqueue.records.record import Record
from kqueue.storage import File, Storage

CHUNK_BYTES = 1024 * 1024


class InvalidBytes(NamedTuple):
    """Bytes of a log file in which no batch begins: `size` bytes from `position` on.

    `is_tail`: the file ends with them, and they begin like a batch or are zeros (`is_zero`) of
    preallocation, as a crash or a running broker leaves them. Otherwise they are damage.
    """

    position: int
    size: int
    expected: str
    found: str
    is_tail: bool
    is_zero: bool = False

    @property
    def fault(self) -> Fault:
        """The expected and the found, as one fault."""
        return Fault(self.expected, self.found)


class ReadableBatch(Protocol):
    """A batch whose records can be read: a `Batch`, or one of `kqueue.log.sealed_segments`."""

    @property
    def unit(self) -> AnyHeader:
        """See `Batch`."""

    @property
    def location(self) -> str:
        """See `Batch`."""

    @property
    def position(self) -> int:
        """See `Batch`."""

    @property
    def size(self) -> int:
        """See `Batch.size`."""

    @property
    def is_control(self) -> bool:
        """See `Batch.is_control`."""

    def data(self) -> memoryview:
        """See `Batch.data`."""

    def records(self, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
        """See `Batch.records`."""


class Batch:
    """A batch, or a message of the old formats, in a file.

    `unit`: its header or entry, which share `size`, `magic`, `crc`, `codec_id`, `last_offset`,
    `max_timestamp` and more. `location`: the file's name for people. `position`: bytes in the file.
    `problem`: what is damaged; None: nothing, or it was not checked.
    """

    __slots__ = ("_data", "_file", "location", "position", "problem", "unit")

    def __init__(
        self, unit: AnyHeader, file: File, location: str, position: int, data: memoryview | None, problem: Fault | None
    ) -> None:
        self.unit = unit
        self.location = location
        self.position = position
        self.problem = problem
        self._file = file
        self._data = data

    def __repr__(self) -> str:
        note = "" if self.is_valid else ", damaged"
        return f"<batch {self.base_offset}..{self.last_offset} at {self.position} of {self.location}{note}>"

    @property
    def is_valid(self) -> bool:
        """Whether its checksum and header are right, as far as they were checked."""
        return self.problem is None

    @property
    def base_offset(self) -> int:
        """The first offset.

        Of a compressed old message, whose header has only the last one, that one.
        """
        return self.unit.base_offset if isinstance(self.unit, BatchHeader) else self.unit.offset

    @property
    def last_offset(self) -> int:
        """The last offset."""
        return self.unit.last_offset

    @property
    def next_offset(self) -> int:
        """The offset after the last one."""
        return self.unit.next_offset

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.unit.size

    @property
    def end(self) -> int:
        """The position after it."""
        return self.position + self.unit.size

    @property
    def magic(self) -> int:
        """The version of the record format."""
        return self.unit.magic

    @property
    def is_control(self) -> bool:
        """Whether it holds control records."""
        return isinstance(self.unit, BatchHeader) and self.unit.is_control

    @property
    def is_transactional(self) -> bool:
        """Whether it is part of a transaction."""
        return isinstance(self.unit, BatchHeader) and self.unit.is_transactional

    def data(self) -> memoryview:
        """Return all its bytes.

        Raises: CorruptBatch: the file was truncated meanwhile; StorageFailed.
        """
        if self._data is None:
            self._data = memoryview(self._file.read_at(self.position, self.size))
            if len(self._data) != self.size:
                raise CorruptBatch(f"{self.where}: {self.size} bytes were here, now there are {len(self._data)}")
        return self._data

    @property
    def where(self) -> str:
        """File and position, for messages."""
        return f"{self.location}, position {self.position}"

    def records(self, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
        """Return its records in order, also those of control batches.

        Args:
            limit_bytes: bytes to which it may decompress.
        Raises:
            CorruptBatch: names file and position; records before the damage may have been yielded.
            UnsupportedCodec.
        """
        if self.problem is not None:
            raise CorruptBatch(f"{self.where}: {self.problem}")
        try:
            if isinstance(self.unit, BatchHeader):
                yield from iter_records(self.data(), 0, limit_bytes=limit_bytes)
            else:
                yield from entry_records(self.unit, limit_bytes)
        except CorruptBatch as error:
            raise CorruptBatch(f"{self.where}: {error}") from error


class Segment:
    """The files of a segment. `names`: suffix -> file name, of existing files."""

    __slots__ = ("base_offset", "folder", "names", "size", "storage")

    def __init__(self, storage: Storage, folder: str, base_offset: int, names: Mapping[str, str], size: int) -> None:
        self.storage = storage
        self.folder = folder
        self.base_offset = base_offset
        self.names = names
        self.size = size  # bytes of the log file, when the folder was listed

    def __repr__(self) -> str:
        return f"<segment {self.location()}, {self.size} bytes>"

    def path(self, suffix: str = LOG) -> str:
        """Return the path of one of its files in the storage, whether it exists or not."""
        name = self.names.get(suffix) or file_name(self.base_offset, suffix)
        return f"{self.folder}/{name}" if self.folder else name

    def location(self, suffix: str = LOG) -> str:
        """Return the name of one of its files for people."""
        return f"{self.storage.location}/{self.path(suffix)}"

    def walk(self, position: int = 0, end: int | None = None, *, check: bool = True) -> Iterator[Batch | InvalidBytes]:
        """Run `walk` on its log file.

        Raises: StorageFailed. FileNotFoundError: a broker has deleted it meanwhile.
        """
        file = self.storage.open(self.path(), size=self.size)
        try:
            yield from walk(file, self.location(), position, self.size if end is None else end, check=check)
        finally:
            file.close()


def walk(file: File, location: str, position: int, end: int, *, check: bool = True) -> Iterator[Batch | InvalidBytes]:
    """Yield the batches of a log file from `position`, then the bytes without a batch.

    A batch must begin at `position`.

    A batch with a wrong checksum or header is yielded with its `problem` and skipped by the length
    in its header. Memory: a chunk of 1 MiB, or one batch that ends before `end`.

    Args:
        check: verify all checksums, which reads all bytes; False: only those of control batches.
    Raises: StorageFailed.
    """
    scanner = BatchScanner(file, position, end, check=CheckLevel.CHECKSUMS if check else CheckLevel.CONTROL_CHECKSUMS)
    for item in scan_reporting(scanner):
        if isinstance(item, CorruptRange):
            yield _invalid_bytes(file, item)
        else:
            yield Batch(item.header, file, location, item.position, _data_of(item), item.fault)


def _data_of(batch: ScannedBatch) -> memoryview | None:
    raw = batch.raw
    return raw if len(raw) == batch.header.size else None


def _invalid_bytes(file: File, corrupt: CorruptRange) -> InvalidBytes:
    size = corrupt.end - corrupt.position
    if not corrupt.is_truncated and is_zero(file, corrupt.position, corrupt.end):
        return InvalidBytes(corrupt.position, size, corrupt.expected, f"{size} zero bytes", True, True)
    return InvalidBytes(corrupt.position, size, corrupt.expected, corrupt.found, corrupt.is_truncated)


def is_zero(file: File, position: int, end: int) -> bool:
    """Return whether all bytes between `position` and `end` are zero."""
    zeros = bytes(CHUNK_BYTES)
    while position < end:
        buf = file.read_at(position, min(CHUNK_BYTES, end - position))
        if not buf or buf != zeros[: len(buf)]:
            return False
        position += len(buf)
    return True
