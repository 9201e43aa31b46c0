"""The producer snapshot at a new log start: keeps the producers of records that are deleted.

Producer state can be replayed from batches. A deletion removes batches, so the epochs, sequences
and open transactions that only they carry must be in a snapshot before: the one at the first
offset that stays, `<new log start>.snapshot`. A roll writes it and the next flush syncs it, so it
is mostly durable long before. It is not if the segment was rolled in order to be deleted, if a
flush failed, or if the folder came without it.

Compaction needs no such snapshot: it keeps the last batch and the last marker of each producer.

Order: this job, then the log start checkpoint, then `deletion`. `Log.delete_before` deletes nothing
without it. The snapshot is of the new log start, whatever is appended meanwhile, so each deletion
needs the job once at most. Source: Kafka ProducerStateManager, LogSegments.deleteOldSegments.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kqueue.base import events
from kqueue.base.errors import CorruptIndex
from kqueue.base.jobs import IoJob
from kqueue.log.formats.checkpoints import read_small_file
from kqueue.log.formats.filenames import SNAPSHOT, file_name
from kqueue.log.formats.producer_snapshot import decode_snapshot, encode_snapshot
from kqueue.log.log import Log
from kqueue.log.producer_state import ProducerStateManager
from kqueue.log.recovery.producer_replay import replay
from kqueue.log.segment import Segment
from kqueue.storage import Storage

logger = logging.getLogger("kqueue.log")


def start_snapshot_job(log: Log, offset: int, done: Callable[[BaseException | None], None]) -> IoJob[None] | None:
    """Return a job that makes the producer state of all records below `offset` durable.

    Reads the snapshot, or, where there is none, the headers of the batches since an older one.
    Args:
        offset: where a segment of the log begins.
        done: called with the error, or None, at the end of the job's `finish`.
    Returns: None: nothing to do, because the state is durable or no producer is known.
    Durability: once `done(None)` was called, the records below `offset` may be deleted.
    """
    segments, snapshots = log.segments, log.segments.snapshots
    if segments.keeps_producers(offset, log.producers, log.flusher):
        return None
    storage, folder = log.storage, log.folder
    older = [snapshot for snapshot in snapshots.offsets if snapshot <= offset]
    bases = [segment.base for segment in segments.sealed_below(offset)]

    def run() -> None:
        producers = producers_at(storage, folder, older, bases, offset)
        storage.write_atomic(f"{folder}/{file_name(offset, SNAPSHOT)}", encode_snapshot(producers))

    def finish(_: None, error: BaseException | None) -> None:
        if error is None:
            snapshots.note_durable(offset)
        done(error)

    return IoJob(f"keep the producers of {folder}", run, finish, storage.location)


def producers_at(
    storage: Storage, folder: str, snapshots: list[int], bases: list[int], offset: int
) -> ProducerStateManager:
    """Return the producer state at `offset`. Thread: any; opens the files itself.

    Raises: StorageFailed; FileNotFoundError: a file was deleted or replaced meanwhile.
    """
    producers = _newest(storage, folder, snapshots)
    if producers.end_offset < offset:
        sizes = {entry.name: entry.size for entry in storage.list(folder) if not entry.is_folder}
        segments = [Segment.open(storage, folder, base, 0, sizes=sizes) for base in bases]
        try:
            producers.end_offset = max(producers.end_offset, segments[0].base if segments else offset)
            replay(segments, producers, offset)
        finally:
            for segment in segments:
                segment.files.close()
    return producers


def _newest(storage: Storage, folder: str, snapshots: list[int]) -> ProducerStateManager:
    for offset in reversed(snapshots):
        path = f"{folder}/{file_name(offset, SNAPSHOT)}"
        try:
            return decode_snapshot(read_small_file(storage, path), offset)
        except (CorruptIndex, FileNotFoundError) as error:
            events.PRODUCER_SNAPSHOT_DAMAGED.log(
                logger, "%s in %s: %s; an older snapshot is used", path=path, location=storage.location, error=error
            )
    return ProducerStateManager()
