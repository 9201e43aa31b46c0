"""Copies a sealed segment into the tier.

    1  compare the checksums of all its batches: damage is not copied, for the copy will be the only
    one 2  announce the copy in the manifest 3  put the object: batches, indexes, producer snapshot,
    leader epochs, entry 4  add the entry to the manifest

A crash before 4 leaves an announced copy. The next one, of whichever leader, has its object deleted
and copies again. A leader that was deposed fails at 2 or 4, whatever it has put in between. Source:
KIP-405.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from crc32c import crc32c

from kqueue.base.errors import CorruptBatch, CorruptIndex, StorageFailed
from kqueue.base.settings import MiB
from kqueue.log.formats.filenames import INDEX, LOG, SNAPSHOT, TIMEINDEX, TXNINDEX, file_name
from kqueue.log.formats.leader_epochs import LeaderEpochCache, encode_epochs
from kqueue.log.formats.producer_snapshot import decode_snapshot, encode_snapshot
from kqueue.log.producer_state import ProducerStateManager
from kqueue.log.scanner.batch_scanner import CheckLevel, scan
from kqueue.log.start_snapshot import producers_at
from kqueue.storage import File, Storage
from kqueue.tier.formats.segment_object import encode_footer, parts_of
from kqueue.tier.formats.segments import EpochEntry, TieredSegment
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.contract import TierStore

READ_BYTES = 1 * MiB
Spend = Callable[[int], None]
"""Called with the bytes that are copied next; waits where there is a limit."""


@dataclass(frozen=True, slots=True)
class SegmentToCopy:
    """A sealed segment of a local log; all of it is on disk, committed, and in no open transaction.

    base_offset, end_offset: of its file, end exclusive. start_offset: the first offset that the
        tier lacks. size: bytes of batches. max_timestamp: ms, -1: none.
    epochs: of the whole log, oldest first. snapshots, bases: offsets of the log's producer
        snapshots, and of its sealed segments, up to `end_offset`.
    """

    storage: Storage
    folder: str
    base_offset: int
    start_offset: int
    end_offset: int
    size: int
    max_timestamp: int
    epochs: Sequence[EpochEntry]
    snapshots: Sequence[int] = ()
    bases: Sequence[int] = ()

    @property
    def location(self) -> str:
        """The log file, for messages."""
        return f"{self.storage.location}/{self.folder}/{file_name(self.base_offset, LOG)}"

    def path(self, suffix: str, offset: int | None = None) -> str:
        """Return the path of a file of the segment."""
        return f"{self.folder}/{file_name(self.base_offset if offset is None else offset, suffix)}"


def copy_segment(
    store: TierStore,
    manifest: Manifest,
    source: SegmentToCopy,
    *,
    object_id: str,
    leader_epoch: int,
    broker: int,
    now_ms: int,
    spend: Spend = lambda size: None,
) -> TieredSegment:
    """Copy a segment; return its entry. Blocks; thread: any.

    Args: object_id: a random id, 32 hexadecimal digits. now_ms: wall clock.
    Durability: the segment can be read from the tier on return, and may be deleted here.
    Raises: LeaderFenced: a later leader writes; TierError; CorruptBatch: the segment is damaged;
        StorageFailed; FileNotFoundError: it was deleted meanwhile.
    """
    file = source.storage.open(source.path(LOG), size=source.size)
    try:
        _check_batches(file, source)
        object_ = _SegmentObject(file, source, object_id, leader_epoch, broker, now_ms, spend)
        manifest.begin_copy(leader_epoch, object_.entry)
        store.put(object_.entry.key(manifest.partition), object_, object_.size)
        manifest.finish_copy(leader_epoch, object_.entry)
        return object_.entry
    finally:
        file.close()


def _check_batches(file: File, source: SegmentToCopy) -> None:
    try:
        for _ in scan(file, 0, source.size, check=CheckLevel.CHECKSUMS, allow_truncated=False):
            pass
    except CorruptBatch as error:
        raise CorruptBatch(f"{source.location}: {error}; it is not copied into the tier") from None


class _SegmentObject:
    """The bytes of a segment object. Each iteration reads the batches again, so that a put can be
    repeated; `entry` has their checksum after it.
    """

    def __init__(
        self,
        file: File,
        source: SegmentToCopy,
        object_id: str,
        leader_epoch: int,
        broker: int,
        now_ms: int,
        spend: Spend,
    ) -> None:
        self._file = file
        self._source = source
        self._spend = spend
        producers = _producers(source)
        epochs = LeaderEpochCache()
        for epoch, start in source.epochs:
            if start < source.end_offset:
                epochs.assign(epoch, start)
        self._indexes = (
            *(_read(source, suffix) for suffix in (INDEX, TIMEINDEX, TXNINDEX)),
            encode_snapshot(producers),
            encode_epochs(epochs),
        )
        open_from = [entry.transaction_offset for _, entry in producers.items() if entry.transaction_offset >= 0]
        self.entry = TieredSegment(
            object_id=object_id,
            base_offset=source.base_offset,
            start_offset=source.start_offset,
            end_offset=source.end_offset,
            size=source.size,
            max_timestamp=source.max_timestamp,
            crc=0,
            indexes=parts_of(self._indexes),
            epochs=_epochs_within(epochs.entries(), source.start_offset),
            unstable_offset=min([*open_from, source.end_offset]),
            leader_epoch=leader_epoch,
            broker=broker,
            copied_ms=now_ms,
        )
        self.size = source.size + sum(self.entry.indexes) + len(encode_footer(self.entry))

    def __iter__(self) -> Iterator[bytes]:
        crc = position = 0
        while position < self._source.size:
            size = min(READ_BYTES, self._source.size - position)
            self._spend(size)
            data = self._file.read_at(position, size)
            if len(data) != size:
                raise StorageFailed(f"{self._source.location}: expected {self._source.size} bytes, it ends before")
            crc = crc32c(data, crc)
            position += size
            yield data
        yield from self._indexes
        self.entry = self.entry._replace(crc=crc)
        yield encode_footer(self.entry)


def _read(source: SegmentToCopy, suffix: str) -> bytes:
    """Return an index; empty: it is being rebuilt, or has no entries. Readers do without it."""
    with contextlib.suppress(FileNotFoundError):
        return source.storage.read(source.path(suffix))
    return b""


def _producers(source: SegmentToCopy) -> ProducerStateManager:
    """Return the producer state at the end of the segment, from its snapshot or from batches."""
    end = source.end_offset
    with contextlib.suppress(FileNotFoundError, CorruptIndex):
        return decode_snapshot(source.storage.read(source.path(SNAPSHOT, end)), end)
    older = [offset for offset in source.snapshots if offset <= end]
    bases = [base for base in source.bases if base < end]
    return producers_at(source.storage, source.folder, older, bases, end)


def _epochs_within(epochs: Sequence[EpochEntry], start_offset: int) -> tuple[EpochEntry, ...]:
    """Return the epochs from `start_offset` on; the one there begins at it."""
    before = [entry for entry in epochs if entry[1] <= start_offset]
    first = ((before[-1][0], start_offset),) if before else ()
    return (*first, *(entry for entry in epochs if entry[1] > start_offset))
