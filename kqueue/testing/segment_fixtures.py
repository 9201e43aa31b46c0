"""Builds sealed segments for tests of a cleanup policy's work before deletion.

Such work is set in `Drop.before_delete`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path

from kqueue.log.config import LogConfig
from kqueue.log.formats.checkpoints import encode_partition_metadata
from kqueue.log.formats.filenames import PARTITION_METADATA
from kqueue.log.log import Log
from kqueue.log.sealed_segments import SealedSegments
from kqueue.records.batch import ABORT, Record, control_key_value, read_header
from kqueue.records.builder import build_batch
from kqueue.storage import LocalStorage, MemoryStorage, Storage
from kqueue.testing.manual_clock import ManualClock

TOPIC_ID = bytes(range(16))
_PRODUCER_ID = 1


def sealed_segments(
    segments: Sequence[Sequence[Record]],
    *,
    topic: str = "orders",
    partition: int = 0,
    codec: str = "none",
    aborted: Sequence[Record] = (),
    folder: str | PathLike[str] | None = None,
) -> SealedSegments:
    """Return the sealed segments of a partition with these records, as a broker passes them.

    Args:
        segments: the records of each segment, oldest first; at least one segment, each with at
            least one record. Each segment is one batch. Offsets are assigned from 0; those of the
            records are ignored.
        codec: name of the compression codec.
        aborted: records of an aborted transaction, appended to the last segment with their abort
            marker. Consumers do not see them.
        folder: an empty folder for the partition's files, so that the segments can be sent to
            another process; None: in memory.
    """
    storage: Storage
    opener: Callable[[], Storage]
    if folder is None:
        storage = MemoryStorage()
        opener = partial(_same, storage)
    else:
        storage = LocalStorage(Path(folder))
        opener = storage.opener
    name = f"{topic}-{partition}"
    log = Log.open(storage, name, LogConfig.of(), ManualClock(), topic_id=TOPIC_ID, rng=random.Random(0))
    storage.write_atomic(f"{name}/{PARTITION_METADATA}", encode_partition_metadata(TOPIC_ID))
    for records in segments:
        log.roll()
        _append(log, build_batch(list(records), base_offset=0, codec=codec))
    if aborted:
        in_transaction = partial(build_batch, base_offset=0, producer_id=_PRODUCER_ID, epoch=0, transactional=True)
        _append(log, in_transaction(list(aborted), base_sequence=0))
        _append(log, in_transaction([Record(0, aborted[-1].timestamp, *control_key_value(ABORT, 0))], control=True))
    log.roll()
    views = log.segment_views()[:-1]
    log.close()
    return SealedSegments(
        topic=topic,
        partition=partition,
        topic_id=TOPIC_ID,
        folder=name,
        location=f"{storage.location}/{name}",
        segments=views,
        start_offset=0,
        end_offset=views[-1].end_offset,
        opener=opener,
    )


def _append(log: Log, batch: bytearray) -> None:
    log.append(batch, read_header(batch), leader_epoch=0, client=False)


def _same(storage: Storage) -> Storage:
    return storage


__all__ = ["TOPIC_ID", "sealed_segments"]
