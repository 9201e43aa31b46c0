"""Walk over the batches of a log file, of any magic, without reading more of the file than it
takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from kqueue.base.errors import CorruptBatch
from kqueue.records.any_format import LegacyEntry, check_entry
from kqueue.records.batch import (
    BATCH_OVERHEAD,
    LENGTH_FIELD_END,
    MAGIC_POSITION,
    BatchHeader,
    check_crc,
    read_header,
    stated_size,
)
from kqueue.records.message_set import read_entry

Unit = BatchHeader | LegacyEntry
CHUNK_BYTES = 64 * 1024
CHUNK_BYTES_CHECKED = 1024 * 1024


class Readable(Protocol):
    """A file, or an open one that a region holds."""

    def read_at(self, position: int, size: int) -> bytes: ...


def scan(
    file: Readable, position: int, end: int, *, check: bool = False, chunk_bytes: int | None = None, whole: bool = False
) -> Iterator[tuple[int, Unit]]:
    """(position, header or entry) of each whole batch between `position`, where one begins, and
    `end`; stops where the last is cut off.

    Args: check: compare checksums, which reads all bytes. chunk_bytes: how much to read at a time
    (more where a batch needs it). whole: the last batch is not cut off. Raises: CorruptBatch: what
    stands there is no batch; those before it have been yielded. StorageFailed. Allocates no more
    than the chunk, or one batch that lies whole before `end`.
    """
    chunk_bytes = max(chunk_bytes or (CHUNK_BYTES_CHECKED if check else CHUNK_BYTES), BATCH_OVERHEAD)
    buf, start = b"", position
    while end - position > MAGIC_POSITION:
        if position - start + BATCH_OVERHEAD > len(buf):
            buf, start = file.read_at(position, min(chunk_bytes, end - position)), position
        at = position - start
        if len(buf) - at <= MAGIC_POSITION:
            break  # the file is shorter than it was said to be
        size = stated_size(buf, at)
        magic = buf[at + MAGIC_POSITION]
        if size <= LENGTH_FIELD_END or magic > 2:
            raise CorruptBatch(
                f"no batch begins at position {position}: length {size - LENGTH_FIELD_END}, magic {magic}"
            )
        if size > end - position:
            break
        if (check or magic < 2) and at + size > len(buf):
            buf, start, at = file.read_at(position, min(max(chunk_bytes, size), end - position)), position, 0
        yield position, _unit(buf, at, magic, check)
        position += size
    if whole and position < end:
        raise CorruptBatch(f"the batch at position {position} is cut off at {end}")


def first_offset(unit: Unit) -> int:
    """Offset at which the unit begins; of a wrapper of old magic, which knows only its last, that
    one.
    """
    return unit.base_offset if isinstance(unit, BatchHeader) else unit.offset


def _unit(buf: bytes, at: int, magic: int, check: bool) -> Unit:
    if magic == 2:
        header = read_header(buf, at)
        if check:
            check_crc(buf, at, header)
        return header
    entry = read_entry(buf, at, len(buf))
    if entry is None:
        raise CorruptBatch("a message of old format is cut off by its own length")
    if check:
        check_entry(buf, entry)
    return entry
