"""What a follower does to its log: append what the leader sent, as it is, or begin anew where the
leader's log does. Rules 19 and 20; truncation is `Log.truncate_to`.

Source: Kafka's UnifiedLog.appendAsFollower and truncateFullyAndStartAt.
"""

from __future__ import annotations

from kqueue.base.errors import CorruptBatch, CorruptData, DiskFull, OffsetOutOfRange, StorageFailed, StorageUnavailable
from kqueue.log.log import Log
from kqueue.log.log_state import LogState
from kqueue.log.producer_state import ProducerStateManager
from kqueue.records.batch import BATCH_OVERHEAD, LENGTH_FIELD_END, BatchHeader, check_crc, read_header

GAP_MAX = 2**31 - 1
"""An index has 32 bits for the offsets of a segment."""


def append_replicated(log: Log, records: memoryview, leader_epoch: int) -> int:
    """Append the whole batches in `records`, which a leader sent, without changing them.

    Each is checked before it is written: its size and checksum, that its offsets follow those of
    the log (gaps are legal, compaction leaves them), and its epoch. The batches before a wrong one
    stay appended. An incomplete batch at the end is ignored: the response had no room for it.

    Args: leader_epoch: the leader's; no batch may be of a later one.
    Returns: the bytes appended.
    Raises: CorruptBatch: a batch is wrong, or not even the first one is complete. StorageFailed,
        StorageUnavailable: as `Log.append`.
    Durability: as `Log.append`.
    """
    position = 0
    while position < len(records):
        if position and len(records) - position < BATCH_OVERHEAD:
            break
        header = read_header(records, position)
        end = position + header.batch_length + LENGTH_FIELD_END
        if position and end > len(records):
            break
        check_crc(records, position, header)
        _check_order(log, header, leader_epoch)
        _append(log, records[position:end], header)
        position = end
    return position


def _check_order(log: Log, header: BatchHeader, leader_epoch: int) -> None:
    if header.base_offset < log.end_offset:
        raise CorruptBatch(
            f"{log.folder} ends at {log.end_offset}, the leader sent a batch with offsets {header.base_offset} to "
            f"{header.last_offset}"
        )
    if header.last_offset - log.end_offset > GAP_MAX:
        raise CorruptBatch(
            f"{log.folder} ends at {log.end_offset}, the leader sent offset {header.last_offset}: more than {GAP_MAX} "
            "offsets between two records can't be stored"
        )
    if not log.epochs.latest <= header.leader_epoch <= leader_epoch:
        raise CorruptBatch(
            f"{log.folder}: expected a batch of epoch {log.epochs.latest} to {leader_epoch}, the leader sent one of "
            f"{header.leader_epoch} at offset {header.base_offset}"
        )


def _append(log: Log, batch: memoryview, header: BatchHeader) -> None:
    if log.offline is not None:
        raise log.offline
    try:
        log._write(batch, header, header.last_offset, header.leader_epoch)
    except StorageUnavailable as error:
        if log.space is not None and isinstance(error, DiskFull):
            log.space.on_disk_full(error)
        raise
    except StorageFailed as error:
        log._fail(error)
        raise


def restart_at(log: Log, offset: int) -> None:
    """Remove all records, and let the log start and end at `offset`, above its end: what lies
    between is deleted at the leader. Blocks.

    Durability: durable on return but for the log start checkpoint. A crash before leaves the old
        log, some of its segments, or an empty log at the old or the new offset. In all of these the
        follower is below the leader's log start again, and begins anew once more.
    Raises: OffsetOutOfRange: not above the log end. StorageFailed.
    """
    if log.offline is not None:
        raise log.offline
    if offset <= log.end_offset:
        raise OffsetOutOfRange(f"{log.folder}: can't restart at {offset}, the log ends at {log.end_offset}")
    first = log.segments.base_offset
    if log.on_truncate is not None:
        log.on_truncate(first)
    try:
        log._truncate(first)
        _begin_at(log, offset)
    except StorageFailed as error:
        log._fail(error, LogState.OFFLINE)
        raise
    except CorruptData as error:
        failed = StorageFailed(f"{log.folder}: can't restart at {offset}: {error}")
        log._fail(failed, LogState.OFFLINE)
        raise failed from error


def _begin_at(log: Log, offset: int) -> None:
    """Replace the only segment, which is empty, by an empty one at `offset`."""
    limit = log._producer_limit
    if limit is not None:
        limit.unwatch(log.producers)
    log.producers = ProducerStateManager()
    log.producers.end_offset = offset
    if limit is not None:
        limit.watch(log.producers)
    log.epochs.clear()
    log.end_offset = offset
    log.segments.begin_at(offset, log._clock.wall_ms())
    # the new name and the empty epochs before the old name goes, else the log's start was missing
    log.flusher.folder_changed()
    log.flusher.run_now(offset, log.segments.active, log.epochs)
    log.segments.remove_first()
    log.flusher.folder_changed()
    log.start_offset = log.pending_start_offset = offset
