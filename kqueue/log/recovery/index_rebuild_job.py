"""Rebuilds an index that a read found wrong, while the log is in use.

Reads continue meanwhile, from an earlier index entry. Durability: after a crash a half-written
index is wrong again, which the next read finds.
"""

from __future__ import annotations

import contextlib
import logging

from kqueue.base import events
from kqueue.base.errors import CorruptData, StorageFailed
from kqueue.base.jobs import IoJob, Jobs
from kqueue.log.formats.leader_epochs import LeaderEpochCache
from kqueue.log.log import Log
from kqueue.log.producer_state import ProducerStateManager
from kqueue.log.recovery.index_rebuilder import IndexRebuilder
from kqueue.log.segment import Segment
from kqueue.storage import File

logger = logging.getLogger("kqueue.log")


def start_index_rebuild(log: Log, jobs: Jobs) -> bool:
    """Start a job for the first sealed segment of `log` whose index does not fit its batches.

    Rolls the log first if this is the active segment. The job reads the segment whole. A segment
    that was deleted or replaced when the job ends is left alone.

    Returns: whether a job was started.
    Thread: the owner.
    """
    if log.health.failure is None and log.segments.active.index_mismatch:
        with contextlib.suppress(StorageFailed):  # the log is offline then, and has reported it
            log.roll()
    segments = log.segments.sealed_below(log.end_offset)
    for number, segment in enumerate(segments):
        if segment.index_mismatch and log.health.failure is None:
            limit = segments[number + 1].base if number + 1 < len(segments) else None
            jobs.submit(_job(log, segment, limit, jobs))
            return True
    return False


def _job(log: Log, segment: Segment, limit: int | None, jobs: Jobs) -> IoJob[None]:
    # the region keeps the file open for the job's thread, even if the segment is deleted
    source = segment.log.region(0, segment.size).source
    rebuild = IndexRebuilder(
        segment, log.folder, log.config.index_interval_bytes, ProducerStateManager(), LeaderEpochCache(), source
    )

    def finish(_: None, error: BaseException | None) -> None:
        if error is not None:
            events.INDEX_NOT_REBUILT.log(logger, "%r: its index could not be rebuilt: %s", segment=segment, error=error)
            return
        if log.health.failure is not None or not log.segments.contains([segment]) or not segment.index_mismatch:
            return
        try:
            rebuild.write_indexes()
        except (StorageFailed, CorruptData, FileNotFoundError) as failed:
            events.INDEX_NOT_REBUILT.log(
                logger, "%r: its index could not be written: %s", segment=segment, error=failed
            )
            return
        segment.mark_indexes_rebuilt()
        events.INDEX_REBUILT.log(logger, "%r: its index was wrong and has been rebuilt", segment=segment)
        files = segment.files.all()[1:]
        jobs.submit(IoJob(f"sync indexes of {log.folder}", lambda: _sync(files), _synced, log.storage.location))

    return IoJob(f"rebuild index of {log.folder}", lambda: rebuild.run(limit), finish, log.storage.location)


def _sync(files: list[File]) -> None:
    for file in files:
        file.sync()


def _synced(_: None, error: BaseException | None) -> None:
    if error is not None:
        events.INDEX_NOT_REBUILT.log(
            logger, "a rebuilt index is not synced, the next start may have to rebuild it again: %s", error=error
        )
