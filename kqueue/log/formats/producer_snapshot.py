"""Snapshots of producer state: `<offset>.snapshot` holds it as of a log end at that offset.

    version int16 = 1 | CRC-32C uint32 of the rest | count int32 | entries
    entry: producer id int64 | epoch int16 | last sequence int32 | last offset int64
         | offset delta int32 | timestamp int64 | coordinator epoch int32
         | first offset of the open transaction int64        (big-endian; -1 = none)

Only the last of a producer's remembered batches is written. Source: Kafka ProducerStateManager,
ProducerSnapshot.
"""

from __future__ import annotations

import struct
from bisect import insort
from collections.abc import Collection

from crc32c import crc32c

from kqueue.base.errors import CorruptIndex, DiskFull
from kqueue.log.formats.filenames import SNAPSHOT, file_name
from kqueue.log.producer_state import NONE, BatchMetadata, ProducerStateEntry, ProducerStateManager
from kqueue.storage import File, Storage

VERSION = 1
HEADER = struct.Struct(">hIi")
ENTRY = struct.Struct(">qhiqiqiq")
_CRC_END = 6


def encode_snapshot(producers: ProducerStateManager) -> bytes:
    """Return the bytes of a snapshot."""
    body = bytearray(struct.pack(">i", len(producers)))
    for producer_id, producer in producers.items():
        last = producer.batches[-1] if producer.batches else BatchMetadata(NONE, NONE, 0, NONE)
        body += ENTRY.pack(
            producer_id,
            producer.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            producer.last_timestamp,
            producer.coordinator_epoch,
            producer.transaction_offset,
        )
    return struct.pack(">hI", VERSION, crc32c(body)) + bytes(body)


def decode_snapshot(data: bytes, offset: int) -> ProducerStateManager:
    """Return the state that `<offset>.snapshot` holds.

    Raises:
        CorruptIndex: the size, the version or the checksum is wrong.
    """
    if len(data) < HEADER.size:
        raise CorruptIndex(f"a producer snapshot has {HEADER.size} bytes at least, found {len(data)}")
    version, crc, count = HEADER.unpack_from(data)
    if version != VERSION or count < 0 or len(data) != HEADER.size + count * ENTRY.size:
        raise CorruptIndex(f"no producer snapshot: version {version}, {count} producers in {len(data)} bytes")
    actual_crc = crc32c(memoryview(data)[_CRC_END:])
    if actual_crc != crc:
        raise CorruptIndex(f"checksum {crc:#010x} stands in the producer snapshot, its bytes give {actual_crc:#010x}")
    producers = ProducerStateManager()
    producers.end_offset = offset
    producers.add_all(map(_producer, ENTRY.iter_unpack(memoryview(data)[HEADER.size :])))
    return producers


def _producer(entry: tuple[int, ...]) -> tuple[int, ProducerStateEntry]:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, transaction_offset = entry
    producer = ProducerStateEntry(epoch)
    if last_offset >= 0:
        producer.batches = (BatchMetadata(last_sequence, last_offset, delta, timestamp),)
    producer.last_timestamp = timestamp
    producer.coordinator_epoch = coordinator_epoch
    producer.transaction_offset = transaction_offset
    return producer_id, producer


class ProducerSnapshotFiles:
    """The snapshots of one log: one at the start of each segment but the first.

    A clean shutdown adds one at the log end.

    Attributes:
        offsets: offsets of the snapshots, ascending.
        durable_offset: of the last snapshot that was synced on its own (`note_durable`); -1: none.
    """

    __slots__ = ("_folder", "_storage", "durable_offset", "offsets")

    def __init__(self, storage: Storage, folder: str, offsets: list[int]) -> None:
        self._storage = storage
        self._folder = folder
        self.offsets = offsets
        self.durable_offset = -1

    def take(self, producers: ProducerStateManager, offset: int, bases: Collection[int]) -> File | None:
        """Write a snapshot of `producers` at the log end `offset`.

        Args:
            bases: base offsets of the log's segments.

        Returns:
            The file, which must be synced together with its name; None: the snapshot exists.

        Durability: a torn snapshot fails its checksum; an older one and the batches since give the
        same state.

        Raises:
            StorageFailed: the file cannot be written.
        """
        if offset == (self.offsets[-1] if self.offsets else 0):
            return None
        file = self._storage.open(self._path(offset), create=True)
        try:
            file.truncate(0)
            file.append(encode_snapshot(producers))
        except DiskFull:
            file.close()
            self._storage.remove(self._path(offset))
            raise
        if self.offsets and self.offsets[-1] not in bases:
            # of an earlier clean shutdown; a snapshot at a segment's start stays with it
            self._storage.remove(self._path(self.offsets.pop()))
        self.offsets.append(offset)
        return file

    def put(self, data: bytes, offset: int) -> None:
        """Write a snapshot of the offset where the log restarts. Blocks.

        Durability: durable on return; a crash leaves the former one of that offset, or none.
        Raises: StorageFailed.
        """
        self._storage.write_atomic(self._path(offset), data)
        self.note_durable(offset)

    def note_durable(self, offset: int) -> None:
        """Note that the snapshot at `offset` was written and synced, its name too."""
        if offset not in self.offsets:
            insort(self.offsets, offset)
        self.durable_offset = offset

    def remove_above(self, offset: int) -> None:
        """Delete the snapshots above `offset`, the new log end.

        Raises:
            StorageFailed: a file cannot be deleted.
        """
        while self.offsets and self.offsets[-1] > offset:
            self._storage.remove(self._path(self.offsets.pop()))
        if self.durable_offset > offset:
            self.durable_offset = -1

    def remove_others(self, offset: int) -> None:
        """Delete all snapshots but the one at `offset`. Raises: StorageFailed."""
        for other in [other for other in self.offsets if other != offset]:
            self._storage.remove(self._path(other))
            self.offsets.remove(other)

    def forget(self, bases: Collection[int]) -> list[str]:
        """Remove the snapshots at these former segment bases from `offsets`, but not the newest.

        Returns:
            The names of their files.
        """
        gone = [offset for offset in self.offsets[:-1] if offset in bases]
        self.offsets[:] = [offset for offset in self.offsets if offset not in gone]
        return [file_name(offset, SNAPSHOT) for offset in gone]

    def _path(self, offset: int) -> str:
        return f"{self._folder}/{file_name(offset, SNAPSHOT)}"
