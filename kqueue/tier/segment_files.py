"""The files of one tiered segment as a read-only `Storage`, which `log.segment.Segment` opens.

The batches are read through the chunk cache; the indexes are in memory, as they were read with the
segment.
"""

from __future__ import annotations

from typing import NoReturn

from crc32c import crc32c

from kqueue.base.errors import StorageFailed
from kqueue.log.formats.filenames import INDEX, LOG, TIMEINDEX, TXNINDEX, file_name
from kqueue.storage import File, FolderEntry, Lock, Region, Storage
from kqueue.storage.memory import MemoryFile
from kqueue.tier.chunks import ChunkCache
from kqueue.tier.errors import TierCorrupt
from kqueue.tier.formats.keys import TieredPartition
from kqueue.tier.formats.segment_object import index_range, split_indexes
from kqueue.tier.formats.segments import TieredSegment
from kqueue.tier.stores.contract import TierStore


class BatchesFile:
    """The batches of a segment object, as a file and as the source of regions."""

    def __init__(self, chunks: ChunkCache, key: str, size: int) -> None:
        self._chunks = chunks
        self._key = key
        self.size = size

    def read_at(self, position: int, size: int) -> bytes:
        return self._chunks.read(self._key, self.size, position, size)

    def region(self, position: int, size: int) -> Region:
        return Region(self, position, size)

    def fileno(self) -> int | None:
        return None

    def is_cached(self, position: int, size: int) -> bool:
        return self._chunks.is_cached(self._key, position, size)

    def age_ms(self) -> int | None:
        return None

    def close(self) -> None:
        pass

    def append(self, data: bytes | bytearray | memoryview) -> NoReturn:
        raise read_only(self._key)

    def truncate(self, size: int) -> NoReturn:
        raise read_only(self._key)

    def sync(self) -> NoReturn:
        raise read_only(self._key)


class SegmentFilesStorage:
    """A `Storage` with one folder that holds the files of one segment.

    Args: indexes: the bytes of the range `index_range` of the object.
    Attributes: aborted: the transaction index; empty: there is none.
    """

    opener = None

    def __init__(
        self, chunks: ChunkCache, partition: TieredPartition, segment: TieredSegment, indexes: bytes, location: str
    ) -> None:
        offset_index, time_index, transaction_index, _, _ = split_indexes(segment.indexes, indexes)
        base = segment.base_offset
        self.location = location
        self.folder = str(partition)
        self._files: dict[str, File] = {
            file_name(base, LOG): BatchesFile(chunks, segment.key(partition), segment.size),
            file_name(base, INDEX): MemoryFile(offset_index),
            file_name(base, TIMEINDEX): MemoryFile(time_index),
        }
        self.aborted = transaction_index
        if transaction_index:
            self._files[file_name(base, TXNINDEX)] = MemoryFile(transaction_index)

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of each file, by name."""
        return {name: file.size for name, file in self._files.items()}

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> File:
        file = self._files.get(path.removeprefix(f"{self.folder}/"))
        if file is None:
            raise FileNotFoundError(path)
        return file

    def read(self, path: str) -> bytes:
        file = self.open(path)
        return file.read_at(0, file.size)

    def exists(self, path: str) -> bool:
        return path in ("", self.folder) or path.removeprefix(f"{self.folder}/") in self._files

    def list(self, folder: str) -> list[FolderEntry]:
        if folder != self.folder:
            raise FileNotFoundError(folder)
        return [FolderEntry(name, size, is_folder=False) for name, size in sorted(self.sizes.items())]

    def make_folder(self, path: str) -> NoReturn:
        raise read_only(path)

    def remove(self, path: str) -> NoReturn:
        raise read_only(path)

    def rename(self, old: str, new: str) -> NoReturn:
        raise read_only(old)

    def sync_folder(self, folder: str) -> NoReturn:
        raise read_only(folder)

    def write_atomic(self, path: str, data: bytes) -> NoReturn:
        raise read_only(path)

    def lock(self, name: str) -> Lock:
        raise read_only(name)

    def free_bytes(self) -> int | None:
        return 0

    def total_bytes(self) -> int | None:
        return None


def read_indexes(store: TierStore, partition: TieredPartition, segment: TieredSegment) -> bytes:
    """Return the range `index_range` of a segment object; once more where its checksum is wrong.

    Raises: ObjectNotFound. TierCorrupt: it is wrong again. TierError.
    """
    key, (start, size) = segment.key(partition), index_range(segment)
    for _ in range(2):
        indexes = store.get_range(key, start, size) if size else b""
        if crc32c(indexes) == segment.indexes_crc:
            return indexes
    raise TierCorrupt(f"{store.location}/{key}: the checksum of its indexes is wrong")


def read_only(path: str) -> StorageFailed:
    """Return the error of an attempt to write."""
    return StorageFailed(f"{path} is in the tier, where segments never change")


def as_storage(storage: SegmentFilesStorage) -> Storage:
    """Return the same object; has the type checker compare it with the contract."""
    return storage
