"""Reads tiered segments: batches by offset, look-ups by time, aborted transactions, producer state.

A segment is opened once: its indexes are one request, and stay in memory while they fit
`index_bytes_max`. Batches come through the chunk cache. On top of both, `LogReader` does what it
does for a log on disk: it finds batches by index and compares checksums before anything is served.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock, RLock
from typing import NamedTuple

from kqueue.base.errors import OffsetOutOfRange
from kqueue.base.settings import MiB
from kqueue.base.sliced_task import run_to_end
from kqueue.log.formats.leader_epochs import LeaderEpochCache, decode_epochs
from kqueue.log.formats.producer_snapshot import decode_snapshot
from kqueue.log.formats.transaction_index import AbortedTxn, decode_aborted
from kqueue.log.producer_state import ProducerStateManager
from kqueue.log.reader import LogReader
from kqueue.log.recovery.damage import Damage
from kqueue.log.recovery.producer_replay import replay
from kqueue.log.results import ReadResult, TimestampAndOffset
from kqueue.log.segment import Segment
from kqueue.tier.chunks import ChunkCache
from kqueue.tier.errors import TierCorrupt
from kqueue.tier.formats.fields import OFFSET_MAX
from kqueue.tier.formats.keys import TieredPartition
from kqueue.tier.formats.segment_object import index_range, split_indexes
from kqueue.tier.formats.segments import EpochEntry, TieredSegment
from kqueue.tier.manifest import Manifest
from kqueue.tier.segment_files import SegmentFilesStorage
from kqueue.tier.stores.contract import TierStore

INDEX_BYTES_MAX = 64 * MiB
ABORTED_LISTS_CACHED = 256


class TierRead(NamedTuple):
    """Result of a read from the tier.

    records: whole batches; empty: nothing to read below the bound, or nothing fits.
    next_offset: where the next read continues.
    aborted: with read_committed, the aborted transactions that overlap the batches.
    continues_local: markers of transactions in the batches may be in the local log as well.
    """

    records: bytes
    next_offset: int
    aborted: list[AbortedTxn]
    continues_local: bool


class _OpenSegment:
    """A segment whose indexes are in memory. Args: end_offset: of its file; OFFSET_MAX: unknown."""

    def __init__(self, segment: Segment, end_offset: int, location: str, folder: str, indexes: bytes) -> None:
        self.segment = segment
        self._end_offset = end_offset
        self.indexes = indexes
        self.damage: list[Damage | str] = []
        self.reader = LogReader([segment], self.damage, location, folder)
        # Positions and verified ranges change with each read, and readers are threads.
        self.lock = RLock()

    def read(self, offset: int, max_bytes: int, end_offset: int, min_one_batch: bool) -> ReadResult:
        """Return verified batches, as `LogReader.read`."""
        while True:
            result = self.reader.read(offset, max_bytes, end_offset, self._end_offset, min_one_batch)
            if result.check is None:
                return result
            self.reader.verify_now(result.check)


class TierReader:
    """Reads the segments of one store; shared by all partitions of a process.

    Args: index_bytes_max: of the indexes in memory; those of one segment are kept in any case.
    Thread: any. Reads of one segment wait for each other, those of different ones do not.
    Raises, in all methods: TierError; ObjectNotFound: the segment was deleted since the manifest
        was read; CorruptBatch: damaged.
    """

    def __init__(self, store: TierStore, chunks: ChunkCache, *, index_bytes_max: int = INDEX_BYTES_MAX) -> None:
        self.chunks = chunks
        self._store = store
        self._index_bytes_max = index_bytes_max
        self._lock = Lock()
        self._open: OrderedDict[str, _OpenSegment] = OrderedDict()
        self._index_bytes = 0
        self._aborted: OrderedDict[str, list[AbortedTxn]] = OrderedDict()

    def read(
        self,
        manifest: Manifest,
        offset: int,
        max_bytes: int,
        *,
        end_offset: int,
        min_one_batch: bool = True,
        read_committed: bool = False,
    ) -> TierRead:
        """Return whole batches from the one with `offset` on, of one segment.

        Args: end_offset: exclusive bound, where a batch begins: the local log start, or less.
        Raises: OffsetOutOfRange: below the first segment, or above the last.
        """
        segment = manifest.find(offset)
        if segment is None or offset < manifest.start_offset:
            raise OffsetOutOfRange(
                f"{manifest.partition}: offset {offset} is not within {manifest.start_offset} and "
                f"{manifest.end_offset} of the tier"
            )
        # Compaction before the topic was tiered may have left a gap between two segments.
        offset, end = max(offset, segment.start_offset), min(end_offset, segment.end_offset)
        if offset >= end:
            return TierRead(b"", max(offset, segment.start_offset), [], continues_local=False)
        opened = self._opened(manifest.partition, segment)
        with opened.lock:
            result = opened.read(offset, max_bytes, end, min_one_batch)
            records = result.read()
            position = result.position
        if position + 2 * max_bytes >= segment.size:
            self._fetch_next(manifest, segment)
        next_offset = result.next_offset
        if not records and next_offset <= offset and max_bytes > 0 and min_one_batch:
            next_offset = segment.end_offset  # its last offsets have no batch
        if not read_committed or not records:
            return TierRead(records, next_offset, [], continues_local=False)
        aborted, continues_local = self.aborted(manifest, offset, next_offset)
        return TierRead(records, next_offset, aborted, continues_local)

    def _fetch_next(self, manifest: Manifest, segment: TieredSegment) -> None:
        following = manifest.find(segment.end_offset)
        if following is not None:
            self.chunks.fetch_ahead(following.key(manifest.partition), following.size)

    def aborted(self, manifest: Manifest, start_offset: int, end_offset: int) -> tuple[list[AbortedTxn], bool]:
        """Return the aborted transactions that overlap the offsets, in the order of their markers;
        and whether further ones may be in the local log.
        """
        overlapping: list[AbortedTxn] = []
        for segment in manifest.segments(start_offset):
            for aborted in self._aborted_in(manifest.partition, segment):
                if start_offset <= aborted.last_offset and aborted.first_offset < end_offset:
                    overlapping.append(aborted)
                if aborted.last_stable_offset >= end_offset:
                    return overlapping, False
            # No transaction from before is open at its end, so no later marker is about one.
            if segment.unstable_offset >= end_offset:
                return overlapping, False
        return overlapping, True

    def _aborted_in(self, partition: TieredPartition, segment: TieredSegment) -> list[AbortedTxn]:
        size = segment.indexes.transaction_index
        if not size:
            return []
        with self._lock:
            known = self._aborted.get(segment.object_id)
        if known is None:
            start = segment.size + segment.indexes.offset_index + segment.indexes.time_index
            data = self._store.get_range(segment.key(partition), start, size)
            # Entries of markers outside of what counts are in another segment, or undone.
            known = [
                aborted
                for aborted in decode_aborted(data)
                if segment.start_offset <= aborted.last_offset < segment.end_offset
            ]
            with self._lock:
                self._aborted[segment.object_id] = known
                if len(self._aborted) > ABORTED_LISTS_CACHED:
                    self._aborted.popitem(last=False)
        return known

    def offset_for_time(
        self, manifest: Manifest, timestamp: int, start_offset: int, end_offset: int
    ) -> TimestampAndOffset | None:
        """Return the first record (by offset) within the offsets at or after `timestamp`, in ms.

        None: the tier has none; the local log may.
        """
        for segment in manifest.segments(start_offset, min_timestamp=timestamp):
            if segment.start_offset >= end_offset:
                return None
            opened = self._opened(manifest.partition, segment)
            epochs = LeaderEpochCache()
            for epoch, start in segment.epochs:
                epochs.assign(epoch, start)
            first, end = max(start_offset, segment.start_offset), min(end_offset, segment.end_offset)
            with opened.lock:
                found = run_to_end(opened.reader.offset_for_time(timestamp, first, end, epochs))
            if found is not None:
                return found
        return None

    def producers_at(self, manifest: Manifest, offset: int) -> ProducerStateManager:
        """Return the state of the producers of all records below `offset`, which the tier has.

        From the snapshot at the end of the last segment before it, and the batches since.
        """
        if offset <= 0:
            return ProducerStateManager()
        segment = manifest.find(offset - 1)
        if segment is None:
            raise OffsetOutOfRange(f"{manifest.partition}: the tier ends before offset {offset}")
        producers = self._producers_at_end(manifest, segment, offset)
        if producers is not None:
            return producers
        before = manifest.find(segment.start_offset - 1) if segment.start_offset > manifest.start_offset else None
        producers = None if before is None else self._producers_at_end(manifest, before, before.end_offset)
        if producers is None:
            producers = ProducerStateManager()
            producers.end_offset = segment.base_offset
        opened = self._opened(manifest.partition, segment)
        with opened.lock:
            replay([opened.segment], producers, offset)
        return producers

    def _producers_at_end(self, manifest: Manifest, segment: TieredSegment, offset: int) -> ProducerStateManager | None:
        """Return the state at the end of a segment; None: `offset` is not its end, or it was cut,
        and its snapshot has producers of records that do not count.
        """
        if segment.end_offset != offset or segment.is_cut:
            return None
        *_, snapshot, _ = split_indexes(segment.indexes, self._opened(manifest.partition, segment).indexes)
        return decode_snapshot(snapshot, offset)

    def epochs_at(self, manifest: Manifest, offset: int) -> list[EpochEntry]:
        """Return the leader epochs of all records below `offset`, which the tier has, from the log
        start on: epoch and first offset, oldest first.
        """
        segment = manifest.find(offset - 1) if offset > 0 else None
        if segment is None:
            return []
        opened = self._opened(manifest.partition, segment)
        *_, data = split_indexes(segment.indexes, opened.indexes)
        epochs = decode_epochs(data)
        epochs.truncate_from_end(offset)
        epochs.truncate_from_start(manifest.root.log_start_offset)
        return epochs.entries()

    # --- open segments

    def _opened(self, partition: TieredPartition, segment: TieredSegment) -> _OpenSegment:
        with self._lock:
            opened = self._open.get(segment.object_id)
            if opened is not None:
                self._open.move_to_end(segment.object_id)
                return opened
        key = segment.key(partition)
        start, size = index_range(segment)
        indexes = self._store.get_range(key, start, size) if size else b""
        if len(indexes) != size:
            raise TierCorrupt(f"{self._store.location}/{key}: expected {size} bytes of indexes, found {len(indexes)}")
        storage = SegmentFilesStorage(self.chunks, partition, segment, indexes, f"{self._store.location}/{key}")
        file = Segment.open(storage, storage.folder, segment.base_offset, 0, sizes=storage.sizes)
        file_end = OFFSET_MAX if segment.is_cut else segment.end_offset
        opened = _OpenSegment(file, file_end, storage.location, storage.folder, indexes)
        with self._lock:
            kept = self._open.setdefault(segment.object_id, opened)
            if kept is opened:
                self._index_bytes += size
            while self._index_bytes > self._index_bytes_max and len(self._open) > 1:
                _, oldest = self._open.popitem(last=False)
                self._index_bytes -= len(oldest.indexes)
        return kept
