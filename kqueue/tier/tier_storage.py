"""A tier as a read-only `Storage`: its partitions are folders, as in a data folder.

    log-start-offset-checkpoint, recovery-point-offset-checkpoint, replication-offset-checkpoint
    .kafka_cleanshutdown           no broker writes these logs: what is missing is damage
    orders-0/
        <first offset>.log  .index  .timeindex  .txnindex
        <end offset>.snapshot
        leader-epoch-checkpoint  partition.metadata

Tools for folders work on it unchanged. Each offset is there once: a segment that begins before the
end of the one before it, or that was cut, is shown as the part of it that counts, with indexes of
that part. The end of its time index has to be looked up in the batches, which is done when it is
opened; its size in a listing is 0.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock as ThreadLock
from threading import RLock
from typing import NamedTuple, TypeVar

from kqueue.base.errors import CorruptBatch, CorruptData, CorruptIndex, StorageFailed
from kqueue.base.names import partition_folder
from kqueue.base.settings import MiB
from kqueue.log.formats.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    encode_offsets,
    encode_partition_metadata,
)
from kqueue.log.formats.filenames import (
    EPOCHS,
    INDEX,
    LOG,
    PARTITION_METADATA,
    SNAPSHOT,
    TIMEINDEX,
    TXNINDEX,
    file_name,
)
from kqueue.log.formats.leader_epochs import decode_epochs, encode_epochs
from kqueue.log.formats.offset_index import ENTRY as INDEX_ENTRY
from kqueue.log.formats.offset_index import RELATIVE_OFFSET_MAX
from kqueue.log.formats.time_index import ENTRY as TIME_ENTRY
from kqueue.log.formats.time_index import NO_TIMESTAMP
from kqueue.log.formats.transaction_index import ENTRY as TXN_ENTRY
from kqueue.log.formats.transaction_index import decode_aborted
from kqueue.log.scanner.batch_scanner import scan
from kqueue.log.segment import Segment
from kqueue.storage import File, FolderEntry
from kqueue.storage.memory import MemoryFile
from kqueue.tier.chunks import ChunkCache
from kqueue.tier.errors import ObjectNotFound, TierCorrupt, TierError
from kqueue.tier.formats.keys import TieredPartition
from kqueue.tier.formats.segment_object import index_range, split_indexes
from kqueue.tier.formats.segments import TieredSegment
from kqueue.tier.manifest import Manifest
from kqueue.tier.read_only import ReadOnlyFile, RefusedWrites, read_only
from kqueue.tier.segment_files import SegmentFilesStorage, read_indexes
from kqueue.tier.stores.contract import TierStore

T = TypeVar("T")
INDEX_BYTES_MAX = 64 * MiB
SEGMENT_INDEX_BYTES_MAX = 512 * MiB
"""Far above the indexes of any segment, most of which is the snapshot of many producers."""
_PARTS = {INDEX: 0, TIMEINDEX: 1, TXNINDEX: 2, SNAPSHOT: 3}


class _Part(NamedTuple):
    """What is shown of a segment.

    first_offset: the name of its files. start, end: positions in the object.
    """

    segment: TieredSegment
    first_offset: int
    start: int
    end: int

    @property
    def is_whole(self) -> bool:
        return self.start == 0 and self.end == self.segment.size and not self.segment.is_cut


ReadObserver = Callable[[str, int, bytes], None]
"""Called with an object's key, a position in it, and the bytes of batches that were read there."""


def _part_file(
    chunks: ChunkCache, key: str, limit: int, start: int, end: int, observer: ReadObserver | None = None
) -> ReadOnlyFile:
    """Return the batches between two positions of a segment object as a file."""

    def read_at(position: int, size: int) -> bytes:
        size = min(size, end - start - position)
        with storage_errors():
            data = chunks.read(key, limit, start + position, max(size, 0))
        if observer is not None:
            observer(key, start + position, data)
        return data

    return ReadOnlyFile(key, end - start, read_at, lambda position, size: chunks.is_cached(key, start + position, size))


class TierStorage(RefusedWrites):
    """See `storage.contract.Storage`. Manifests are read once, at first use.

    Args:
        partitions: what is shown, of each topic and number one.
        chunks: reads of batches go through it.
        observer: is called after each of these reads.
    Thread: any.
    Raises: StorageFailed: the store fails, or an object is damaged. FileNotFoundError: there is no
        such file, or its object is gone.
    """

    def __init__(
        self,
        store: TierStore,
        chunks: ChunkCache,
        partitions: Sequence[TieredPartition],
        *,
        observer: ReadObserver | None = None,
    ) -> None:
        self.location = store.location
        self._store = store
        self._chunks = chunks
        self._folders = {
            partition_folder(one.topic, one.partition): _PartitionFolder(store, chunks, one, observer)
            for one in partitions
        }

    def manifest(self, folder: str) -> Manifest:
        """Return the manifest of a partition's folder. Raises: FileNotFoundError, StorageFailed."""
        return self._folder(folder).manifest

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> File:
        if create:
            raise read_only(path)
        folder, _, name = path.rpartition("/")
        if folder:
            return self._folder(folder).open(name)
        return MemoryFile(self._root_file(name))

    def read(self, path: str) -> bytes:
        file = self.open(path)
        return file.read_at(0, file.size)

    def exists(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        if folder:
            return folder in self._folders and name in self._folders[folder].files
        return path in ("", *self._folders, *_ROOT_FILES)

    def list(self, folder: str) -> list[FolderEntry]:
        """As the contract; the sizes of the checkpoints in the root are 0, for all manifests would
        have to be read.
        """
        if folder:
            files = self._folder(folder).files
            return [FolderEntry(name, files[name].size, is_folder=False) for name in sorted(files)]
        entries = [FolderEntry(name, 0, is_folder=True) for name in self._folders]
        entries += [FolderEntry(name, 0, is_folder=False) for name in _ROOT_FILES]
        return sorted(entries)

    def _folder(self, name: str) -> _PartitionFolder:
        folder = self._folders.get(name)
        if folder is None:
            raise FileNotFoundError(f"{self.location} has no partition {name}")
        return folder

    def _root_file(self, name: str) -> bytes:
        offset_of = _ROOT_FILES.get(name)
        if offset_of is None:
            raise FileNotFoundError(f"{self.location}/{name}")
        offsets = {}
        if name != CLEAN_SHUTDOWN:
            for folder in self._folders.values():
                try:
                    offsets[folder.partition.topic, folder.partition.partition] = offset_of(folder.manifest)
                except (StorageFailed, FileNotFoundError):
                    continue  # reported where its folder is read
        return b"" if name == CLEAN_SHUTDOWN else encode_offsets(offsets)


class _ListedFile(NamedTuple):
    """A file of a partition's folder. `open`: returns it."""

    size: int
    open: Callable[[], File]


class _PartitionFolder:
    """The files of one partition."""

    def __init__(
        self, store: TierStore, chunks: ChunkCache, partition: TieredPartition, observer: ReadObserver | None
    ) -> None:
        self.partition = partition
        self._observer = observer
        self._store = store
        self._chunks = chunks
        self._lock = RLock()
        self._manifest: Manifest | None = None
        self._files: dict[str, _ListedFile] | None = None
        self._indexes = _IndexCache(store, partition)

    @property
    def manifest(self) -> Manifest:
        """As it was when it was first read. Raises: StorageFailed."""
        with self._lock, storage_errors():
            if self._manifest is None:
                self._manifest = Manifest.open(self._store, self.partition)
            return self._manifest

    @property
    def files(self) -> dict[str, _ListedFile]:
        """All files, by name. Raises: StorageFailed."""
        with self._lock, storage_errors():
            if self._files is None:
                self._files = dict(self._list())
            return self._files

    def open(self, name: str) -> File:
        """Return a file. Raises: FileNotFoundError, StorageFailed."""
        listed = self.files.get(name)
        if listed is None:
            raise FileNotFoundError(f"{self._store.location}/{self.partition}/{name}")
        with storage_errors():
            return listed.open()

    def _list(self) -> Iterator[tuple[str, _ListedFile]]:
        last = None
        for segment in self.manifest.segments(self.manifest.start_offset):
            last = self._part(segment)
            yield from self._files_of(last)
        yield PARTITION_METADATA, _in_memory(encode_partition_metadata(self.partition.topic_id))
        if last is not None and last.segment.indexes.leader_epochs:
            with suppress(ObjectNotFound):  # reported where its batches are read
                yield EPOCHS, _in_memory(self._epochs(last.segment))

    def _part(self, segment: TieredSegment) -> _Part:
        whole = _Part(segment, segment.base_offset, 0, segment.size)
        if segment.start_offset == segment.base_offset and not segment.is_cut:
            return whole
        try:
            indexes = self._indexes.read(segment)
            storage = SegmentFilesStorage(self._chunks, self.partition, segment, indexes, self._store.location)
            file = Segment.open(storage, storage.folder, segment.base_offset, 0, sizes=storage.sizes)
            first, after = file.find(segment.start_offset), file.find(segment.end_offset)
        except (CorruptData, ObjectNotFound):
            return whole  # where the part begins can't be told: readers of the file report the damage
        end = segment.size if after is None else after.position
        if first is None or first.position >= end:
            return _Part(segment, segment.start_offset, end, end)
        # The log start may be within a batch, which begins its file.
        name = segment.start_offset if first.position else segment.base_offset
        base = getattr(first.unit, "base_offset", name)
        return _Part(segment, min(name, base), first.position, end)

    def _files_of(self, part: _Part) -> Iterator[tuple[str, _ListedFile]]:
        segment, key = part.segment, part.segment.key(self.partition)
        batches = partial(_part_file, self._chunks, key, segment.size, part.start, part.end, self._observer)
        yield file_name(part.first_offset, LOG), _ListedFile(part.end - part.start, batches)
        sizes = segment.indexes
        if part.is_whole:
            for suffix, size in ((INDEX, sizes.offset_index), (TIMEINDEX, sizes.time_index)):
                yield file_name(part.first_offset, suffix), self._index(segment, suffix, size)
            if sizes.transaction_index:
                yield (
                    file_name(part.first_offset, TXNINDEX),
                    self._index(segment, TXNINDEX, sizes.transaction_index),
                )
        else:
            with suppress(ObjectNotFound):  # reported where its batches are read
                yield file_name(part.first_offset, INDEX), _in_memory(self._offset_index(part))
                if aborted := self._transaction_index(part):
                    yield file_name(part.first_offset, TXNINDEX), _in_memory(aborted)
                times = partial(self._time_index, part)
                yield file_name(part.first_offset, TIMEINDEX), _ListedFile(0, lambda: MemoryFile(times()))
        if sizes.producer_snapshot and not segment.is_cut:
            yield (
                file_name(segment.end_offset, SNAPSHOT),
                self._index(segment, SNAPSHOT, sizes.producer_snapshot),
            )

    def _index(self, segment: TieredSegment, suffix: str, size: int) -> _ListedFile:
        return _ListedFile(size, lambda: MemoryFile(self._indexes.part(segment, _PARTS[suffix])))

    def _offset_index(self, part: _Part) -> bytes:
        """Return the entries of the part, relative to its own beginning."""
        data = self._indexes.part(part.segment, _PARTS[INDEX])
        shift = part.segment.base_offset - part.first_offset
        kept = []
        for relative, position in _whole_entries(INDEX_ENTRY, data):
            if part.start < position < part.end and relative + shift > 0:
                kept.append(INDEX_ENTRY.pack(relative + shift, position - part.start))
        return b"".join(kept)

    def _time_index(self, part: _Part) -> bytes:
        """Return the entries of the part, and one for its greatest timestamp.

        An entry names the offset where its timestamp was reached. So one of an offset in the part
        is the greatest of the part up to there, too.
        """
        segment, data = part.segment, self._indexes.part(part.segment, _PARTS[TIMEINDEX])
        shift = segment.base_offset - part.first_offset
        kept, last = [], NO_TIMESTAMP
        for timestamp, relative in _whole_entries(TIME_ENTRY, data):
            if segment.start_offset <= segment.base_offset + relative < segment.end_offset:
                kept.append(TIME_ENTRY.pack(timestamp, relative + shift))
                last = timestamp
        greatest = None
        file = _part_file(self._chunks, segment.key(self.partition), segment.size, part.start, part.end)
        with suppress(CorruptBatch, StorageFailed):  # its readers report the damage
            for batch in scan(file, 0, file.size):
                if batch.header.max_timestamp > last:
                    greatest, last = batch.header, batch.header.max_timestamp
        if greatest is not None and 0 <= greatest.last_offset - part.first_offset <= RELATIVE_OFFSET_MAX:
            kept.append(TIME_ENTRY.pack(last, greatest.last_offset - part.first_offset))
        return b"".join(kept)

    def _transaction_index(self, part: _Part) -> bytes:
        """Return the entries whose markers are in the part."""
        segment, data = part.segment, self._indexes.part(part.segment, _PARTS[TXNINDEX])
        try:
            return b"".join(
                data[number * TXN_ENTRY.size : (number + 1) * TXN_ENTRY.size]
                for number, aborted in enumerate(decode_aborted(data))
                if segment.start_offset <= aborted.last_offset < segment.end_offset
            )
        except CorruptIndex:
            return data  # its readers report the damage

    def _epochs(self, newest: TieredSegment) -> bytes:
        data = self._indexes.part(newest, 4)
        try:
            epochs = decode_epochs(data)
        except CorruptIndex:
            return data  # its readers report the damage
        epochs.truncate_from_end(newest.end_offset)
        epochs.truncate_from_start(self.manifest.root.log_start_offset)
        return encode_epochs(epochs)


class _IndexCache:
    """The indexes of the segments that were used last, in memory. Thread: any."""

    def __init__(self, store: TierStore, partition: TieredPartition) -> None:
        self._store = store
        self._partition = partition
        self._lock = ThreadLock()
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    def read(self, segment: TieredSegment) -> bytes:
        """Return what follows the batches of a segment. Raises: TierError."""
        with self._lock:
            known = self._kept.get(segment.object_id)
            if known is not None:
                self._kept.move_to_end(segment.object_id)
                return known
        key, (_, size) = segment.key(self._partition), index_range(segment)
        if size > SEGMENT_INDEX_BYTES_MAX:
            raise TierCorrupt(
                f"{self._store.location}/{key}: expected indexes of {SEGMENT_INDEX_BYTES_MAX} bytes at most, not {size}"
            )
        data = read_indexes(self._store, self._partition, segment)
        with self._lock:
            if segment.object_id not in self._kept:
                self._kept[segment.object_id] = data
                self._size += size
            while self._size > INDEX_BYTES_MAX and len(self._kept) > 1:
                self._size -= len(self._kept.popitem(last=False)[1])
        return data

    def part(self, segment: TieredSegment, number: int) -> bytes:
        """Return one of the indexes. `number`: as in `IndexSizes`. Raises: TierError."""
        return list(split_indexes(segment.indexes, self.read(segment)))[number]


@contextmanager
def storage_errors() -> Iterator[None]:
    """Raise the errors of a storage's contract in place of the store's."""
    try:
        yield
    except ObjectNotFound as error:
        raise FileNotFoundError(str(error)) from error
    except (TierError, CorruptData) as error:
        raise StorageFailed(str(error)) from error


def _in_memory(data: bytes) -> _ListedFile:
    return _ListedFile(len(data), lambda: MemoryFile(data))


def _whole_entries(entry: struct.Struct, data: bytes) -> Iterator[tuple[int, ...]]:
    return entry.iter_unpack(data[: len(data) // entry.size * entry.size])


def _end_offset(manifest: Manifest) -> int:
    return manifest.end_offset


_ROOT_FILES: dict[str, Callable[[Manifest], int]] = {
    LOG_STARTS: lambda manifest: manifest.start_offset,
    RECOVERY_POINTS: _end_offset,
    HIGH_WATERMARKS: _end_offset,
    CLEAN_SHUTDOWN: _end_offset,
}
