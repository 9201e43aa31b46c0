"""Reads tiered segments: batches by offset, look-ups by time, aborted transactions, producer state.

A segment is opened once: its indexes are one request, and stay in memory while they fit
`index_bytes_max`. Batches come through the chunk cache. On top of both, `LogReader` does what it
does for a log on disk: it finds batches by index, and compares checksums before anything is served.

Bytes with a wrong checksum may be the network's fault, and are in the cache then: the cached chunks
and indexes of the segment are dropped and fetched once more before it counts as damage.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from threading import Lock
from typing import NamedTuple, TypeVar

from kqueue.base.errors import CorruptBatch, CorruptData, CorruptIndex, OffsetOutOfRange
from kqueue.base.settings import MiB
from kqueue.base.sliced_task import run_to_end
from kqueue.log.formats.leader_epochs import LeaderEpochCache, decode_epochs
from kqueue.log.formats.producer_snapshot import decode_snapshot
from kqueue.log.formats.transaction_index import AbortedTxn, decode_aborted
from kqueue.log.producer_state import ProducerStateManager
from kqueue.log.reader import LogReader
from kqueue.log.recovery.damage import Damage, report_damage
from kqueue.log.recovery.producer_replay import replay
from kqueue.log.results import ReadResult, TimestampAndOffset
from kqueue.log.scanner.batch_scanner import CheckLevel, scan
from kqueue.log.segment import Segment
from kqueue.storage.region import BytesSource
from kqueue.tier.chunks import ChunkCache
from kqueue.tier.errors import TierError
from kqueue.tier.formats.fields import OFFSET_MAX
from kqueue.tier.formats.keys import TieredPartition
from kqueue.tier.formats.segment_object import split_indexes
from kqueue.tier.formats.segments import EpochEntry, TieredSegment
from kqueue.tier.manifest import Manifest
from kqueue.tier.segment_files import SegmentFilesStorage, read_indexes
from kqueue.tier.stores.contract import TierStore

T = TypeVar("T")
INDEX_BYTES_MAX = 64 * MiB
OPEN_SEGMENT_BYTES = 4096
"""What an open segment takes besides its indexes, about."""


class TierRead(NamedTuple):
    """Result of a read from the tier.

    records: whole batches; empty: nothing to read below the bound, or nothing fits.
    next_offset: where the next read continues.
    aborted: with read_committed, the aborted transactions that overlap the batches.
    continues_local: markers of transactions in the batches may be in the local log as well. Its
        list may repeat some of `aborted`.
    """

    records: bytes
    next_offset: int
    aborted: list[AbortedTxn]
    continues_local: bool


class _SegmentReader:
    """Looks up and verifies batches of one segment. Thread: one at a time."""

    def __init__(self, opened: _OpenSegment) -> None:
        storage, entry = opened.storage, opened.entry
        self._opened = opened
        self.segment = Segment.open(storage, storage.folder, entry.base_offset, 0, sizes=storage.sizes)
        self.log = LogReader([self.segment], opened.damage, storage.location, storage.folder)
        self.log.verifies_ahead = False
        self._file_end = OFFSET_MAX if entry.is_cut else entry.end_offset

    def position_of(self, offset: int) -> int:
        """Return where the batch with `offset` is, or up to an index interval before."""
        try:
            return self.segment.index.lookup(offset).position
        except CorruptIndex:
            return 0  # the read goes without the index too

    def read(self, offset: int, max_bytes: int, end_offset: int, *, min_one_batch: bool) -> tuple[ReadResult, bytes]:
        """Return verified batches, as `LogReader.read`, and their bytes."""
        while True:
            result = self.log.read(offset, max_bytes, end_offset, self._file_end, min_one_batch)
            if result.check is None:
                break
            damage = result.check.finish(result.check.run())
            if damage and not self._opened.is_refetched:
                raise CorruptBatch(str(damage[0]))
            self._opened.report(damage)
        records = result.read()
        # Bytes that were verified once may be other ones when they are fetched again.
        for batch in scan(BytesSource(records), 0, len(records), check=CheckLevel.CHECKSUMS, allow_truncated=False):
            if batch.header.last_offset >= result.next_offset:
                raise CorruptBatch(
                    f"{self._opened.storage.location}: expected batches that end at offset {result.next_offset}, "
                    f"found one up to {batch.header.last_offset}"
                )
        return result, records


class _OpenSegment:
    """A segment whose indexes are in memory. Args: is_refetched: its bytes were wrong before.

    Attributes: size: bytes that it takes.
    """

    def __init__(
        self, storage: SegmentFilesStorage, entry: TieredSegment, indexes: bytes, *, is_refetched: bool
    ) -> None:
        *_, self._snapshot, self._epochs = split_indexes(entry.indexes, indexes)
        self.storage = storage
        self.entry = entry
        self.is_refetched = is_refetched
        self.damage: list[Damage | str] = []
        self.size = OPEN_SEGMENT_BYTES + len(indexes)
        self._lock = Lock()
        self._idle: list[_SegmentReader] = []

    @contextlib.contextmanager
    def reader(self) -> Iterator[_SegmentReader]:
        """Lend a reader that no other thread uses: none waits for the chunks of another."""
        with self._lock:
            reader = self._idle.pop() if self._idle else None
        if reader is None:
            reader = _SegmentReader(self)
        try:
            yield reader
        finally:
            with self._lock:
                self._idle.append(reader)

    def report(self, damage: list[Damage]) -> None:
        """Log damage that no other reader of the segment has reported."""
        new = [each for each in damage if each not in self.damage]
        report_damage(new, self.damage, self.storage.location, self.storage.folder)

    @cached_property
    def aborted(self) -> list[AbortedTxn]:
        """The aborted transactions with markers in what counts of the segment; the entries of other
        markers are in another segment, or undone.
        """
        start, end = self.entry.start_offset, self.entry.end_offset
        return [aborted for aborted in decode_aborted(self.storage.aborted) if start <= aborted.last_offset < end]

    def producers(self) -> ProducerStateManager:
        """Return the producer state at the end of the object. Raises: CorruptIndex."""
        return decode_snapshot(self._snapshot, self.entry.end_offset)

    def epochs(self) -> LeaderEpochCache:
        """Return the leader epochs up to the end of the object. Raises: CorruptIndex."""
        return decode_epochs(self._epochs)


class TierReader:
    """Reads the segments of one store; shared by all partitions of a process.

    Attributes: index_bytes_max: of the indexes in memory; those of one segment are always kept.
    Thread: any; none waits for another but for a chunk that both want.
    Raises, in all methods: TierError; ObjectNotFound: the segment was deleted since the manifest
        was read; CorruptData: damaged, also when fetched again.
    """

    def __init__(self, store: TierStore, chunks: ChunkCache, *, index_bytes_max: int = INDEX_BYTES_MAX) -> None:
        self.chunks = chunks
        self._store = store
        self.index_bytes_max = index_bytes_max
        self._lock = Lock()  # never held while the store is asked
        self._open: OrderedDict[str, _OpenSegment] = OrderedDict()
        self._index_bytes = 0

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
            return TierRead(b"", offset, [], continues_local=False)

        def read(reader: _SegmentReader) -> tuple[ReadResult, bytes]:
            self.chunks.expect(segment.key(manifest.partition), segment.size, reader.position_of(offset), max_bytes)
            return reader.read(offset, max_bytes, end, min_one_batch=min_one_batch)

        result, records = self._with_reader(manifest.partition, segment, read)
        if result.position + 2 * max_bytes >= segment.size and segment.end_offset < end_offset:
            self._fetch_next(manifest, segment)
        next_offset = result.next_offset
        if not records and next_offset <= offset and max_bytes > 0 and min_one_batch:
            next_offset = end  # the offsets up to there have no batch
        if not read_committed or not records:
            return TierRead(records, next_offset, [], continues_local=False)
        aborted, continues_local = self.aborted(manifest, offset, next_offset)
        return TierRead(records, next_offset, aborted, continues_local)

    def _fetch_next(self, manifest: Manifest, segment: TieredSegment) -> None:
        with contextlib.suppress(TierError):  # the read that comes there reports it
            following = manifest.find(segment.end_offset)
            if following is not None:
                self.chunks.fetch_ahead(following.key(manifest.partition), following.size)

    def aborted(self, manifest: Manifest, start_offset: int, end_offset: int) -> tuple[list[AbortedTxn], bool]:
        """Return the aborted transactions that overlap the offsets, in the order of their markers;
        and whether further ones may be in the local log.
        """
        overlapping: list[AbortedTxn] = []
        for segment in manifest.segments(start_offset):
            for aborted in self._opened(manifest.partition, segment).aborted:
                if start_offset <= aborted.last_offset and aborted.first_offset < end_offset:
                    overlapping.append(aborted)
                if aborted.last_stable_offset >= end_offset:
                    return overlapping, False
            # No transaction from before is open at its end, so no later marker is about one.
            if segment.unstable_offset >= end_offset:
                return overlapping, False
        return overlapping, True

    def offset_for_time(
        self, manifest: Manifest, timestamp: int, start_offset: int, end_offset: int
    ) -> TimestampAndOffset | None:
        """Return the first record (by offset) within the offsets at or after `timestamp`, in ms.

        None: the tier has none; the local log may.
        """
        for segment in manifest.segments(start_offset, min_timestamp=timestamp):
            if segment.start_offset >= end_offset:
                return None
            epochs = LeaderEpochCache()
            for epoch, start in segment.epochs:
                epochs.assign(epoch, start)
            first, end = max(start_offset, segment.start_offset), min(end_offset, segment.end_offset)
            look_up = partial(_offset_for_time, timestamp=timestamp, first=first, end=end, epochs=epochs)
            found = self._with_reader(manifest.partition, segment, look_up)
            if found is not None:
                return found
        return None

    def producers_at(self, manifest: Manifest, offset: int) -> ProducerStateManager:
        """Return the state of the producers of all records below `offset`, which the tier has.

        From the snapshot at the end of the last segment before it, and the batches since. Producers
        of records that the tier never had are known from the end of its first segment on.
        """
        if offset > manifest.end_offset:
            raise OffsetOutOfRange(f"{manifest.partition}: the tier ends at {manifest.end_offset}, before {offset}")
        replayed: list[tuple[TieredSegment, int]] = []
        producers: ProducerStateManager | None = None
        while producers is None:
            segment = manifest.find(offset - 1) if offset > 0 else None
            if segment is None or segment.start_offset >= offset:  # the log start, or a gap
                producers = ProducerStateManager()
                producers.end_offset = offset
            # The snapshot of a cut segment has producers of records that do not count.
            elif segment.end_offset == offset and not segment.is_cut:
                producers = self._opened(manifest.partition, segment).producers()
            else:
                replayed.append((segment, offset))
                offset = segment.start_offset
        for segment, end in reversed(replayed):
            with self._opened(manifest.partition, segment).reader() as reader:
                replay([reader.segment], producers, end)
        return producers

    def epochs_at(self, manifest: Manifest, offset: int) -> list[EpochEntry]:
        """Return the leader epochs of all records below `offset`, which the tier has, from the log
        start on: epoch and first offset, oldest first.
        """
        segment = manifest.find(offset - 1) if offset > 0 else None
        if segment is None:
            return []
        epochs = self._opened(manifest.partition, segment).epochs()
        epochs.truncate_from_end(offset)
        epochs.truncate_from_start(manifest.root.log_start_offset)
        return epochs.entries()

    # --- open segments

    def _with_reader(
        self, partition: TieredPartition, segment: TieredSegment, look_up: Callable[[_SegmentReader], T]
    ) -> T:
        """Call `look_up`; once more with everything fetched again if what it reads is damaged."""
        opened = self._opened(partition, segment)
        try:
            with opened.reader() as reader:
                return look_up(reader)
        except CorruptData:
            if opened.is_refetched:
                raise
        self._drop(partition, segment)
        opened = self._opened(partition, segment, is_refetched=True)
        with opened.reader() as reader:
            result = look_up(reader)
        opened.is_refetched = False
        return result

    def _opened(
        self, partition: TieredPartition, segment: TieredSegment, *, is_refetched: bool = False
    ) -> _OpenSegment:
        with self._lock:
            opened = self._open.get(segment.object_id)
            if opened is not None and opened.entry == segment:  # a cut makes another entry of it
                self._open.move_to_end(segment.object_id)
                return opened
        location = f"{self._store.location}/{segment.key(partition)}"
        indexes = read_indexes(self._store, partition, segment)
        storage = SegmentFilesStorage(self.chunks, partition, segment, indexes, location)
        opened = _OpenSegment(storage, segment, indexes, is_refetched=is_refetched)
        with self._lock:
            self._close(segment.object_id)
            self._open[segment.object_id] = opened
            self._index_bytes += opened.size
            while self._index_bytes > self.index_bytes_max and len(self._open) > 1:
                self._close(next(iter(self._open)))
        return opened

    def _drop(self, partition: TieredPartition, segment: TieredSegment) -> None:
        with self._lock:
            self._close(segment.object_id)
        self.chunks.forget(segment.key(partition))

    def _close(self, object_id: str) -> None:
        opened = self._open.pop(object_id, None)
        if opened is not None:
            self._index_bytes -= opened.size


def _offset_for_time(
    reader: _SegmentReader, *, timestamp: int, first: int, end: int, epochs: LeaderEpochCache
) -> TimestampAndOffset | None:
    return run_to_end(reader.log.offset_for_time(timestamp, first, end, epochs))
