"""Writes sealed segments to Parquet, and returns only when all of it was read back and is what the
log says.

Two passes over the segments, each with all checksums compared. The first writes the rows under
names that readers of Parquet pass over (``_…``); the second goes through the log again and compares
every column of every row with what the files give back. Then the files get their names. Rows that a
file has already (the process was killed before the segments were deleted) are compared, and not
written again: so each is there once, wherever segments begin and end the next time. Nothing that
has its name is ever changed or removed.
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
NO_DAY = "__HIVE_DEFAULT_PARTITION__"  # what readers of such folders take for null
HELD_BYTES_MAX = 2 * BYTES_MAX  # of rows whose day's chunk is not full yet


class ArchiveFailed(KqueueError):
    """The archive can't be opened, or what was read back from it is not what the log says."""


@dataclass(frozen=True)
class Archive:
    """The work that `policies.Drop.before_delete` asks for. `uri`, `filesystem`: see
    `ArchivePolicy`; the former may hold a password.
    """

    uri: str = field(repr=False)
    filesystem: FileSystem | None = field(default=None, repr=False)

    def __call__(self, segments: SealedSegments) -> None:
        """Durability: on return the rows are in the archive for good, as far as its filesystem can
        promise that.

        Crash: whole files, or none; files called ``_….partial`` are left at most, and go the next
        time. Memory: some 150 MiB. Raises: ArchiveFailed; OSError: the archive can't be written or
        read; what `SealedSegments.batches` raises. No new file has its name then, unless it was
        verified.
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
            day.end_file()  # a file that went on behind another would seem to have that one's rows


def _verify(day: Day, chunk: pa.RecordBatch) -> None:
    for file, part in day.parts(chunk):
        offsets = part.column("offset")
        if file is None:
            raise ArchiveFailed(f"offset {offsets[0]} of the log was not written to the archive")
        found = day.read(file, part)
        if not found.equals(part):
            raise ArchiveFailed(
                f"{file.path} does not give back what the log has from offset {offsets[0]} to {offsets[-1]}; if it "
                "was there before, "
                "move it elsewhere to have it written again"
            )


# --- rows, by day


def _chunks(segments: SealedSegments) -> Iterator[tuple[str, pa.RecordBatch]]:
    """All rows that consumers are given, in chunks of one day each; those of a day in order of
    offset.
    """
    held: dict[str, list[Row]] = {}
    size = 0
    names: dict[int, str] = {}
    for row in rows(_Handed(segments), Selection()):
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
    """The day of this number since 1970, in UTC, as ISO 8601 has it; `NO_DAY` before (there is no
    time), and after the year 9999.
    """
    return date.fromordinal(EPOCH + number).isoformat() if 0 <= number <= date.max.toordinal() - EPOCH else NO_DAY


class _Handed:
    """Sealed segments as what `kqueue.log_tools.rows` reads."""

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
