"""Writes the checkpoint files of all data folders: recovery points, log starts, high watermarks,
cleaner offsets.

A checkpoint is replaced whole, in a job: after a crash it is old or new. Old recovery points cost
time alone; an old log start brings segments back, which are deleted again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kqueue.base import events
from kqueue.base.errors import StorageFailed, TooManyOpenFiles
from kqueue.base.sliced_task import SlicedWork
from kqueue.log.folders.checkpoint_file import Done
from kqueue.log.folders.data_folder import DataFolder
from kqueue.log.folders.data_folders import DataFolders
from kqueue.log.folders.partition_folders import TopicPartition
from kqueue.log.formats.checkpoints import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, LogCheckpoint
from kqueue.log.log import Log

logger = logging.getLogger("kqueue.log")


class LogCheckpoints:
    """Checkpoints of the open `logs`; the mapping is the manager's own. Thread: owner thread.

    A partition without a folder is ignored by all methods; `done(None)` is called where there is
    one.

    Attributes: are_sole_replicas: no other broker has replicas, so that all that a recovery keeps
        is committed.
    """

    def __init__(self, folders: DataFolders, logs: Mapping[TopicPartition, Log]) -> None:
        self._folders = folders
        self._logs = logs
        self.are_sole_replicas = True

    def write_all(self) -> SlicedWork[None]:
        """Write recovery points and log starts of all open logs, in jobs; one step per log."""
        for key, log in list(self._logs.items()):
            if self._logs.get(key) is log:
                self.note_offsets(key)
            yield None
        for folder in self._folders:
            for name in (RECOVERY_POINTS, LOG_STARTS):
                folder.save(name, _logged(folder, name))

    def note_high_watermark(self, topic: str, partition: int, offset: int) -> None:
        """Set what `save_high_watermarks` writes for a partition."""
        folder = self._folders.of((topic, partition))
        if folder is not None:
            folder.high_watermarks[topic, partition] = offset

    def save_high_watermarks(self) -> None:
        """Write the noted high watermarks, in jobs."""
        for folder in self._folders:
            folder.save(HIGH_WATERMARKS, _logged(folder, HIGH_WATERMARKS))

    def save_recovery_point(self, key: TopicPartition, done: Done) -> None:
        """Write how far the partition's log is flushed, in a job.

        `done(error or None)` is called on the owner thread when the file has it or can't be
        written; at once where nothing changed.
        """
        folder = self.note_offsets(key)
        if folder is None:
            done(None)
        else:
            folder.save(RECOVERY_POINTS, _logged(folder, RECOVERY_POINTS, done))

    def save_log_starts(self, key: TopicPartition, done: Done) -> None:
        """Write where the partition's log starts, in a job; `done` as in `save_recovery_point`.

        Durability: once `done(None)` is called, the current log start survives a power cut.
        """
        folder = self.note_offsets(key)
        if folder is None:
            done(None)
            return

        def write_starts(error: BaseException | None) -> None:
            if error is not None:
                done(error)
            else:
                folder.save(LOG_STARTS, _logged(folder, LOG_STARTS, done))

        # the next start does not accept a log start above the recovery point
        folder.save(RECOVERY_POINTS, _logged(folder, RECOVERY_POINTS, write_starts))

    def note_recovered(self, folder: DataFolder, key: TopicPartition, start_offset: int, end_offset: int) -> None:
        """Set what the next checkpoints say of a log that was recovered, and is not open yet."""
        folder.recovery_points[key] = end_offset
        if self.are_sole_replicas:
            folder.high_watermarks[key] = end_offset
        if key in folder.log_starts:
            folder.log_starts[key] = start_offset

    def high_watermark(self, key: TopicPartition) -> int:
        """Return the checkpointed high watermark of a partition; 0: none."""
        folder = self._folders.of(key)
        return folder.high_watermarks.get(key, 0) if folder is not None else 0

    def cleaner_offset(self, key: TopicPartition) -> int | None:
        """Return the first offset not compacted yet, as checkpointed; None: never compacted."""
        folder = self._folders.of(key)
        return folder.cleaner_offsets.get(key) if folder is not None else None

    def save_cleaner_offset(self, key: TopicPartition, offset: int | None, done: Done) -> None:
        """Write how far a partition is compacted (None: not at all), in a job.

        `done` as in `save_recovery_point`. An old checkpoint costs another pass over clean
        segments.
        """
        folder = self._folders.of(key)
        if folder is None:
            done(None)
            return
        if offset is None:
            folder.cleaner_offsets.pop(key, None)
        else:
            folder.cleaner_offsets[key] = offset
        folder.save(CLEANER_OFFSETS, _logged(folder, CLEANER_OFFSETS, done))

    def note_offsets(self, key: TopicPartition) -> DataFolder | None:
        """Set what the next checkpoints say of a partition; return its data folder."""
        folder, log = self._folders.of(key), self._logs.get(key)
        if folder is not None and log is not None and not log.health.is_suspended:
            # below the log start the log need not be whole any more
            folder.recovery_points[key] = max(log.flushed_offset, log.pending_start_offset)
            note_log_start(folder, key, log)
        return folder


def note_log_start(folder: DataFolder, key: TopicPartition, log: Log) -> None:
    """Set what the next checkpoint of `folder` says of a log's start.

    Also where the first segment begins there: the files before it may still exist. A tiered log has
    its own start even at 0, because its first segment tells nothing of it. Kafka does the same.
    """
    if log.pending_start_offset > 0 or log.config.tiered:
        folder.log_starts[key] = log.pending_start_offset
    else:
        folder.log_starts.pop(key, None)


def checkpoint_of(folder: DataFolder, key: TopicPartition) -> LogCheckpoint:
    """Return what the checkpoint files say of a partition's log."""
    return LogCheckpoint(
        recovery_point=folder.recovery_points.get(key, 0),
        start_offset=folder.log_starts.get(key),
        high_watermark=folder.high_watermarks.get(key),
        clean=folder.clean,
    )


def lower_recovery_point(folder: DataFolder, key: TopicPartition, offset: int) -> None:
    """Write a recovery point of at most `offset`, before the log is truncated. Blocks.

    Raises: StorageFailed.
    """
    if folder.recovery_points.get(key, 0) > offset:
        folder.recovery_points[key] = offset
        folder.save_now(RECOVERY_POINTS)


def _logged(folder: DataFolder, name: str, done: Done | None = None) -> Done:
    """Return `done`, with a log line before it if the checkpoint could not be written."""

    def finish(error: BaseException | None) -> None:
        if not isinstance(error, TooManyOpenFiles):  # which is no error of the disk
            folder.error = None if error is None else StorageFailed(str(error))
        if error is not None:
            events.CHECKPOINT_NOT_WRITTEN.log(
                logger,
                "%s: %s could not be written, the old one still holds: %s",
                location=folder.storage.location,
                file=name,
                error=error,
            )
        if done is not None:
            done(error)

    return finish
