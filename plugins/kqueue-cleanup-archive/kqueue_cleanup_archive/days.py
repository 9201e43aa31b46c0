"""The files of one partition in the archive, by day:

    <root>/topic=<topic>/date=<YYYY-MM-DD>/
        <partition>-<first offset>-<last offset>-<topic id>.parquet

A file contains all rows of its day between its first and its last offset. The name contains the
topic id because a topic that is deleted and recreated starts at offset 0 again.
"""

from __future__ import annotations

import contextlib
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kqueue.log.sealed_segments import SealedSegments
from kqueue.log_tools.arrow import schema
from kqueue_cleanup_archive.durable import sync_file, sync_folders

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow.fs import FileSystem

OPEN_MAX = 8  # files open for writing or reading at the same time
PARTIAL = ".partial"
OBJECT_STORES = frozenset({"s3", "gcs"})  # folders need not be created
_NAME = re.compile(r"(\d+)-(\d+)-(\d+)-([0-9a-f]{32})\.parquet")


@dataclass(slots=True)
class File:
    """One file of the archive.

    Attributes:
        path: its current path.
        to: its final path; None: `path` is final.
        row_count: rows written by this run.
    """

    path: str
    first_offset: int
    last_offset: int
    to: str | None = None
    row_count: int = 0


class Days:
    """The days for which the segments have rows. The caller must call `discard` when done."""

    def __init__(self, filesystem: FileSystem, root: str, segments: SealedSegments) -> None:
        self.filesystem = filesystem
        self.root = root
        self.segments = segments
        self.is_object_store = filesystem.type_name in OBJECT_STORES
        self._days: dict[str, Day] = {}
        self._open: dict[str, Day] = {}  # days with an open file, least recently used first

    def day(self, name: str) -> Day:
        """Return the day of this name with its archived files. Raises: OSError."""
        day = self._days.get(name)
        if day is None:
            day = self._days[name] = Day(self, name)
        self._open.pop(name, None)
        self._open[name] = day
        while len(self._open) > OPEN_MAX:
            self._open.pop(next(iter(self._open))).close()
        return day

    def close(self) -> None:
        """Close all open files. Raises: OSError."""
        while self._open:
            self._open.popitem()[1].close()

    def publish(self) -> None:
        """Rename the new files to their final names, durably. Raises: OSError: some are renamed."""
        self.close()
        for day in self._days.values():
            day.publish()

    def discard(self) -> None:
        """Delete all files without a final name; errors are ignored."""
        for day in self._days.values():
            day.discard()


class Day:
    """The files of one day of one partition. `files`: by rising offset, without overlaps."""

    def __init__(self, days: Days, name: str) -> None:
        segments = days.segments
        self._days = days
        self._filesystem = days.filesystem
        self._folder = f"{days.root}/topic={segments.topic}/date={name}"
        self._topic_id = (segments.topic_id or bytes(16)).hex()
        self._writer: _Writer | None = None
        self._reader: _Reader | None = None
        self.files: list[File] = []
        self._list_files()

    def _list_files(self) -> None:
        from pyarrow.fs import FileSelector

        segments = self._days.segments
        for info in self._filesystem.get_file_info(FileSelector(self._folder, allow_not_found=True)):
            matched = _NAME.fullmatch(info.base_name.removeprefix("_").removesuffix(PARTIAL))
            if matched is None or (int(matched[1]), matched[4]) != (segments.partition, self._topic_id):
                continue
            if info.base_name.endswith(PARTIAL):
                self._filesystem.delete_file(info.path)  # left by a killed process
            elif int(matched[3]) >= segments.start_offset and int(matched[2]) < segments.end_offset:
                self.files.append(File(info.path, int(matched[2]), int(matched[3])))
        self.files.sort(key=lambda file: file.first_offset)

    def parts(self, chunk: pa.RecordBatch) -> Iterator[tuple[File | None, pa.RecordBatch]]:
        """Yield the rows of a chunk, split where a file begins or ends, each part with its file.

        The file is None where no file contains the rows.
        """
        offsets = chunk.column("offset").to_pylist()
        at = 0
        while at < len(offsets):
            file = next((file for file in self.files if file.last_offset >= offsets[at]), None)
            end = len(offsets)
            if file is not None and file.first_offset <= offsets[at]:
                end = _count_below(offsets, file.last_offset + 1)
                yield file, chunk.slice(at, end - at)
            else:
                end = end if file is None else _count_below(offsets, file.first_offset)
                yield None, chunk.slice(at, end - at)
            at = end

    # --- writing

    def append(self, rows: pa.RecordBatch) -> None:
        """Write rows that no file contains; offsets rise from call to call. Raises: OSError."""
        if self._writer is None:
            if not self._days.is_object_store:
                self._filesystem.create_dir(self._folder, recursive=True)
            first = rows.column("offset")[0].as_py()
            self._writer = _Writer(self._filesystem, f"{self._folder}/_{self._name(first, first)}{PARTIAL}", first)
        self._writer.write(rows)

    def end_file(self) -> None:
        """Finish the current file; the next `append` starts another one. Raises: OSError."""
        if self._writer is not None:
            file = self._writer.end()
            file.to = f"{self._folder}/{self._name(file.first_offset, file.last_offset)}"
            self.files.append(file)
            self.files.sort(key=lambda file: file.first_offset)
            self._writer = None

    def _name(self, first: int, last: int) -> str:
        return f"{self._days.segments.partition}-{first:020d}-{last:020d}-{self._topic_id}.parquet"

    # --- reading

    def read(self, file: File, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the archived rows with the offsets of `rows`, which must rise from call to call.

        Raises:
            OSError: the file can't be read.
            ValueError: raised by pyarrow: the file is not a Parquet file with these columns.
        """
        if self._reader is None or self._reader.file is not file:
            self._end_reading()
            self._reader = _Reader(self._filesystem, file)
        return self._reader.read(rows)

    def _end_reading(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def close(self) -> None:
        """Close the open files of this day. Raises: OSError."""
        self.end_file()
        self._end_reading()

    # --- publishing

    def publish(self) -> None:
        """Rename the new files of this day; see `Days.publish`."""
        new = [file for file in self.files if file.to is not None]
        for file in new:
            assert file.to is not None, "it was just selected"
            size = self._filesystem.get_file_info(file.path).size
            self._filesystem.move(file.path, file.to)
            file.path, file.to = file.to, None
            size_now = self._filesystem.get_file_info(file.path).size
            if size_now != size:
                raise OSError(f"{file.path} had {size} bytes before it got its name, and has {size_now} now")
        if new:
            sync_folders(self._filesystem, self._folder)

    def discard(self) -> None:
        """Delete the unpublished files of this day; see `Days.discard`."""
        self._end_reading()
        paths = [file.path for file in self.files if file.to is not None]
        if self._writer is not None:
            self._writer.abandon()
            paths.append(self._writer.path)
        for path in paths:
            with contextlib.suppress(OSError):
                self._filesystem.delete_file(path)


class _Writer:
    """Writes one new file."""

    def __init__(self, filesystem: FileSystem, path: str, first_offset: int) -> None:
        import pyarrow.parquet as pq

        self.path = path
        self._filesystem = filesystem
        self._file = File(path, first_offset, first_offset)
        self._stream = filesystem.open_output_stream(path)
        try:
            self._writer = pq.ParquetWriter(self._stream, schema(), compression="zstd", write_page_checksum=True)
        except BaseException:  # the constructor writes the first bytes
            for clean_up in (self._stream.close, lambda: filesystem.delete_file(path)):
                with contextlib.suppress(OSError):
                    clean_up()
            raise

    def write(self, rows: pa.RecordBatch) -> None:
        self._writer.write_batch(rows, row_group_size=rows.num_rows)
        self._file.last_offset = rows.column("offset")[-1].as_py()
        self._file.row_count += rows.num_rows

    def end(self) -> File:
        self._writer.close()
        self._stream.close()
        sync_file(self._filesystem, self.path)
        return self._file

    def abandon(self) -> None:
        for end in (self._writer.close, self._stream.close):
            with contextlib.suppress(OSError):
                end()


class _Reader:
    """Reads one file sequentially."""

    def __init__(self, filesystem: FileSystem, file: File) -> None:
        import pyarrow.parquet as pq

        self.file = file
        self._source = filesystem.open_input_file(file.path)
        self._parquet: pq.ParquetFile = pq.ParquetFile(self._source, page_checksum_verification=True)
        self._next_group = 0
        self._rows = schema().empty_table()
        if file.to is not None and self._parquet.metadata.num_rows != file.row_count:
            raise OSError(f"{file.path} should have {file.row_count} rows, and has {self._parquet.metadata.num_rows}")

    def read(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of these offsets that the file contains."""
        import pyarrow as pa
        import pyarrow.compute as pc

        first, last = rows.column("offset")[0].as_py(), rows.column("offset")[-1].as_py()
        while self._last_read() < last and self._next_group < self._parquet.num_row_groups:
            more = self._parquet.read_row_group(self._next_group)
            self._rows = pa.concat_tables([self._rows.filter(pc.greater_equal(self._rows["offset"], first)), more])
            self._next_group += 1
        matching = self._rows.filter(pc.is_in(self._rows["offset"], rows.column("offset")))
        self._rows = self._rows.filter(pc.greater(self._rows["offset"], last))
        batches = matching.combine_chunks().to_batches()
        return batches[0] if batches else rows.slice(0, 0)

    def _last_read(self) -> int:
        return int(self._rows["offset"][-1].as_py()) if self._rows.num_rows else -1

    def close(self) -> None:
        self._parquet.close()
        self._source.close()


def _count_below(offsets: list[int], offset: int) -> int:
    return bisect_left(offsets, offset)
