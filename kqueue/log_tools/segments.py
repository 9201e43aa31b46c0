"""The segments of a partition's folder as they stand on disk, and the way over the batches of one,
damaged ones included.

Nothing here writes, locks or keeps a descriptor for long; a running broker may append to the files
meanwhile.
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
    """Bytes of a log file in which no batch begins: `size` of them from `position` on.

    `is_tail`: the file ends with them, and they look like the beginning of a batch, or are zeros
    (`is_zero`) that were allocated beforehand: what a crash or a broker at work leaves. Otherwise
    they are damage.
    """

    position: int
    size: int
    expected: str
    found: str
    is_tail: bool
    is_zero: bool = False

    @property
    def fault(self) -> Fault:
        return Fault(self.expected, self.found)


class ReadableBatch(Protocol):
    """What has records: a `Batch`, which says what each of these is, or one of `kqueue.log.sealed_segments`."""

    @property
    def unit(self) -> AnyHeader: ...

    @property
    def place(self) -> str: ...

    @property
    def position(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def is_control(self) -> bool: ...

    def data(self) -> memoryview: ...

    def records(self, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]: ...


class Batch:
    """A batch, or a message of the old formats, as it stands in a file.

    `unit`: its header or entry, which share `size`, `magic`, `crc`, `codec_id`, `last_offset`,
    `max_timestamp` and more; `place`: the file's name for people; `position`: bytes in it;
    `problem`: what is wrong with it, None: nothing, or it was not checked.
    """

    __slots__ = ("_data", "_file", "place", "position", "problem", "unit")

    def __init__(
        self, unit: AnyHeader, file: File, place: str, position: int, data: memoryview | None, problem: Fault | None
    ) -> None:
        self.unit = unit
        self.place = place
        self.position = position
        self.problem = problem
        self._file = file
        self._data = data

    def __repr__(self) -> str:
        return f"<batch {self.base_offset}..{self.last_offset} at {self.position} of {self.place}{'' if self.is_valid else ', damaged'}>"

    @property
    def is_valid(self) -> bool:
        """Its checksum and header are right, as far as they were checked."""
        return self.problem is None

    @property
    def base_offset(self) -> int:
        """Offset at which it begins; of a compressed message of old format, which knows only its
        last, that one.
        """
        return self.unit.base_offset if isinstance(self.unit, BatchHeader) else self.unit.offset

    @property
    def last_offset(self) -> int:
        return self.unit.last_offset

    @property
    def next_offset(self) -> int:
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
        return self.unit.magic

    @property
    def is_control(self) -> bool:
        return isinstance(self.unit, BatchHeader) and self.unit.is_control

    @property
    def is_transactional(self) -> bool:
        return isinstance(self.unit, BatchHeader) and self.unit.is_transactional

    def data(self) -> memoryview:
        """All its bytes. Raises CorruptBatch: the file has been cut meanwhile. StorageFailed."""
        if self._data is None:
            self._data = memoryview(self._file.read_at(self.position, self.size))
            if len(self._data) != self.size:
                raise CorruptBatch(f"{self.where}: {self.size} bytes were here, now there are {len(self._data)}")
        return self._data

    @property
    def where(self) -> str:
        return f"{self.place}, position {self.position}"

    def records(self, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
        """Its records, in order, those of control batches too.

        Args: limit_bytes: what it may decompress to. Raises: CorruptBatch: names file and position;
        records before the damage may have been yielded. UnsupportedCodec.
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
    """A segment's files: `base_offset` from their name; `names`: suffix -> file name of those that
    are there.
    """

    __slots__ = ("base_offset", "folder", "names", "size", "storage")

    def __init__(self, storage: Storage, folder: str, base_offset: int, names: Mapping[str, str], size: int) -> None:
        self.storage = storage
        self.folder = folder
        self.base_offset = base_offset
        self.names = names
        self.size = size  # bytes of the log file, when the folder was listed

    def __repr__(self) -> str:
        return f"<segment {self.place()}, {self.size} bytes>"

    def path(self, suffix: str = LOG) -> str:
        """Path of one of its files in the storage, whether it is there or not."""
        name = self.names.get(suffix) or file_name(self.base_offset, suffix)
        return f"{self.folder}/{name}" if self.folder else name

    def place(self, suffix: str = LOG) -> str:
        """Name of one of its files for people."""
        return f"{self.storage.location}/{self.path(suffix)}"

    def walk(self, position: int = 0, end: int | None = None, *, check: bool = True) -> Iterator[Batch | InvalidBytes]:
        """As `walk`, over its log file. Raises StorageFailed, FileNotFoundError (the broker has
        deleted it meanwhile).
        """
        file = self.storage.open(self.path(), size=self.size)
        try:
            yield from walk(file, self.place(), position, self.size if end is None else end, check=check)
        finally:
            file.close()


def walk(file: File, place: str, position: int, end: int, *, check: bool = True) -> Iterator[Batch | InvalidBytes]:
    """Yield the batches of a log file from `position`, where one begins; then the bytes up to `end`
    that hold none, if there are any.

    A batch whose checksum or header is wrong is yielded with its `problem` and skipped by the
    length that it names.

    Args: check: compare checksums, which reads all bytes; False: only those of control batches.
    Raises: StorageFailed. Allocates a chunk of 1 MiB, or one batch that lies whole before `end`.
    """
    scanner = BatchScanner(file, position, end, check=CheckLevel.CHECKSUMS if check else CheckLevel.CONTROL_CHECKSUMS)
    for item in scan_reporting(scanner):
        if isinstance(item, CorruptRange):
            yield _invalid_bytes(file, item)
        else:
            yield Batch(item.header, file, place, item.position, _data_of(item), item.fault)


def _data_of(batch: ScannedBatch) -> memoryview | None:
    raw = batch.raw
    return raw if len(raw) == batch.header.size else None


def _invalid_bytes(file: File, corrupt: CorruptRange) -> InvalidBytes:
    size = corrupt.end - corrupt.position
    if not corrupt.is_truncated and is_zero(file, corrupt.position, corrupt.end):
        return InvalidBytes(corrupt.position, size, corrupt.expected, f"{size} zero bytes", True, True)
    return InvalidBytes(corrupt.position, size, corrupt.expected, corrupt.found, corrupt.is_truncated)


def is_zero(file: File, position: int, end: int) -> bool:
    """Whether nothing but zeros stands between `position` and `end`."""
    zeros = bytes(CHUNK_BYTES)
    while position < end:
        buf = file.read_at(position, min(CHUNK_BYTES, end - position))
        if not buf or buf != zeros[: len(buf)]:
            return False
        position += len(buf)
    return True
