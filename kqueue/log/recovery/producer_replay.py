"""Producer state from a log's batches: counted one by one, from the newest snapshot on."""

from __future__ import annotations

import contextlib
import logging

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


def apply_batch(producers: ProducerStateManager, file: Readable, position: int, unit: AnyHeader) -> AbortedTxn | None:
    """Count a batch of the log for its producer; returns the transaction that it aborts. Raises
    CorruptBatch, StorageFailed.
    """
    if isinstance(unit, BatchHeader) and unit.producer_id >= 0:
        if not unit.is_control:
            producers.update(unit, unit.base_offset)
        elif unit.record_count:  # none are left where compaction removed the whole transaction
            marker = EndTransactionMarker.of(next(iter_records(file.read_at(position, unit.size))))
            if marker is not None:
                return producers.end_transaction(unit, marker, unit.base_offset)
    producers.end_offset = unit.last_offset + 1
    return None


def replay(segments: list[Segment], producers: ProducerStateManager, end_offset: int) -> None:
    """Count all batches from `producers.end_offset` up to `end_offset`, without their records.
    Raises StorageFailed.

    What is damaged is passed over: whoever reads it hears of it.
    """
    for number, segment in enumerate(segments):
        next_base = segments[number + 1].base if number + 1 < len(segments) else end_offset
        if next_base <= producers.end_offset or segment.base >= end_offset:
            continue
        position: int | None = _beginning(segment, producers.end_offset)
        while position is not None:
            position = _replay_segment(segment, producers, position, end_offset)
    producers.end_offset = max(producers.end_offset, end_offset)


def _beginning(segment: Segment, offset: int) -> int:
    try:
        found = segment.find(offset)
    except CorruptBatch:
        return 0
    return found.position if found else segment.size


def _replay_segment(segment: Segment, producers: ProducerStateManager, position: int, end_offset: int) -> int | None:
    """Count up to damage; returns where batches begin again, None: the end was reached."""
    last_offset = segment.base - 1
    try:
        for batch in scan(segment.log, position, segment.size):
            at, unit = batch.position, batch.header
            if unit.last_offset >= end_offset:
                return None
            position, last_offset = at + unit.size, unit.last_offset
            if last_offset >= producers.end_offset:
                with contextlib.suppress(CorruptBatch):
                    apply_batch(producers, segment.log, at, unit)
    except CorruptBatch as error:
        logger.error(
            "%r is damaged behind offset %d, producers are counted without it: %s", segment, last_offset, error
        )
    else:
        if position >= segment.size:
            return None
    return next_batch(segment.log, position + 1, segment.size, after_offset=last_offset)


def load_producers(storage: Storage, folder: str, snapshots: list[int], end_offset: int) -> ProducerStateManager:
    """The newest readable snapshot at or below `end_offset`, empty if there is none. Corrupt ones
    are removed, and taken off the list.

    Raises StorageFailed.
    """
    for offset in [offset for offset in reversed(snapshots) if offset <= end_offset]:
        producers = read_snapshot(storage, folder, offset)
        if producers is not None:
            return producers
        snapshots.remove(offset)
    return ProducerStateManager()


def read_snapshot(storage: Storage, folder: str, offset: int) -> ProducerStateManager | None:
    """What the snapshot says; a broken one is removed, and None returned. Raises StorageFailed."""
    path = f"{folder}/{file_name(offset, SNAPSHOT)}"
    try:
        return decode_snapshot(read_small_file(storage, path), offset)
    except CorruptIndex as error:
        logger.warning("%s in %s: %s; an older one will do", path, storage.location, error)
        storage.remove(path)
        return None
