"""Keeps bytes that cannot be part of a log, but hold whole batches, as `<name>.damaged` beside it.

kqueue does not read these files. Durability: the copy is synced under its name before the log is
cut; after a crash in between it is copied twice.
"""

from __future__ import annotations

import logging

from kqueue.base import events
from kqueue.log.formats.filenames import LOG, file_name
from kqueue.log.scanner.resync import next_batch
from kqueue.log.segment import Segment
from kqueue.storage import Storage
from kqueue.storage.paths import TEMPORARY_SUFFIX

logger = logging.getLogger("kqueue.log")
DAMAGED = ".damaged"
COPY_BYTES = 1024 * 1024


def cut_log(storage: Storage, folder: str, segment: Segment, position: int, end_offset: int, why: str) -> None:
    """Cut a segment's log at `position`, where offset `end_offset` should be; copy the rest first
    if it holds whole batches.

    Raises StorageFailed: nothing was cut.
    """
    size = segment.log.size
    if next_batch(segment.log, position, size, after_offset=end_offset - 1) is None:
        events.LOG_CUT.log(
            logger, "%r: %s; cut from %d to %d bytes", segment=segment, reason=why, size=size, position=position
        )
    else:
        name = _free_name(storage, folder, file_name(segment.base, LOG))
        _copy(storage, folder, segment, position, name)
        events.LOG_CUT_KEPT.log(
            logger,
            "%r: %s; cut from %d to %d bytes, the rest holds whole batches and is kept as %s",
            segment=segment,
            reason=why,
            size=size,
            position=position,
            file=name,
        )
    segment.log.truncate(position)


def quarantine_segment(storage: Storage, folder: str, segment: Segment, why: str) -> None:
    """Rename a segment's log file to `.damaged`, remove its indexes. Raises StorageFailed."""
    segment.files.close()
    names = segment.files.names()
    if segment.size:
        name = _free_name(storage, folder, names[0])
        storage.rename(f"{folder}/{names[0]}", f"{folder}/{name}")
        events.SEGMENT_QUARANTINED.log(
            logger, "%r is quarantined as %s: the log ends before it (%s)", segment=segment, file=name, reason=why
        )
        names = names[1:]
    for name in names:
        storage.remove(f"{folder}/{name}")


def _free_name(storage: Storage, folder: str, name: str) -> str:
    number = 1
    while storage.exists(f"{folder}/{name}{DAMAGED}"):
        number += 1
        name = f"{name.removesuffix(f'.{number - 1}')}.{number}"
    return name + DAMAGED


def _copy(storage: Storage, folder: str, segment: Segment, position: int, name: str) -> None:
    path = f"{folder}/{name}"
    file = storage.open(path + TEMPORARY_SUFFIX, create=True)
    file.truncate(0)
    while data := segment.log.read_at(position, COPY_BYTES):
        file.append(data)
        position += len(data)
    file.sync()
    file.close()
    storage.rename(path + TEMPORARY_SUFFIX, path)
    storage.sync_folder(folder)
