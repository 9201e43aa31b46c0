"""The files of one tiered segment as a read-only `Storage`, which `log.segment.Segment` opens.

The batches are read through the chunk cache; the indexes are in memory, as they were read with the
segment.
"""

from __future__ import annotations

from functools import partial

from crc32c import crc32c

from kqueue.log.formats.filenames import INDEX, LOG, TIMEINDEX, TXNINDEX, file_name
from kqueue.storage import File, FolderEntry
from kqueue.storage.memory import MemoryFile
from kqueue.tier.chunks import ChunkCache
from kqueue.tier.errors import TierCorrupt
from kqueue.tier.formats.keys import TieredPartition
from kqueue.tier.formats.segment_object import index_range, split_indexes
from kqueue.tier.formats.segments import TieredSegment
from kqueue.tier.read_only import ReadOnlyFile, RefusedWrites
from kqueue.tier.stores.contract import TierStore


class SegmentFilesStorage(RefusedWrites):
    """A `Storage` with one folder that holds the files of one segment.

    Args: indexes: the bytes of the range `index_range` of the object.
    Attributes: aborted: the transaction index; empty: there is none.
    """

    def __init__(
        self, chunks: ChunkCache, partition: TieredPartition, segment: TieredSegment, indexes: bytes, location: str
    ) -> None:
        offset_index, time_index, transaction_index, _, _ = split_indexes(segment.indexes, indexes)
        base = segment.base_offset
        self.location = location
        self.folder = str(partition)
        key, size = segment.key(partition), segment.size
        batches = ReadOnlyFile(key, size, partial(chunks.read, key, size), partial(chunks.is_cached, key))
        self._files: dict[str, File] = {
            file_name(base, LOG): batches,
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
