"""Rebuilds producer state: the newest snapshot, then the batches after it."""

from __future__ import annotations

import contextlib
import logging

from kqueue.base import events
from kqueue.base.errors import CorruptBatch, CorruptIndex
from kqueue.log.formats.checkpoints import read_small_file
from kqueue.log.formats.filenames import SNAPSHOT, file_name
from kqueue.log.formats.producer_snapshot import decode_snapshot
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.log.producer_state import EndTransactionMarker, ProducerStateManager
from kqueue.log.scanner.batch_scanner import AnyHeader, Readable, scan
from kqueue.log.scanner.resync import next_batch
from kqueue.log.segment import Segment
from kqueue.records.batch import BatchHeader, iter_records
from kqueue.storage import Storage

logger = logging.getLogger("kqueue.log")


def apply_batch(producers: ProducerStateManager, file: Readable, position: int, header: AnyHeader) -> AbortedTxn | None:
    """Add a batch of the log to the producer state; return the transaction that it aborts.

    Raises: CorruptBatch: its end marker cannot be read; StorageFailed.
    """
    if isinstance(header, BatchHeader) and header.producer_id >= 0:
        if not header.is_control:
            producers.update(header, header.base_offset)
        elif header.record_count:  # a compaction that removed the whole transaction leaves none
            marker = EndTransactionMarker.of(next(iter_records(file.read_at(position, header.size))))
            if marker is not None:
                return producers.end_transaction(header, marker, header.base_offset)
    producers.end_offset = header.last_offset + 1
    return None


def replay(segments: list[Segment], producers: ProducerStateManager, end_offset: int) -> None:
    """Add all batches from `producers.end_offset` up to `end_offset`; reads headers only.

    Skips damage, which a read of it reports. Raises StorageFailed.
    """
    for number, segment in enumerate(segments):
        next_base = segments[number + 1].base if number + 1 < len(segments) else end_offset
        if next_base <= producers.end_offset or segment.base >= end_offset:
            continue
        position: int | None = _position_of(segment, producers.end_offset)
        while position is not None:
            position = _replay_segment(segment, producers, position, end_offset)
    producers.end_offset = max(producers.end_offset, end_offset)


def _position_of(segment: Segment, offset: int) -> int:
    try:
        batch = segment.find(offset)
    except CorruptBatch:
        return 0
    return batch.position if batch else segment.size


def _replay_segment(segment: Segment, producers: ProducerStateManager, position: int, end_offset: int) -> int | None:
    """Add batches up to damage; return where batches begin again, None: the end was reached."""
    last_offset = segment.base - 1
    try:
        for batch in scan(segment.log, position, segment.size):
            if batch.header.last_offset >= end_offset:
                return None
            position, last_offset = batch.end, batch.header.last_offset
            if last_offset >= producers.end_offset:
                with contextlib.suppress(CorruptBatch):
                    apply_batch(producers, segment.log, batch.position, batch.header)
    except CorruptBatch as error:
        events.PRODUCER_STATE_DAMAGED.log(
            logger,
            "%r is damaged behind offset %d, producer state lacks what was there: %s",
            segment=segment,
            last_offset=last_offset,
            error=error,
        )
    else:
        if position >= segment.size:
            return None
    return next_batch(segment.log, position + 1, segment.size, after_offset=last_offset)


def load_producers(storage: Storage, folder: str, snapshots: list[int], end_offset: int) -> ProducerStateManager:
    """Return the newest readable snapshot at or below `end_offset`; empty state if there is none.

    Removes corrupt snapshots, from `snapshots` too. Raises StorageFailed.
    """
    for offset in [offset for offset in reversed(snapshots) if offset <= end_offset]:
        producers = read_snapshot(storage, folder, offset)
        if producers is not None:
            return producers
        snapshots.remove(offset)
    return ProducerStateManager()


def read_snapshot(storage: Storage, folder: str, offset: int) -> ProducerStateManager | None:
    """Return the snapshot; remove a corrupt one and return None. Raises StorageFailed."""
    path = f"{folder}/{file_name(offset, SNAPSHOT)}"
    try:
        return decode_snapshot(read_small_file(storage, path), offset)
    except CorruptIndex as error:
        events.PRODUCER_SNAPSHOT_DAMAGED.log(
            logger, "%s in %s: %s; an older snapshot is used", path=path, location=storage.location, error=error
        )
        storage.remove(path)
        return None
