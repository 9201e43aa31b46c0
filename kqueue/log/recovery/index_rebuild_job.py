"""Indexes that a read found wrong, made anew while the log is in use.

Reads go on meanwhile, from further back. Crash: an index that is half written is wrong again, which
the next read finds.
"""

from __future__ import annotations

import contextlib
import logging

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
    """Start rebuilding the index of the first sealed segment of `log` whose index leads astray, if there is one; it
    is read whole, in a job.

    The active segment is sealed first where its index leads astray. Belongs to the owner thread. A
    segment that is gone, or was replaced, when the job ends is left alone.
    """
    if log.offline is None and log.active.index_mismatch:
        with contextlib.suppress(StorageFailed):  # the log is offline then, and has reported it
            log.roll()
    segments = log.sealed_below(log.end_offset)
    for number, segment in enumerate(segments):
        if segment.index_mismatch and log.offline is None:
            limit = segments[number + 1].base if number + 1 < len(segments) else None
            jobs.submit(_job(log, segment, limit, jobs))
            return True
    return False


def _job(log: Log, segment: Segment, limit: int | None, jobs: Jobs) -> IoJob[None]:
    # the region keeps the file open for the thread, whatever becomes of the segment
    source = segment.log.region(0, segment.size).source
    rebuild = IndexRebuilder(
        segment, log.folder, log.config.index_interval_bytes, ProducerStateManager(), LeaderEpochCache(), source
    )

    def finish(_: None, error: BaseException | None) -> None:
        if error is not None:
            logger.error("%r: its index could not be made anew: %s", segment, error)
            return
        if log.offline is not None or not log.has_sealed([segment]) or not segment.index_mismatch:
            return
        try:
            rebuild.write_indexes()
        except (StorageFailed, CorruptData, FileNotFoundError) as failed:
            logger.error("%r: its index could not be written: %s", segment, failed)
            return
        segment.mark_indexes_rebuilt()
        logger.warning("%r: its index was wrong and has been made anew", segment)
        files = segment.files()[1:]
        jobs.submit(IoJob(f"sync indexes of {log.folder}", lambda: _sync(files), _synced, log.storage.location))

    return IoJob(f"rebuild index of {log.folder}", lambda: rebuild.run(limit), finish, log.storage.location)


def _sync(files: list[File]) -> None:
    for file in files:
        file.sync()


def _synced(_: None, error: BaseException | None) -> None:
    if error is not None:
        logger.error("an index that was made anew is not on disk, the next start may have to do it again: %s", error)
