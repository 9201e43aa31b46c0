"""Writes sealed segments to Parquet and verifies every row before it returns.

Two passes read the segments and verify all checksums. The first pass writes the rows under
temporary names (``_…``), which Parquet readers skip. The second pass reads the log again and
compares every column of every row with the files. Then the files are renamed to their final names.

Rows that are in a file already are compared, but not written again: a process may have been killed
before the segments were deleted. So each row is archived once, even if segment boundaries change.
A file with its final name is never changed or deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from kqueue.base.errors import KqueueError
from kqueue.log.sealed_segments import SealedSegments
from kqueue.log_tools.arrow import BYTES_MAX, ROWS_MAX, record_batches
from kqueue.log_tools.rows import Row, Selection, rows, size_of
from kqueue.log_tools.segments import ReadableBatch
from kqueue.log_tools.valid_batches import OnDamage
from kqueue_cleanup_archive.days import Day, Days

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileSystem

DAY_MS = 86_400_000
EPOCH = date(1970, 1, 1).toordinal()
NO_DAY = "__HIVE_DEFAULT_PARTITION__"  # the null partition value of Hive-style folders
HELD_BYTES_MAX = 2 * BYTES_MAX  # buffered rows of days whose chunk is not full yet


class ArchiveFailed(KqueueError):
    """The archive can't be opened, or its content differs from the log."""


@dataclass(frozen=True)
class Archive:
    """Archives segments before they are deleted; the callable of `policies.Drop.before_delete`.

    Attributes:
        uri: see `ArchivePolicy`; it may contain a password and is left out of the representation.
        filesystem: see `ArchivePolicy`.
    """

    uri: str = field(repr=False)
    filesystem: FileSystem | None = field(default=None, repr=False)

    def __call__(self, segments: SealedSegments) -> None:
        """Write all rows of the segments to the archive and verify them; uses about 150 MiB.

        Raises:
            ArchiveFailed: the archive can't be opened, or its content differs from the log.
            OSError: the archive can't be written or read.
            Also what `SealedSegments.batches` raises. Only verified files have their final names.
        Durability: on return the rows are durable, as far as the filesystem guarantees it. A crash
            leaves only complete files and ``_….partial`` files, which the next run deletes.
        """
        filesystem, root = self._open()
        days = Days(filesystem, root, segments)
        try:
            for day, chunk in _chunks(segments):
                _write(days.day(day), chunk)
            days.close()
            for day, chunk in _chunks(segments):
                _verify(days.day(day), chunk)
            days.publish()
        finally:
            days.discard()

    def _open(self) -> tuple[FileSystem, str]:
        from pyarrow.fs import FileSystem

        if self.filesystem is not None:
            return self.filesystem, self.uri.rstrip("/")
        scheme, separator, _ = self.uri.partition("://")
        uri = self.uri if separator else str(Path(self.uri).expanduser().absolute())
        try:
            filesystem, root = FileSystem.from_uri(uri)
        except (ValueError, ImportError) as error:
            raise ArchiveFailed(
                f"the archive ({scheme}://...) can't be opened: {str(error).replace(uri, '...')}"
            ) from None
        return filesystem, root.rstrip("/")


def _write(day: Day, chunk: pa.RecordBatch) -> None:
    for file, part in day.parts(chunk):
        if file is None:
            day.append(part)
        else:
            day.end_file()  # files of a day must not overlap in offsets


def _verify(day: Day, chunk: pa.RecordBatch) -> None:
    for file, part in day.parts(chunk):
        offsets = part.column("offset")
        if file is None:
            raise ArchiveFailed(f"offset {offsets[0]} of the log was not written to the archive")
        archived = day.read(file, part)
        if not archived.equals(part):
            raise ArchiveFailed(
                f"{file.path} does not give back what the log has from offset {offsets[0]} to {offsets[-1]}; if it "
                "was there before, "
                "move it elsewhere to have it written again"
            )


# --- rows, by day


def _chunks(segments: SealedSegments) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield all rows that consumers can read, in chunks of one day each.

    The rows of one day are in offset order.
    """
    held: dict[str, list[Row]] = {}
    size = 0
    names: dict[int, str] = {}
    for row in rows(_SegmentsLog(segments), Selection()):
        number = -1 if row.timestamp is None else row.timestamp // DAY_MS
        name = names.get(number) or names.setdefault(number, day_of(number))
        chunk = held.setdefault(name, [])
        chunk.append(row)
        size += size_of(row)
        if len(chunk) >= ROWS_MAX or size >= HELD_BYTES_MAX:
            for name, chunk in held.items():
                yield from _batches(name, chunk)
            held.clear()
            names.clear()
            size = 0
    for name, chunk in held.items():
        yield from _batches(name, chunk)


def _batches(name: str, chunk: list[Row]) -> Iterator[tuple[str, pa.RecordBatch]]:
    return ((name, batch) for batch in record_batches(chunk, Selection()))


def day_of(number: int) -> str:
    """Return the UTC date of a day counted from 1970-01-01, in ISO 8601 format.

    Returns: `NO_DAY` for a negative number (the record has no timestamp) or after the year 9999.
    """
    return date.fromordinal(EPOCH + number).isoformat() if 0 <= number <= date.max.toordinal() - EPOCH else NO_DAY


class _SegmentsLog:
    """Adapts sealed segments to the interface that `kqueue.log_tools.rows` reads."""

    def __init__(self, segments: SealedSegments) -> None:
        self.topic: str | None = segments.topic
        self.partition: int | None = segments.partition
        self.location = segments.location
        self.start_offset = segments.start_offset
        self._segments = segments

    def batches(
        self,
        *,
        start_offset: int | None = None,
        end_offset: int | None = None,
        check: bool = True,
        on_damage: OnDamage = "raise",
    ) -> Iterator[ReadableBatch]:
        return (batch for batch in self._segments.batches() if not batch.is_aborted)
