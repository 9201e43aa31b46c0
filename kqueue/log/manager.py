"""All logs of a broker: what is on disk, opening on first use, making, deleting, checkpoints, and the clean stop.

Crash, for the whole: logs keep what they flushed (see `log`). The checkpoints are replaced whole. A partition that was made
but never flushed may be gone, one that was deleted may be back under its old name until the job of `delete` has run; the topic
ids in the folders tell.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping, Sequence
from functools import partial

from kqueue.base.clock import Clock
from kqueue.base.errors import FolderLost, StorageFailed, TooManyOpenFiles
from kqueue.base.jobs import IoJob, Jobs
from kqueue.base.names import random_uuid, uuid_text
from kqueue.log.config import LogConfig
from kqueue.log.copying import Copy
from kqueue.log.folders.data_folder import DataFolder, Found, Key, is_meant
from kqueue.log.folders.data_folders import DataFolders, Offline
from kqueue.log.folders.log_dirs import LogDir, log_dir
from kqueue.log.folders.saving import Done
from kqueue.log.formats.checkpoints import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from kqueue.log.formats.filenames import FOLDER_DELETED, PARTITION_METADATA
from kqueue.log.log import PRODUCER_EXPIRATION_MS_DEFAULT, Log, remove_folder
from kqueue.log.recovery.mending import mend
from kqueue.storage import Storage

logger = logging.getLogger("kqueue.log")
FOLDER_STRAY = "-stray"
NOT_OURS = {"__cluster_metadata"}
"""Logs that are never opened: Kafka recovers its own one whenever it starts."""


class LogManager:
    """Owns the data folders from being made to `close`. Belongs to one thread.

    Args: storages: one per data folder. node_id: must be the folders'. cluster_id: for new folders; None = as the others say, else random.
    rng: for ids and jitter. jobs: who writes checkpoints; None: they are written at once.
    offline: folders that could not even be looked at; one that can't be read or written, or is another node's, joins them.
    Raises FolderInUse; StorageFailed: no folder is left.
    """

    def __init__(
        self,
        storages: Sequence[Storage],
        *,
        clock: Clock,
        rng: random.Random,
        node_id: int = 1,
        cluster_id: str | None = None,
        broker_epoch: int = -1,
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS_DEFAULT,
        jobs: Jobs | None = None,
        offline: Sequence[Offline] = (),
    ) -> None:
        assert storages or offline, "a broker needs a data folder"
        self._clock = clock
        self._rng = rng
        self._broker_epoch = broker_epoch
        self._jobs = jobs
        self._producer_expiration_ms = producer_expiration_ms
        self._logs: dict[Key, Log] = {}
        self._new: set[Key] = set()  # made, and not flushed since
        self._closed = False
        self._folders = DataFolders(
            storages, offline, node_id=node_id, cluster_id=cluster_id, clock=clock, rng=rng, jobs=jobs
        )
        self.cluster_id = next(iter(self._folders)).cluster_id
        # a partition of an unclean folder stays in here until it was opened, and so recovered
        self._unrecovered = {key for folder in self._folders if not folder.clean for key in folder.found if key[0] not in NOT_OURS}

    @property
    def offline(self) -> list[Offline]:
        """The data folders that can't be used, and why."""
        return self._folders.offline

    @property
    def was_unclean(self) -> bool:
        """Whether a data folder with partitions was not stopped cleanly: its logs are checked as they are opened."""
        return any(not folder.clean for folder in self._folders)

    def new_id(self) -> bytes:
        """A random id for a topic."""
        return random_uuid(self._rng)

    def found(self) -> dict[Key, Found]:
        """Every partition that has a folder, opened or not."""
        return {key: found for folder in self._folders for key, found in folder.found.items()}

    def has(self, topic: str, partition: int) -> bool:
        """Whether the partition has a folder."""
        return self._folder_of((topic, partition)) is not None

    def place_of(self, topic: str, partition: int) -> tuple[Storage, str] | None:
        """Where the partition's folder is: in which storage, under which path; None: there is none."""
        folder = self._folder_of((topic, partition))
        return (folder.storage, folder.found[topic, partition].path) if folder is not None else None

    def highest_epoch(self) -> int:
        """The newest leader epoch that any partition's checkpoint names; -1: none. Reads a file per partition."""
        return max((folder.newest_epoch(found) for folder in self._folders for found in folder.found.values()), default=-1)

    def checkpointed_high_watermark(self, topic: str, partition: int) -> int | None:
        """What the last checkpoint said; None: nothing."""
        folder = self._folder_of((topic, partition))
        return folder.high_watermarks.get((topic, partition)) if folder is not None else None

    # --- making, opening, deleting

    def create(self, topic: str, partition: int, topic_id: bytes) -> None:
        """Make the folder of a new partition, in the emptiest data folder that is in order; the log is made when it is opened.

        Crash: gone unless its log was flushed. Raises StorageFailed.
        """
        assert not self.has(topic, partition), f"{topic}-{partition} is there"
        self._make((topic, partition), topic_id)

    def expect(self, topic: str, partition: int) -> None:
        """A partition is new to the broker, and its folder will be made when it is first opened."""
        self._folders.is_new((topic, partition))

    def is_out_of_reach(self, topic: str, partition: int) -> StorageFailed | None:
        """Why the partition can't be opened, as far as that is known without trying; None: it can."""
        try:
            self._folders.check((topic, partition))
        except StorageFailed as error:
            return error
        return None

    def _make(self, key: Key, topic_id: bytes) -> DataFolder:
        folder = self._folders.make(key, topic_id, self._is_impaired)
        self._new.add(key)
        return folder

    def _is_impaired(self, folder: DataFolder) -> bool:
        return folder.error is not None or any(key in self._logs and self._logs[key].offline is not None for key in folder.found)

    def open(self, topic: str, partition: int, topic_id: bytes, config: LogConfig) -> Log:
        """The partition's log; made if there is none. Opened once, and then kept. Blocks while a log is recovered.

        Crash: see `Log.open`. Raises StorageFailed: also where the folder belongs to another topic of that name.
        """
        key = (topic, partition)
        log = self._logs.get(key)
        if log is not None:
            return log
        self._folders.check(key)
        try:
            log = self._find_and_open(key, topic_id, config)
        except FileNotFoundError as error:
            raise StorageFailed(f"{topic}-{partition}: a file was there and is gone: {error}") from error
        self._logs[key] = log
        self._unrecovered.discard(key)
        return log

    def _find_and_open(self, key: Key, topic_id: bytes, config: LogConfig) -> Log:
        folder = self._folders.of(key) or self._make(key, topic_id)
        if folder.lost is not None:
            raise folder.lost
        found = folder.found[key]
        if not folder.storage.exists(found.path):
            raise StorageFailed(f"{folder.storage.place}: the folder {found.path} was there and is gone")
        if found.topic_id != topic_id and is_meant(found.topic_id, topic_id):
            found = folder.identify(key, found.path, topic_id)
            self._new.add(key)
        if found.topic_id != topic_id:
            theirs = uuid_text(found.topic_id) if found.topic_id else "none"
            raise StorageFailed(f"{folder.storage.place}: {found.path} is of topic id {theirs}, not {uuid_text(topic_id)}")
        return self._open(folder, key, found, topic_id, config)

    def _open(self, folder: DataFolder, key: Key, found: Found, topic_id: bytes, config: LogConfig) -> Log:
        log = Log.open(
            folder.storage,
            found.path,
            config,
            self._clock,
            topic_id=topic_id,
            recovery_point=folder.recovery_points.get(key, 0),
            clean=folder.clean,
            start_offset=folder.log_starts.get(key, 0),
            high_watermark=folder.high_watermarks.get(key),
            producer_expiration_ms=self._producer_expiration_ms,
            rng=self._rng,
            files_to_sync=(PARTITION_METADATA,) if key in self._new or not folder.clean else (),
        )
        self._new.discard(key)
        log.on_truncate = lambda offset: self._lower_recovery_point(folder, key, offset)
        return log

    def delete(self, topic: str, partition: int) -> IoJob[None] | None:
        """Take the partition away at once; the job then removes its files. None: there is no such folder.

        Crash: before the job has run, the folder may be back (under either name); those named for deletion go at the next start.
        Raises StorageFailed: it can't be renamed.
        """
        key = (topic, partition)
        folder = self._folder_of(key)
        if folder is None:
            return None
        self._forget(key)
        path = folder.rename(key, FOLDER_DELETED, random_uuid(self._rng).hex())
        storage = folder.storage

        def run() -> None:
            storage.sync_folder("")
            remove_folder(storage, path)
            storage.sync_folder("")

        def finish(_: None, error: BaseException | None) -> None:
            if error is not None:
                logger.error("%s: %s could not be removed, the next start tries again: %s", storage.place, path, error)

        return IoJob(f"delete {path}", run, finish, storage.place)

    def set_aside(self, topic: str, partition: int) -> str:
        """Rename a folder that nobody knows to ``…-stray``, out of the way of a new one; returns the new path.

        Crash: it may be back under the old name. Raises StorageFailed.
        """
        key = (topic, partition)
        folder = self._folder_of(key)
        assert folder is not None, f"{topic}-{partition} is not there"
        self._forget(key)
        return folder.rename(key, FOLDER_STRAY, random_uuid(self._rng).hex())

    def _forget(self, key: Key) -> None:
        log = self._logs.pop(key, None)
        if log is not None:
            log.abandon()
        self._new.discard(key)
        self._unrecovered.discard(key)

    def _folder_of(self, key: Key) -> DataFolder | None:
        return self._folders.of(key)

    # --- checkpoints

    def checkpoint_recovery_points(self) -> None:
        """Write how far logs are flushed, and where they start, in jobs. Crash: old or new, which costs time alone."""
        self.save_recovery_points(lambda error: None)
        for folder in self._folders:
            folder.save(LOG_STARTS, self._told(folder, LOG_STARTS))

    def mend_indexes(self) -> None:
        """Make the indexes anew that reads found wrong, in jobs; see `mending`."""
        if self._jobs is not None:
            for log in self._logs.values():
                mend(log, self._jobs)

    def check_locks(self) -> None:
        """Verify in jobs that the data folders are still locked; the logs of one that is not are offline from then on. See `check_lock`."""
        for folder in self._folders:
            folder.check_lock(self._jobs, partial(self._lose, folder))

    def _lose(self, folder: DataFolder, error: FolderLost) -> None:
        for key in folder.found:
            if key in self._logs:
                self._logs[key].take_offline(error)

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[Key, int]) -> None:
        """Write the high watermarks of these partitions, in jobs; others keep theirs. Crash: old or new."""
        for folder in self._folders:
            for key in folder.found:
                if key in high_watermarks:
                    folder.high_watermarks[key] = high_watermarks[key]
            folder.save(HIGH_WATERMARKS, self._told(folder, HIGH_WATERMARKS))

    def save_recovery_points(self, done: Done) -> None:
        """Write how far all logs are flushed, in jobs.

        `done(error or None)` is called on the owner thread once all folders have it, or the first that could not; at once where nothing
        is new. Crash: old or new, which costs time alone.
        """
        finish = _all_of(len(self._folders), done)
        for folder in self._folders:
            self._save_recovery_points_of(folder, finish)

    def save_recovery_point(self, key: Key, done: Done) -> None:
        """`save_recovery_points` of the partition's data folder alone: no other disk is waited for. A partition that is gone is fine."""
        folder = self._folder_of(key)
        if folder is None:
            done(None)
        else:
            self._save_recovery_points_of(folder, done)

    def _save_recovery_points_of(self, folder: DataFolder, done: Done) -> None:
        self._note_offsets(folder)
        folder.save(RECOVERY_POINTS, self._told(folder, RECOVERY_POINTS, done))

    def save_log_starts(self, key: Key, done: Done) -> None:
        """Write where the partition's log (and its neighbours) start, in a job; `done` as in `save_recovery_points`.

        Crash: old or new; once `done(None)` is called the start that the log has now is never forgotten. A partition that is gone is fine.
        """
        folder = self._folder_of(key)
        if folder is None:
            done(None)
            return
        self._note_offsets(folder)

        def then(error: BaseException | None) -> None:
            if error is not None:
                done(error)
            else:
                folder.save(LOG_STARTS, self._told(folder, LOG_STARTS, done))

        # a log start above the recovery point would not be believed
        folder.save(RECOVERY_POINTS, self._told(folder, RECOVERY_POINTS, then))

    def cleaner_offset(self, key: Key) -> int | None:
        """The first offset of the partition that compaction has not seen, as checkpointed; None: it was never compacted."""
        folder = self._folder_of(key)
        return folder.cleaner_offsets.get(key) if folder is not None else None

    def save_cleaner_offset(self, key: Key, offset: int | None, done: Done) -> None:
        """Write how far a partition is compacted (None: not at all), in a job; `done` as in `save_recovery_points`.

        Crash: old or new; the old one costs another look at what is clean. A partition that is gone is fine.
        """
        folder = self._folder_of(key)
        if folder is None:
            done(None)
            return
        if offset is None:
            folder.cleaner_offsets.pop(key, None)
        else:
            folder.cleaner_offsets[key] = offset
        folder.save(CLEANER_OFFSETS, self._told(folder, CLEANER_OFFSETS, done))

    def _told(self, folder: DataFolder, name: str, done: Done | None = None) -> Done:
        """`done`, but for a log line where the checkpoint could not be written: the next one tries again, with a new file."""

        def tell(error: BaseException | None) -> None:
            if not isinstance(error, TooManyOpenFiles):  # which says nothing of the disk
                folder.error = None if error is None else StorageFailed(str(error))
            if error is not None:
                logger.error("%s: %s could not be written, the old one still holds: %s", folder.storage.place, name, error)
            if done is not None:
                done(error)

        return tell

    def _note_offsets(self, folder: DataFolder) -> None:
        for key in folder.found:
            log = self._logs.get(key)
            if log is not None:
                # what lies below the log start need not be whole any more
                folder.recovery_points[key] = max(log.flushed_offset, log.start_intended)
                if log.start_intended > 0:
                    # also where the first segment begins there: the files before it may not be gone for good
                    folder.log_starts[key] = log.start_intended
                else:
                    folder.log_starts.pop(key, None)

    def _lower_recovery_point(self, folder: DataFolder, key: Key, offset: int) -> None:
        if folder.recovery_points.get(key, 0) > offset:
            folder.recovery_points[key] = offset
            folder.save_now(RECOVERY_POINTS)

    def log_dirs(self) -> list[LogDir]:
        """All data folders, those that serve first. Lists the folder of every partition that is not open. Blocks."""
        offline = [LogDir(place, None, error, None, None, {}) for place, error in self._folders.offline]
        return [log_dir(folder, self._logs) for folder in self._folders] + offline

    def expire_producers(self) -> int:
        """Forget silent producers of all open logs; returns how many."""
        return sum(log.expire_producers() for log in self._logs.values())

    def copy_to(self, target: Storage) -> None:
        """Copy all logs as they are at this moment into `target`, which must be empty, to be as after a clean stop. Blocks.

        Durability: on return. Raises StorageFailed: a data folder or a log is offline, or something can't be read or written.
        """
        if self.offline:
            raise StorageFailed(f"data folder {self.offline[0].place} is offline: its partitions would be missing in a copy")
        copy = Copy(target)
        for folder in self._folders:
            copy.add(folder, self._logs, self._unrecovered)
        copy.finish(next(iter(self._folders)).properties, self._clock, self._broker_epoch)

    # --- the end

    def close(self, high_watermarks: Mapping[Key, int] | None = None) -> None:
        """Flush and close all logs, write the checkpoints, mark the stop as clean, unlock. Blocks. Twice is harmless.

        A folder is marked clean only if all its logs could be closed, and none waits to be recovered still. No flush may be under way.
        Crash: without the mark the next start checks what lies past the recovery points. Raises StorageFailed, after the rest was done.
        """
        if self._closed:
            return
        self._closed = True
        failed: StorageFailed | None = None
        for folder in self._folders:
            folder.check_lock(None, partial(self._lose, folder))
            try:
                clean = self._close_logs(folder)
                self._note_offsets(folder)
                folder.high_watermarks.update({key: high for key, high in (high_watermarks or {}).items() if key in folder.found})
                for name in (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS):
                    folder.save_now(name)
            except StorageFailed as error:
                logger.error("%s: %s", folder.storage.place, error)
                failed, clean = failed or error, False
            folder.close(clean=clean, broker_epoch=self._broker_epoch)
        if failed is not None:
            raise failed

    def _close_logs(self, folder: DataFolder) -> bool:
        clean = True
        for key in folder.found:
            clean &= key not in self._unrecovered
            log = self._logs.get(key)
            if log is None:
                continue
            try:
                log.close()
            except StorageFailed as error:
                logger.error("%s: %s", folder.storage.place, error)
            clean &= log.offline is None
        return clean


def _all_of(count: int, done: Done) -> Done:
    """Calls `done` once it was called `count` times itself, with the first error."""
    errors: list[BaseException | None] = []

    def one(error: BaseException | None) -> None:
        errors.append(error)
        if len(errors) == count:
            done(next((error for error in errors if error is not None), None))

    return one


__all__ = ["Found", "LogDir", "LogManager", "Offline"]
