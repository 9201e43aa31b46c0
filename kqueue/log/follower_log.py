"""Appends of a follower: what the leader sent, as it is (rule 20); `log_cut` removes records.

Source: Kafka's UnifiedLog.appendAsFollower.
"""

from __future__ import annotations

from kqueue.base.errors import CorruptBatch, DiskFull, StorageFailed, StorageUnavailable
from kqueue.log.log import Log
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


def lacks_epochs(log: Log) -> bool:
    """Whether a log has gone on from the tier without the epochs of what only the tier has, and has
    no batch yet: a crash, or a full disk, came between the two (see `LogCut`).
    """
    return log.epochs.latest < 0 and log.start_offset < log.local_start_offset == log.end_offset


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
    if log.health.failure is not None:
        raise log.health.failure
    try:
        log._write(batch, header, header.last_offset, header.leader_epoch)
    except StorageUnavailable as error:
        if log.space is not None and isinstance(error, DiskFull):
            log.space.on_disk_full(error)
        raise
    except StorageFailed as error:
        log._fail(error)
        raise
