"""Sealed segments as they are handed to work that a cleanup policy wants done before they go
(`policies.Drop.before_delete`).

Everything here can be pickled and runs where the files are, beside a broker that goes on with the
same log: nothing is written, and what is read does not change, because compaction keeps away until
the work is done. Whoever else deletes the segments meanwhile (another policy, DeleteRecords, the
end of the topic) makes reading fail, never tell something else.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

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

    `unit`: its header or entry; `place`, `position`: file, for people, and bytes in it.
    `is_aborted`: data of a transaction that was aborted; `is_control`: the broker's own, an end
    marker of a transaction. Consumers are given neither (read_committed).
    """

    __slots__ = ("_batch", "is_aborted", "place", "position", "unit")

    def __init__(self, batch: ScannedBatch, place: str, is_aborted: bool) -> None:
        self._batch = batch
        self.unit: AnyHeader = batch.header
        self.place = place
        self.position = batch.position
        self.is_aborted = is_aborted

    def __repr__(self) -> str:
        return f"<batch {self.base_offset}..{self.last_offset} at {self.position} of {self.place}>"

    @property
    def base_offset(self) -> int:
        """Offset at which it begins; of a compressed message of old format, which knows only its
        last, that one.
        """
        return first_offset(self.unit)

    @property
    def last_offset(self) -> int:
        return self.unit.last_offset

    @property
    def next_offset(self) -> int:
        return self.unit.last_offset + 1

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.unit.size

    @property
    def is_control(self) -> bool:
        return isinstance(self.unit, BatchHeader) and self.unit.is_control

    def data(self) -> memoryview:
        """All its bytes, as they stand in the file; until the next batch is asked for."""
        return self._batch.raw

    def records(self, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
        """Its records, in order. `limit_bytes`: what it may decompress to. Raises: CorruptBatch:
        names the place. UnsupportedCodec.
        """
        try:
            if isinstance(self.unit, BatchHeader):
                yield from iter_records(self.data(), 0, limit_bytes=limit_bytes)
            else:
                yield from self._batch.messages(limit_bytes)
        except CorruptBatch as error:
            raise CorruptBatch(f"{self.place}, batch at position {self.position}: {error}") from error


@dataclass(frozen=True)
class SealedSegments:
    """Segments of one partition that are about to go.

    Args:
        topic_id: 16 bytes; None: the log has none. A topic that is deleted and made again has another: a name together with offsets
            says nothing for good, an id with offsets does.
        folder: the partition's, in `storage`; place: the folder for people.
        segments: oldest first, at least one, without gaps; none is the active one.
        start_offset: consumers see nothing below it. It lies in the first segment.
        end_offset: exclusive, where the last segment ends; all of it is below the high watermark, on the disk, and of no
            transaction that is open.
        opener: gives the storage; picklable where that is shared with other processes.
    """

    topic: str
    partition: int
    topic_id: bytes | None
    folder: str
    place: str
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
        """The broker's files, to read; opened anew each time. Writing there breaks the log."""
        return self.opener()

    def batches(self) -> Iterator[SealedBatch]:
        """All batches from the one that holds `start_offset` on, in order of offset, those of
        aborted data and control batches too.

        So that nothing is missing from an exact copy; the flags say what consumers are not given. A
        batch may begin below `start_offset`. Can be asked for again, from the beginning. Memory: 1
        MiB, or one batch if that is larger. Raises: CorruptBatch: a checksum or length is wrong;
        names file and position. CorruptIndex: what tells which transactions were aborted is
        damaged. StorageFailed, FileNotFoundError: the segments can't be read, or were deleted
        meanwhile.
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
        """What a consumer with read_committed would be given: no aborted data, no control records,
        nothing below `start_offset`.

        In order of offset, which compaction may have left gaps in. Memory: one batch, decompressed.
        Raises: as `batches`; UnsupportedCodec.
        """
        for batch in self.batches():
            if batch.is_control or batch.is_aborted:
                continue
            if batch.base_offset >= self.start_offset and isinstance(batch.unit, BatchHeader):
                yield from batch.records()
            else:
                yield from (record for record in batch.records() if record.offset >= self.start_offset)

    def cancel(self) -> None:
        """Let whoever iterates hear JobCancelled at the next batch. From any thread."""
        self._cancelled.append(True)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cancelled": []}

    def _of_segment(self, file: File, segment: SegmentView, transactions: TransactionTracker) -> Iterator[SealedBatch]:
        place = f"{self.place}/{file_name(segment.base_offset, LOG)}"
        reader = SegmentReader(
            file, place, segment.size, segment.base_offset, segment.end_offset, CHUNK_BYTES, _unthrottled()
        )
        try:
            for batch in reader:
                if self._cancelled:
                    raise JobCancelled("the broker stops")
                unit = batch.header
                is_data = isinstance(unit, BatchHeader) and not unit.is_control
                is_aborted = is_data and isinstance(unit, BatchHeader) and transactions.is_aborted(unit)
                if unit.last_offset >= self.start_offset:
                    yield SealedBatch(batch, place, is_aborted)
        except CorruptBatch as error:
            raise reader.located(error) from error

    def _check_identity(self, storage: Storage) -> None:
        """Raises StorageFailed: the folder belongs to another topic of the same name by now."""
        try:
            found = decode_partition_metadata(storage.read(f"{self.folder}/{PARTITION_METADATA}"))
        except (FileNotFoundError, CorruptIndex):
            return  # of an old Kafka; one that is gone with its folder is noticed by who opens the next file
        if self.topic_id is not None and found != self.topic_id:
            raise StorageFailed(f"{self.place} is of another topic by now")


def _unthrottled() -> Throttle:
    return Throttle(float("inf"), time.sleep, time.monotonic)


def _source(segment: SegmentView) -> SegmentSource:
    return SegmentSource(segment.base_offset, segment.end_offset, segment.size)


@dataclass(frozen=True)
class PreDeleteTask:
    """The work as a job. It comes back with None, whatever `before_delete` returns."""

    before_delete: Callable[[SealedSegments], object]
    segments: SealedSegments

    def __call__(self) -> None:
        """Raises: JobFailed: says what a plugin's code raised, and where. What reading raises, and
        KqueueError of any kind, as it is.
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
        """See `SealedSegments.cancel`; for work that runs in a thread. One in a process of its own
        ends with that.
        """
        self.segments.cancel()


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({PurePath(frames[-1].filename).name}, line {frames[-1].lineno})" if len(frames) > 1 else ""
