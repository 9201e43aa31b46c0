"""All logs of a broker: creating, opening, deleting, copying, and the clean stop.

Durability: logs keep what they flushed (see `log`). A partition that was created and never flushed
may be gone after a crash. A deleted one may be back under its old name until the job of `delete`
has run; the topic ids in the folders tell them apart. Checkpoints: see `checkpoint_writer`.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Container, Sequence
from functools import partial

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.errors import DiskFull, FolderLost, StorageFailed
from kqueue.base.jobs import Jobs
from kqueue.base.names import METADATA_TOPIC, random_uuid, uuid_text
from kqueue.base.sliced_task import SlicedWork
from kqueue.base.timers import Timers
from kqueue.log.checkpoint_writer import LogCheckpoints, checkpoint_of, lower_recovery_point
from kqueue.log.config import LogConfig
from kqueue.log.folders.data_folder import DataFolder, is_meant
from kqueue.log.folders.data_folders import DataFolders, OfflineFolder, has_batches
from kqueue.log.folders.log_dirs import LogDirDescription, LogDirListing
from kqueue.log.folders.partition_folders import PartitionFolder, TopicPartition
from kqueue.log.folders.registration_mark import RegistrationMark
from kqueue.log.formats.checkpoints import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, LogCheckpoint
from kqueue.log.formats.filenames import PARTITION_METADATA
from kqueue.log.log import PRODUCER_EXPIRATION_MS_DEFAULT, Log
from kqueue.log.log_copier import LogCopier
from kqueue.log.log_mover import LogMover, MoveHost, Runtime
from kqueue.log.producer_limit import ProducerLimit
from kqueue.log.recovery.index_rebuild_job import start_index_rebuild
from kqueue.log.recovery.recovered_log import RecoveredLog
from kqueue.log.recovery.recovery_task import LogToRecover
from kqueue.storage import Storage

logger = logging.getLogger("kqueue.log")
PRODUCER_IDS_MAX_DEFAULT = 100_000
FOLDER_STRAY = "-stray"
NOT_OURS = {METADATA_TOPIC}
"""Logs that are never opened: Kafka recovers its own one whenever it starts."""


class LogManager:
    """Owns the data folders from their opening to `close`.

    Args:
        storages: one per data folder.
        node_id: the id that the folders must have.
        cluster_id: for new folders; None: the other folders' id, else a random one.
        rng: for ids and jitter.
        jobs: runs disk work; None: it runs at once.
        reserve_bytes: `kqueue.disk.reserve.bytes`; 0: no reserve.
        offline: folders that could not be opened. A folder that can't be read or written, or
            belongs to another node, is added to them.
        producer_expiration_ms: an attribute too, which may change at any time.

    Attributes: broker_epoch: for the marks of a clean stop; -1: of a single broker.
        stopped_epochs: in the marks that the folders had; -1: no mark. has_new_folder: a first use.
        registration_marks: of the folders, as the start found them, by id of the folder; without
            folders that are used for the first time.
    Raises: FolderInUse. StorageFailed: no folder is left.
    Thread: owner thread.
    """

    def __init__(
        self,
        storages: Sequence[Storage],
        *,
        clock: Clock,
        rng: random.Random,
        node_id: int = 1,
        cluster_id: str | None = None,
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS_DEFAULT,
        producer_ids_max: int = PRODUCER_IDS_MAX_DEFAULT,
        jobs: Jobs | None = None,
        offline: Sequence[OfflineFolder] = (),
        reserve_bytes: int = 0,
    ) -> None:
        assert storages or offline, "a broker needs a data folder"
        self._clock = clock
        self._rng = rng
        self.broker_epoch = -1
        self._jobs = jobs
        self.producer_expiration_ms = producer_expiration_ms
        self._producer_limit = ProducerLimit(producer_ids_max)
        self._logs: dict[TopicPartition, Log] = {}
        # the open logs that have gone offline; others may be in it still
        self._failed: dict[DataFolder, dict[TopicPartition, Log]] = {}
        self._closed = False
        self._folders = DataFolders(
            storages,
            offline,
            node_id=node_id,
            cluster_id=cluster_id,
            clock=clock,
            rng=rng,
            jobs=jobs,
            reserve_bytes=reserve_bytes,
        )
        self.sealer = self._folders.sealer
        self.checkpoints = LogCheckpoints(self._folders, self._logs)
        self.mover: LogMover | None = None
        self.directory_ids = tuple(folder.properties["directory.id"] for folder in self._folders)
        self.cluster_id, self.directory_id = next(iter(self._folders)).cluster_id, self.directory_ids[0]
        self.stopped_epochs = tuple(folder.stopped_epoch for folder in self._folders)
        self.has_new_folder = any(folder.is_new for folder in self._folders)
        self.registration_marks = {
            folder.properties["directory.id"]: folder.registration_mark for folder in self._folders if not folder.is_new
        }
        for folder in self._folders:
            folder.on_removed = self._removed
        self.on_removed: Callable[[], None] | None = None
        # a partition of an unclean folder, or with a log that was given up, stays in here until it
        # was opened, and so recovered
        self._unrecovered = {
            key for folder in self._folders if not folder.clean for key in folder.partitions if key[0] not in NOT_OURS
        }
        self._recovered: dict[TopicPartition, RecoveredLog] = {}  # in jobs, and not opened since

    @property
    def offline(self) -> list[OfflineFolder]:
        """The data folders that can't be used, and why."""
        return self._folders.offline

    @property
    def location(self) -> str:
        """The data folders that can be used, for messages."""
        return ", ".join(folder.storage.location for folder in self._folders)

    @property
    def was_unclean(self) -> bool:
        """Whether a data folder with partitions was not stopped cleanly; its logs are checked when
        opened.
        """
        return any(not folder.clean for folder in self._folders)

    def new_topic_id(self) -> bytes:
        """Return a random topic id."""
        return random_uuid(self._rng)

    def partition_folders(self) -> dict[TopicPartition, PartitionFolder]:
        """Return the folder of every partition that has one, opened or not."""
        return {key: partition for folder in self._folders for key, partition in folder.partitions.items()}

    def has(self, topic: str, partition: int) -> bool:
        """Whether the partition has a folder."""
        return self._folders.of((topic, partition)) is not None

    def may_have_batches(self, topic: str, partition: int) -> bool:
        """Whether the partition's folder holds a batch; True where that is unknown.

        Lists the folder, unless it is new. Blocks.
        """
        key = (topic, partition)
        folder = self._folders.of(key)
        if folder is None or key in folder.new:
            return False
        try:
            return has_batches(folder.storage, folder.partitions[key])
        except (StorageFailed, FileNotFoundError):
            return True

    def location_of(self, topic: str, partition: int) -> tuple[Storage, str] | None:
        """Return the storage and path of the partition's folder; None: there is none."""
        folder = self._folders.of((topic, partition))
        return (folder.storage, folder.partitions[topic, partition].path) if folder is not None else None

    def highest_epoch(self) -> int:
        """Return the newest leader epoch in any partition's checkpoint; -1: none. Reads a file per
        partition.
        """
        return max(
            (folder.latest_epoch(partition) for folder in self._folders for partition in folder.partitions.values()),
            default=-1,
        )

    # --- making, opening, deleting

    def create(self, topic: str, partition: int, topic_id: bytes) -> None:
        """Create the folder of a new partition, in the data folder with the fewest.

        Runs in a job, or at once if the partition is opened before. The log is created when it is
        opened. A failure is logged, and `open` tries again.

        Durability: the folder is gone after a crash unless its log was flushed.
        Raises: StorageFailed: only without jobs.
        """
        assert not self.has(topic, partition), f"{topic}-{partition} is there"
        if self._jobs is None:
            self._make((topic, partition), topic_id)
        else:
            self._folders.create_later((topic, partition), topic_id, self._is_impaired)

    def stop_creating(self) -> None:
        """Create no more folders in jobs; each is created when its partition is first opened."""
        for folder in self._folders:
            folder.stop_creating()

    def expect(self, topic: str, partition: int) -> None:
        """Note that a partition is new to the broker, so no offline folder can hold it."""
        self._folders.is_new((topic, partition))

    def unavailable_reason(self, topic: str, partition: int) -> StorageFailed | None:
        """Return the known reason why the partition cannot be opened; None: none is known."""
        try:
            self._folders.check((topic, partition))
        except StorageFailed as error:
            return error
        return None

    def _make(self, key: TopicPartition, topic_id: bytes) -> DataFolder:
        return self._folders.make(key, topic_id, self._is_impaired)

    def _is_impaired(self, folder: DataFolder) -> bool:
        """Whether a log or checkpoint of the folder has failed. Constant cost."""
        failed = self._failed.get(folder, {})
        while failed:
            key, log = next(iter(failed.items()))
            if log.health.failure is not None and self._logs.get(key) is log:
                return True
            del failed[key]
        return folder.error is not None

    def open(self, topic: str, partition: int, topic_id: bytes, config: LogConfig) -> Log:
        """Return the partition's log; open it once, creating it if there is none.

        Blocks while a log is recovered. Durability: see `Log.open`.
        Raises: StorageFailed: also where the folder belongs to another topic of the same name.
        """
        key = (topic, partition)
        log = self._logs.get(key)
        if log is not None:
            return log
        self._folders.check(key)
        try:
            folder, partition_dir = self._find(key, topic_id)
            log = self._open(folder, key, partition_dir, topic_id, config)
        except FileNotFoundError as error:
            raise StorageFailed(f"{topic}-{partition}: a file was there and is gone: {error}") from error
        self._logs[key] = log
        self._unrecovered.discard(key)
        return log

    def _find(self, key: TopicPartition, topic_id: bytes) -> tuple[DataFolder, PartitionFolder]:
        folder = self._folders.of(key) or self._settled(key) or self._make(key, topic_id)
        if folder.lost is not None:
            raise folder.lost
        partition = folder.partitions[key]
        if not folder.storage.exists(partition.path):
            raise StorageFailed(f"{folder.storage.location}: the folder {partition.path} was there and is gone")
        if partition.topic_id != topic_id and is_meant(partition.topic_id, topic_id):
            partition = folder.identify(key, partition.path, topic_id)
        if partition.topic_id != topic_id:
            theirs = uuid_text(partition.topic_id) if partition.topic_id else "none"
            raise StorageFailed(
                f"{folder.storage.location}: {partition.path} is of topic id {theirs}, not {uuid_text(topic_id)}"
            )
        return folder, partition

    def _settled(self, key: TopicPartition) -> DataFolder | None:
        self._folders.settle(key)
        return self._folders.of(key)

    def _open(
        self, folder: DataFolder, key: TopicPartition, partition: PartitionFolder, topic_id: bytes, config: LogConfig
    ) -> Log:
        recovered = self._recovered.pop(key, None)
        log = Log.open(
            folder.storage,
            partition.path,
            config,
            self._clock,
            topic_id=topic_id,
            checkpoint=recovered if recovered is not None else self._checkpoint_of(folder, key),
            producer_expiration_ms=self.producer_expiration_ms,
            rng=self._rng,
        )
        if key in folder.new or not folder.clean:
            # the file that names the topic may be new and not synced
            log.flusher.add(folder.storage.open(f"{partition.path}/{PARTITION_METADATA}"))
        folder.new.discard(key)
        log.space = folder.space
        log.limit_producers(self._producer_limit)
        log.on_truncate = lambda offset: lower_recovery_point(folder, key, offset)
        log.on_failed = lambda: self._failed.setdefault(folder, {}).__setitem__(key, log)
        return log

    # --- recovery in jobs

    def unrecovered(self) -> list[TopicPartition]:
        """Return the partitions that a start after a crash has found and not recovered yet."""
        return list(self._unrecovered)

    def log_to_recover(
        self, topic: str, partition: int, topic_id: bytes, config: LogConfig
    ) -> tuple[Storage, LogToRecover]:
        """Return what a `RecoveryTask` needs for the partition; pass its outcome to `recovered`.

        Until then the partition must be neither opened nor deleted.
        Raises: StorageFailed: as `open`.
        """
        key = (topic, partition)
        self._folders.check(key)
        folder, partition_dir = self._find(key, topic_id)
        return folder.storage, LogToRecover(key, partition_dir.path, config, self._checkpoint_of(folder, key))

    def _checkpoint_of(self, folder: DataFolder, key: TopicPartition) -> LogCheckpoint:
        checkpoint = checkpoint_of(folder, key)
        return checkpoint._replace(clean=checkpoint.clean and key not in self._unrecovered)

    def recovered(self, key: TopicPartition, log: RecoveredLog) -> None:
        """Use what a `RecoveryTask` has found, from now on: `open` then reads almost nothing.

        The next checkpoints have it, so a crash before the log is opened costs no second recovery
        below them.
        """
        folder = self._folders.of(key)
        assert folder is not None, f"{key} is there until it is recovered"
        self._unrecovered.discard(key)
        self._recovered[key] = log
        self.checkpoints.note_recovered(folder, key, log.start_offset, log.end_offset)

    def give_up(self, topic: str, partition: int) -> None:
        """Close a log whose `LogCut` found no room, without a flush. It has to be recovered before
        its next use, as after a crash.
        """
        key = (topic, partition)
        log = self._forget(key)
        if log is not None:
            log.abandon()
            self._unrecovered.add(key)

    def delete(self, topic: str, partition: int) -> bool:
        """Remove the partition; jobs then close its log and delete its folder. False: it has no
        folder.

        A failure is logged. If the folder could not even be renamed, no partition of its name can
        be opened until the next start.

        Durability: before the job has run, a crash may bring the folder back under either name; the
            next start deletes folders that are named for deletion.
        """
        key = (topic, partition)
        log = self._forget(key)
        if log is not None:
            log.take_offline(StorageFailed(f"{log.folder} was deleted"))
        unique = random_uuid(self._rng).hex()
        return any(folder.remove_soon(key, unique, log) for folder in self._folders)

    @property
    def is_removing(self) -> bool:
        """Whether folders of deleted partitions may still exist; `on_removed` is called when they
        are gone.
        """
        return any(folder.is_removing() for folder in self._folders)

    def _removed(self) -> None:
        if self.on_removed is not None:
            self.on_removed()

    def rename_to_stray(self, topic: str, partition: int) -> str:
        """Rename the folder of an unknown topic to ``…-stray``; return the new path.

        Durability: a crash may bring the old name back. Raises: StorageFailed.
        """
        key = (topic, partition)
        folder = self._folders.of(key)
        assert folder is not None, f"{topic}-{partition} is not there"
        log = self._forget(key)
        if log is not None:
            log.abandon()
        return folder.rename(key, FOLDER_STRAY, random_uuid(self._rng).hex())

    def _forget(self, key: TopicPartition) -> Log | None:
        self._unrecovered.discard(key)
        self._recovered.pop(key, None)
        log = self._logs.pop(key, None)
        if log is not None:
            self._producer_limit.unwatch(log.producers)
        return log

    # --- checkpoints

    def rebuild_indexes(self) -> SlicedWork[None]:
        """Rebuild indexes that reads found wrong, in jobs; one step per open log."""
        for log in list(self._logs.values()) if self._jobs is not None else ():
            assert self._jobs is not None
            start_index_rebuild(log, self._jobs)
            yield None

    @property
    def refusals(self) -> list[DiskFull]:
        """Why data folders take no records of producers: their disks have too little room."""
        return [folder.space.refusal for folder in self._folders if folder.space.refusal is not None]

    def check_space(self) -> None:
        """Read the free bytes of data folders that refuse producers; something else may have freed
        space.
        """
        for folder in self._folders:
            if folder.space.refusal is not None:
                folder.space.refresh()

    def make_room(self) -> bool:
        """Remove the emergency files of all data folders. False: there was none. Thread: any."""
        return sum(folder.space.make_room() for folder in self._folders) > 0

    def check_locks(self) -> None:
        """Verify the locks of the data folders in jobs; the logs of a lost folder go offline.

        See `DataFolder.check_lock`.
        """
        for folder in self._folders:
            folder.check_lock(self._jobs, partial(self._lose, folder))

    def _lose(self, folder: DataFolder, error: FolderLost) -> None:
        for key in folder.partitions:
            if key in self._logs:
                self._logs[key].take_offline(error)

    def make_mover(self, timers: Timers, host: MoveHost, bytes_per_s: Callable[[], int]) -> LogMover:
        """Return what moves logs between the data folders; see `LogMover`."""
        assert self._jobs is not None
        runtime = Runtime(self._jobs, timers, self._clock, self._rng)
        self.mover = LogMover(self._logs, self._folders, self._reopen, runtime, host, bytes_per_s)
        return self.mover

    def _reopen(self, key: TopicPartition, folder: DataFolder, recovered: RecoveredLog, old: Log) -> Log:
        self._recovered[key] = recovered
        self._producer_limit.unwatch(old.producers)
        assert old.topic_id is not None, "it was opened with one"
        log = self._logs[key] = self._open(folder, key, folder.partitions[key], old.topic_id, old.config)
        log.tiered_end = old.tiered_end
        log.flusher.folder_changed(parent=True)
        return log

    def list_log_dirs(
        self, wanted: Container[TopicPartition] | None = None
    ) -> tuple[list[LogDirListing], list[LogDirDescription]]:
        """Return listings of the serving data folders, to run in jobs, and those that are offline.

        Args: wanted: the partitions to list; None: all.
        """
        offline = [LogDirDescription(place, None, error, None, None, {}) for place, error in self._folders.offline]
        futures = self.mover.future_sizes if self.mover is not None else lambda folder: {}
        return [LogDirListing(folder, self._logs, wanted, futures(folder)) for folder in self._folders], offline

    def expire_producers(self) -> SlicedWork[int]:
        """Remove expired producers from all open logs, one step per log. Returns: how many."""
        count = 0
        for log in list(self._logs.values()):
            count += (
                0
                if log.health.is_suspended
                else log.producers.expire(self._clock.wall_ms(), self.producer_expiration_ms)
            )
            yield None
        return count

    def copy_to(self, target: Storage) -> SlicedWork[None]:
        """Return the work that copies all logs, as they are now, into `target`, an empty storage.

        The copy is as after a clean stop. The work yields callables for jobs; see `log_copier`.
        Durability: durable at its end. Raises: StorageFailed, at once or in the work: a data folder
            or log is offline, or a file can't be read or written.
        """
        if self.offline:
            raise StorageFailed(
                f"data folder {self.offline[0].place} is offline: its partitions would be missing in a copy"
            )
        copier = LogCopier(target, self._logs, self._unrecovered)
        copier.plan(self._folders)
        return self._copy(copier)

    def _copy(self, copier: LogCopier) -> SlicedWork[None]:
        yield from copier.copy()
        properties = next(iter(self._folders)).properties
        yield partial(copier.finish, properties, self._clock.wall_ms(), self.broker_epoch)

    def appended_total(self) -> int:
        """Return a number that differs once a record was appended to an open log."""
        return sum(log.end_offset for log in self._logs.values())

    def write_registration_mark(self, mark: RegistrationMark) -> None:
        """Write the mark of a registration into all data folders. Blocks. Thread: any.

        Durability: on return; a crash leaves it in some of them.
        Raises: StorageFailed: one has it not; the others have.
        """
        failed: StorageFailed | None = None
        for folder in self._folders:
            try:
                folder.write_registration_mark(mark)
            except StorageFailed as error:
                failed = error
        if failed is not None:
            raise failed

    # --- the end

    def abandon(self) -> None:
        """Unlock the folders and leave them as they are, as a killed process does. `close` then
        does nothing, and this after it.
        """
        closed, self._closed = self._closed, True
        for folder in () if closed else self._folders:
            folder.close(clean=False, broker_epoch=-1)

    def close(self) -> None:
        """Flush and close all logs, write the checkpoints, mark the stop as clean, unlock. Blocks.

        Idempotent. A folder is marked clean only if all its logs could be closed and none waits for
        recovery. No flush may be running.

        Durability: without the marker the next start checks what is beyond the recovery points.
        Raises: StorageFailed, after the rest was done.
        """
        if self._closed:
            return
        self._closed = True
        failed: StorageFailed | None = None
        for folder in self._folders:
            folder.check_lock(None, partial(self._lose, folder))
            try:
                clean = self._close_logs(folder)
                for key in folder.partitions:
                    self.checkpoints.note_offsets(key)
                for name in (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS):
                    folder.save_now(name)
            except StorageFailed as error:
                events.LOG_NOT_CLOSED.log(logger, "%s: %s", location=folder.storage.location, error=error)
                failed, clean = failed or error, False
            # after a start that failed: the epoch that was found
            folder.close(clean=clean, broker_epoch=max(folder.stopped_epoch, self.broker_epoch))
        if failed is not None:
            raise failed

    def _close_logs(self, folder: DataFolder) -> bool:
        clean = True
        for key in folder.partitions:
            clean &= key not in self._unrecovered
            log = self._logs.get(key)
            if log is None:
                continue
            try:
                log.close()
            except StorageFailed as error:
                events.LOG_NOT_CLOSED.log(logger, "%s: %s", location=folder.storage.location, error=error)
            clean &= log.health.failure is None
        return clean


__all__ = ["LogDirDescription", "LogManager", "OfflineFolder", "PartitionFolder"]
