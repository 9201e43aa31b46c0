"""Sealed segments, as given to work that a cleanup policy wants done before they are deleted.

See `policies.Drop.before_delete`. Everything here can be pickled and runs beside a broker that uses
the same log. Nothing is written. What is read does not change, because the log is not compacted
until the work has ended. If the segments are deleted meanwhile (another policy, DeleteRecords, the
end of the topic), reading fails; it never returns other data.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from kqueue.base.clock import monotonic_s, sleep
from kqueue.base.errors import CorruptBatch, CorruptIndex, JobCancelled, JobFailed, KqueueError, StorageFailed
from kqueue.log.compaction.model import SegmentSource
from kqueue.log.compaction.offset_map_builder import read_aborted
from kqueue.log.compaction.retention import TransactionTracker
from kqueue.log.compaction.segment_reader import SegmentReader
from kqueue.log.compaction.throttle import Throttle
from kqueue.log.formats.checkpoints import decode_partition_metadata
from kqueue.log.formats.filenames import LOG, PARTITION_METADATA, file_name
from kqueue.log.scanner.batch_scanner import AnyHeader, ScannedBatch, first_offset
from kqueue.log.views import SegmentView
from kqueue.records.batch import DECOMPRESSED_BYTES_MAX, BatchHeader, Record, iter_records
from kqueue.storage import File, Storage

CHUNK_BYTES = 1 << 20  # of a file, read at a time


class SealedBatch:
    """A batch, or a message of an old format, whose checksum is right.

    Attributes:
        unit: its header or entry.
        location, position: file name for messages, byte position in it.
        is_aborted: data of an aborted transaction; consumers with read_committed do not get it.
        is_control: an end marker of a transaction; consumers do not get it.
    """

    __slots__ = ("_batch", "is_aborted", "location", "position", "unit")

    def __init__(self, batch: ScannedBatch, location: str, is_aborted: bool) -> None:
        self._batch = batch
        self.unit: AnyHeader = batch.header
        self.location = location
        self.position = batch.position
        self.is_aborted = is_aborted

    def __repr__(self) -> str:
        return f"<batch {self.base_offset}..{self.last_offset} at {self.position} of {self.location}>"

    @property
    def base_offset(self) -> int:
        """First offset; of a compressed message of an old format, which has only its last, that
        one.
        """
        return first_offset(self.unit)

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.unit.last_offset

    @property
    def next_offset(self) -> int:
        """Offset after the last record."""
        return self.unit.last_offset + 1

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.unit.size

    @property
    def is_control(self) -> bool:
        return isinstance(self.unit, BatchHeader) and self.unit.is_control

    def data(self) -> memoryview:
        """Return all its bytes, as in the file; valid until the next batch is read."""
        return self._batch.raw

    def records(self, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
        """Return its records, in order.

        Args: limit_bytes: maximum size after decompression.
        Raises: CorruptBatch: with file and position. UnsupportedCodec.
        """
        try:
            if isinstance(self.unit, BatchHeader):
                yield from iter_records(self.data(), 0, limit_bytes=limit_bytes)
            else:
                yield from self._batch.messages(limit_bytes)
        except CorruptBatch as error:
            raise CorruptBatch(f"{self.location}, batch at position {self.position}: {error}") from error


@dataclass(frozen=True)
class SealedSegments:
    """Segments of one partition that are about to be deleted.

    Args:
        topic_id: 16 bytes; None: the log has none. A topic that is deleted and created again has
            another id, so id and offset identify a record for good; name and offset do not.
        folder: the partition's folder, in `storage`. location: the folder, for messages.
        segments: oldest first, at least one, without gaps; none is the active one.
        start_offset: consumers see nothing below it. It is in the first segment.
        end_offset: exclusive end of the last segment. All of it is below the high watermark, on
            disk, and in no open transaction.
        opener: returns the storage; picklable where other processes can open it.
    """

    topic: str
    partition: int
    topic_id: bytes | None
    folder: str
    location: str
    segments: tuple[SegmentView, ...]
    start_offset: int
    end_offset: int
    opener: Callable[[], Storage] = field(compare=False)
    _cancelled: list[bool] = field(default_factory=list, repr=False, compare=False)

    @property
    def size(self) -> int:
        """Bytes of batches in all segments."""
        return sum(segment.size for segment in self.segments)

    @property
    def storage(self) -> Storage:
        """The broker's files, to read; each access reopens it. Writing there breaks the log."""
        return self.opener()

    def batches(self) -> Iterator[SealedBatch]:
        """Iterate over all batches from the one that holds `start_offset` on, in offset order.

        Includes aborted data and control batches, so that an exact copy misses nothing; the flags
        mark them. A batch may begin below `start_offset`. Can be called again. Memory: 1 MiB, or
        one batch if that is larger.

        Raises: CorruptBatch: a checksum or length is wrong; names file and position. CorruptIndex:
            the index of aborted transactions is damaged. StorageFailed, FileNotFoundError: the
            segments can't be read, or were deleted meanwhile.
        """
        storage = self.opener()
        sizes = {entry.name: entry.size for entry in storage.list(self.folder)}
        aborted = read_aborted(storage, self.folder, [_source(segment) for segment in self.segments], sizes)
        transactions = TransactionTracker(aborted)
        for segment in self.segments:
            file = storage.open(f"{self.folder}/{file_name(segment.base_offset, LOG)}", size=segment.size)
            try:
                file.read_at(0, 1)  # from here on it is open, and stays the same file whatever becomes of its name
                self._check_identity(storage)
                yield from self._of_segment(file, segment, transactions)
            finally:
                file.close()

    def records(self) -> Iterator[Record]:
        """Iterate over what a consumer with read_committed gets, in offset order.

        No aborted data, no control records, nothing below `start_offset`; compaction may have left
        gaps. Memory: one decompressed batch. Raises: as `batches`; UnsupportedCodec.
        """
        for batch in self.batches():
            if batch.is_control or batch.is_aborted:
                continue
            if batch.base_offset >= self.start_offset and isinstance(batch.unit, BatchHeader):
                yield from batch.records()
            else:
                yield from (record for record in batch.records() if record.offset >= self.start_offset)

    def cancel(self) -> None:
        """Raise JobCancelled from a running iteration at its next batch. Thread: any."""
        self._cancelled.append(True)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cancelled": []}

    def _of_segment(self, file: File, segment: SegmentView, transactions: TransactionTracker) -> Iterator[SealedBatch]:
        location = f"{self.location}/{file_name(segment.base_offset, LOG)}"
        reader = SegmentReader(
            file, location, segment.size, segment.base_offset, segment.end_offset, CHUNK_BYTES, _unthrottled()
        )
        try:
            for batch in reader:
                if self._cancelled:
                    raise JobCancelled("the broker stops")
                unit = batch.header
                is_data = isinstance(unit, BatchHeader) and not unit.is_control
                is_aborted = is_data and isinstance(unit, BatchHeader) and transactions.is_aborted(unit)
                if unit.last_offset >= self.start_offset:
                    yield SealedBatch(batch, location, is_aborted)
        except CorruptBatch as error:
            raise reader.located(error) from error

    def _check_identity(self, storage: Storage) -> None:
        """Raise StorageFailed if the folder now belongs to another topic of the same name."""
        try:
            identity = decode_partition_metadata(storage.read(f"{self.folder}/{PARTITION_METADATA}"))
        except (FileNotFoundError, CorruptIndex):
            return  # of an old Kafka; one that is gone with its folder is noticed by who opens the next file
        if self.topic_id is not None and identity != self.topic_id:
            raise StorageFailed(f"{self.location} is of another topic by now")


def _unthrottled() -> Throttle:
    return Throttle(float("inf"), sleep, monotonic_s)


def _source(segment: SegmentView) -> SegmentSource:
    return SegmentSource(segment.base_offset, segment.end_offset, segment.size)


@dataclass(frozen=True)
class PreDeleteTask:
    """The work as a job. Returns None, whatever `before_delete` returns."""

    before_delete: Callable[[SealedSegments], object]
    segments: SealedSegments

    def __call__(self) -> None:
        """Run the work.

        Raises: JobFailed: what a plugin's code raised, and where. Errors of reading and every
            KqueueError pass unchanged.
        """
        try:
            self.before_delete(self.segments)
        except (FileNotFoundError, KqueueError):
            raise
        except (
            Exception,
            SystemExit,
        ) as error:  # of a plugin's own class, which may not survive the way back to the broker
            raise JobFailed(f"{type(error).__name__}: {error}{_where(error)}") from error

    def cancel(self) -> None:
        """Cancel work that runs in a thread; see `SealedSegments.cancel`. A process of its own is
        ended.
        """
        self.segments.cancel()


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({PurePath(frames[-1].filename).name}, line {frames[-1].lineno})" if len(frames) > 1 else ""
