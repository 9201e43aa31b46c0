"""Copies a sealed segment into the tier.

    1  compare the checksums of all its batches: damage is not copied, for the copy will be the only
       one. The indexes of the copy are made on the way, so those on disk may be damaged or missing
    2  announce the copy in the manifest
    3  put the object: batches, indexes, producer snapshot, leader epochs, entry
    4  make the announced copy a segment of the manifest

A crash before 4 leaves an announced copy. The next one, of whichever leader, has its object deleted
and copies again. A leader that was deposed fails at 2 or 4, whatever it has put in between, and
deletes that. Source: KIP-405.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from crc32c import crc32c

from kqueue.base.errors import CorruptBatch, CorruptIndex, StorageFailed
from kqueue.base.settings import KiB, MiB
from kqueue.log.formats.checkpoints import read_small_file
from kqueue.log.formats.filenames import LOG, SNAPSHOT, TXNINDEX, file_name
from kqueue.log.formats.leader_epochs import LeaderEpochCache, encode_epochs
from kqueue.log.formats.producer_snapshot import decode_snapshot, encode_snapshot
from kqueue.log.formats.transaction_index import AbortedTxn, decode_aborted
from kqueue.log.index_builder import IndexBuilder
from kqueue.log.producer_state import ProducerStateManager
from kqueue.log.recovery.producer_replay import apply_batch
from kqueue.log.scanner.batch_scanner import CheckLevel, first_offset, scan
from kqueue.log.start_snapshot import producers_at
from kqueue.records.batch import BatchHeader
from kqueue.storage import File, Storage
from kqueue.tier.errors import LeaderFenced, TierError
from kqueue.tier.formats.segment_object import encode_footer, parts_of
from kqueue.tier.formats.segments import EpochEntry, TieredSegment
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.contract import TierStore

READ_BYTES = 1 * MiB
INDEX_INTERVAL_BYTES = 4 * KiB
Spend = Callable[[int], None]
"""Called with the bytes that are sent next; waits where there is a limit."""


@dataclass(frozen=True, slots=True)
class SegmentToCopy:
    """A sealed segment of a local log; all of it is on disk and committed.

    base_offset, end_offset: of its file, end exclusive. start_offset: the first offset that the
        tier lacks. size: bytes of batches.
    epochs: of the whole log, oldest first. snapshots, bases: offsets of the log's producer
        snapshots, and of its sealed segments, up to `end_offset`.
    """

    storage: Storage
    folder: str
    base_offset: int
    start_offset: int
    end_offset: int
    size: int
    epochs: Sequence[EpochEntry]
    snapshots: Sequence[int] = ()
    bases: Sequence[int] = ()

    @property
    def location(self) -> str:
        """The log file, for messages."""
        return f"{self.storage.location}/{self.path(LOG)}"

    def path(self, suffix: str, offset: int | None = None) -> str:
        """Return the path of a file of the segment, or of the one at `offset`."""
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
    Raises: LeaderFenced: a later leader writes. ObjectChanged: the tier has the segment already, or
        part of it (see `Manifest.begin_copy`). TierError. CorruptBatch: the segment is damaged.
        StorageFailed. FileNotFoundError: it was deleted meanwhile.
    """
    file = source.storage.open(source.path(LOG), size=source.size)
    try:
        contents = _read_through(file, source)
        entry = TieredSegment(
            object_id=object_id,
            base_offset=source.base_offset,
            start_offset=source.start_offset,
            end_offset=source.end_offset,
            size=source.size,
            max_timestamp=contents.max_timestamp,
            crc=contents.crc,
            indexes=parts_of(contents.indexes),
            indexes_crc=crc32c(b"".join(contents.indexes)),
            epochs=_epochs_within(source.epochs, source.start_offset, source.end_offset),
            unstable_offset=min(contents.first_open, source.end_offset),
            leader_epoch=leader_epoch,
            broker=broker,
            copied_ms=now_ms,
        )
        tail = (*contents.indexes, encode_footer(entry))
        object_ = _SegmentObject(file, source, contents.crc, tail, spend)
        manifest.begin_copy(leader_epoch, entry)
        try:
            store.put(entry.key(manifest.partition), object_, object_.size)
            manifest.finish_copy(leader_epoch, entry)
        except LeaderFenced:
            # The next leader may have deleted the object before it was put.
            with contextlib.suppress(TierError):
                manifest.delete_unless_listed(entry)
            raise
        return entry
    finally:
        file.close()


class _Contents(NamedTuple):
    """Facts about all batches of a segment. crc: CRC-32C of them; max_timestamp: ms, -1: none.

    indexes: what follows the batches in the object, in the order of `IndexSizes`. first_open: first
    offset of the oldest transaction that is open at the end; 2**63 - 1: none is.
    """

    crc: int
    max_timestamp: int
    indexes: tuple[bytes, ...]
    first_open: int


def _read_through(file: File, source: SegmentToCopy) -> _Contents:
    """Read all batches, compare their checksums, and make the indexes.

    Raises: CorruptBatch, StorageFailed, FileNotFoundError.
    """
    producers = _producers(source, source.base_offset)
    builder = IndexBuilder(source.base_offset, INDEX_INTERVAL_BYTES)
    aborted: dict[int, AbortedTxn] = {}
    markers: dict[int, int] = {}
    next_offset, crc = source.base_offset, 0
    try:
        for batch in scan(file, 0, source.size, check=CheckLevel.CHECKSUMS, allow_truncated=False):
            header = batch.header
            # No checksum covers the offset of a batch.
            if first_offset(header) < next_offset or header.last_offset >= source.end_offset:
                raise CorruptBatch(
                    f"batch at position {batch.position}: expected offsets from {next_offset} to below "
                    f"{source.end_offset}, found {first_offset(header)} to {header.last_offset}"
                )
            next_offset = header.last_offset + 1
            crc = crc32c(batch.raw, crc)
            builder.add(batch.position, header.last_offset, header.max_timestamp)
            if isinstance(header, BatchHeader) and header.is_control:
                markers[header.last_offset] = header.producer_id
            with contextlib.suppress(CorruptBatch):  # its checksum is right, so it was written like this
                transaction = apply_batch(producers, file, batch.position, header)
                if transaction is not None:
                    aborted[transaction.last_offset] = transaction
    except CorruptBatch as error:
        raise CorruptBatch(f"{source.location}: {error}; it is not copied into the tier") from None
    builder.finish()
    for transaction in _aborted_on_disk(source):
        if markers.get(transaction.last_offset) == transaction.producer_id:
            aborted[transaction.last_offset] = _earlier(transaction, aborted.get(transaction.last_offset, transaction))
    for offset in sorted(aborted):
        builder.add_aborted(aborted[offset])
    with contextlib.suppress(FileNotFoundError, CorruptIndex):
        producers = _snapshot(source, source.end_offset)
    built = (bytes(builder.offset_index), bytes(builder.time_index), bytes(builder.transaction_index))
    return _Contents(
        crc,
        builder.max_timestamp,
        (*built, encode_snapshot(producers), _encoded_epochs(source)),
        producers.first_open(),
    )


class _SegmentObject:
    """The bytes of a segment object. Each iteration reads the batches again, so that a put can be
    repeated.

    Args: crc: of the batches, as they were verified. tail: what follows them.
    """

    def __init__(self, file: File, source: SegmentToCopy, crc: int, tail: Sequence[bytes], spend: Spend) -> None:
        self._file = file
        self._source = source
        self._crc = crc
        self._tail = tail
        self._spend = spend
        self.size = source.size + sum(map(len, tail))

    def __iter__(self) -> Iterator[bytes]:
        location, size = self._source.location, self._source.size
        crc = position = 0
        while position < size:
            length = min(READ_BYTES, size - position)
            self._spend(length)
            data = self._file.read_at(position, length)
            if len(data) != length:
                raise StorageFailed(f"{location}: expected {size} bytes, it ends before")
            crc = crc32c(data, crc)
            position += length
            yield data
        if crc != self._crc:
            raise StorageFailed(f"{location} gave other bytes when it was read again; it is not copied into the tier")
        yield from self._tail


def _producers(source: SegmentToCopy, offset: int) -> ProducerStateManager:
    """Return the producer state at an offset, from its snapshot, or an older one and batches."""
    with contextlib.suppress(FileNotFoundError, CorruptIndex):
        return _snapshot(source, offset)
    older = [snapshot for snapshot in source.snapshots if snapshot < offset]
    bases = [base for base in source.bases if base < offset]
    return producers_at(source.storage, source.folder, older, bases, offset)


def _snapshot(source: SegmentToCopy, offset: int) -> ProducerStateManager:
    return decode_snapshot(read_small_file(source.storage, source.path(SNAPSHOT, offset)), offset)


def _aborted_on_disk(source: SegmentToCopy) -> list[AbortedTxn]:
    """Return the transaction index; empty: there is none, or it can't be read."""
    with contextlib.suppress(FileNotFoundError, CorruptIndex):
        return list(decode_aborted(source.storage.read(source.path(TXNINDEX))))
    return []


def _earlier(one: AbortedTxn, other: AbortedTxn) -> AbortedTxn:
    """Return what two entries say of one transaction: replayed producers may not know how early it,
    or another one, began, as those batches are no longer here.
    """
    return one._replace(
        first_offset=min(one.first_offset, other.first_offset),
        last_stable_offset=min(one.last_stable_offset, other.last_stable_offset),
    )


def _encoded_epochs(source: SegmentToCopy) -> bytes:
    """Return the leader epochs from the log start to the end of the segment."""
    epochs = LeaderEpochCache()
    for epoch, start in source.epochs:
        if start < source.end_offset:
            epochs.assign(epoch, start)
    return encode_epochs(epochs)


def _epochs_within(epochs: Sequence[EpochEntry], start_offset: int, end_offset: int) -> tuple[EpochEntry, ...]:
    """Return the epochs within the offsets; one that began before begins at `start_offset`."""
    before = [epoch for epoch, start in epochs if start <= start_offset]
    first = ((before[-1], start_offset),) if before else ()
    return (*first, *(entry for entry in epochs if start_offset < entry[1] < end_offset))
