"""One data folder (an entry of `log.dirs`): lock, identity, checkpoints, partition folders."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.errors import CorruptIndex, FolderLost, StorageFailed, TooManyOpenFiles
from kqueue.base.jobs import IoJob, Jobs
from kqueue.base.names import parse_partition_folder, parse_uuid, partition_folder, random_uuid, uuid_text
from kqueue.log.deletion import remove_folder
from kqueue.log.folders.checkpoint_file import CheckpointFile, Done, all_of, run_or_submit
from kqueue.log.folders.disk_space import DiskSpace
from kqueue.log.folders.moved_partitions import MovedPartitions
from kqueue.log.folders.partition_folders import (
    PartitionFolder,
    PartitionFolderCreator,
    PartitionFolderRemover,
    PendingRemoval,
    TopicPartition,
    make_partition_folder,
    write_topic_id,
)
from kqueue.log.folders.registration_mark import (
    RegistrationMark,
    read_registration_mark,
    write_registration_mark,
)
from kqueue.log.formats import checkpoints
from kqueue.log.formats.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOCK,
    LOG_STARTS,
    META_PROPERTIES,
    OFFSET_CHECKPOINTS,
    RECOVERY_POINTS,
    Offsets,
)
from kqueue.log.formats.filenames import EPOCHS, FOLDER_DELETED, PARTITION_METADATA
from kqueue.log.formats.leader_epochs import UNKNOWN, decode_epochs
from kqueue.log.log import Log
from kqueue.storage import Storage

logger = logging.getLogger("kqueue.log")
FLIPPED_BITS_MAX = 12


def take_stop_mark(storage: Storage) -> int | None:
    """Remove the mark, durably, before anything is appended. Return its broker epoch; -1: it names
    none; None: there is no mark.
    """
    if not storage.exists(CLEAN_SHUTDOWN):
        return None
    epoch = checkpoints.decode_clean_shutdown(checkpoints.read_small_file(storage, CLEAN_SHUTDOWN))
    storage.remove(CLEAN_SHUTDOWN)
    storage.sync_folder("")
    return epoch


def write_stop_mark(storage: Storage, broker_epoch: int) -> None:
    """Write the mark. Durability: whole or missing. Raises StorageFailed."""
    storage.write_atomic(CLEAN_SHUTDOWN, checkpoints.encode_clean_shutdown(broker_epoch))


class DataFolder:
    """An open, locked data folder.

    Attributes:
        clean: the last stop was clean, or the folder held no partition.
        stopped_epoch: broker epoch of the last stop; -1: it was not clean, or of a single broker.
        is_new: nobody had used the folder.
        registration_mark: of its last registrations with a cluster, as the start found it.
        partitions: their folders, by topic and index.
        recovery_points, high_watermarks, log_starts, cleaner_offsets: the checkpoints' content;
        `save`
            writes them.
        space: the room on its disk.
        error: the last failure at the top of the folder; None since a checkpoint was written.
        lost: why the folder belongs to another process now (`check_lock`); nothing is written to it
            until the next start. None: it is ours.
        new: partitions that were created and not flushed since.
    Raises: FolderInUse. StorageFailed: another node's folder, or a file can't be read or written.
    Thread: owner thread.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        node_id: int,
        cluster_id: str | None,
        clock: Clock,
        rng: random.Random,
        jobs: Jobs | None = None,
        reserve_bytes: int = 0,
    ) -> None:
        self.storage = storage
        self.clock = clock
        self.space = DiskSpace(storage, reserve_bytes, clock)
        self.error: StorageFailed | None = None
        self._lost: FolderLost | None = None
        self._checking = False
        self._lock_error: str | None = None
        self._lock = storage.lock(LOCK)
        try:
            self.space.begin()
            self.properties = self._identify(node_id, cluster_id, rng)
            self.recovery_points = self._read_offsets(RECOVERY_POINTS)
            self.high_watermarks = self._read_offsets(HIGH_WATERMARKS)
            self.log_starts = self._read_offsets(LOG_STARTS)
            self.cleaner_offsets = self._read_offsets(CLEANER_OFFSETS)
            self._files = {
                name: CheckpointFile(storage, name, jobs, checkpoints.encode_offsets, self.space.make_room)
                for name in OFFSET_CHECKPOINTS
            }
            self.partitions: dict[TopicPartition, PartitionFolder] = {}
            self.moved = MovedPartitions(storage)
            self.new: set[TopicPartition] = set()
            self._stale: set[TopicPartition] = set()
            self.on_removed: Callable[[], None] | None = None
            self._remover = PartitionFolderRemover(storage, jobs, self._check_ours, self._not_removed, self._removed)
            self._maker = PartitionFolderCreator(
                storage,
                jobs,
                self._remover,
                check=self._check_ours,
                before=self._when_checkpoints_are_clean,
                made=self._made,
                failed=self._not_made,
            )
            self._list()
            # Checkpoints of folders that are gone: a new partition of the name must not take them
            # for its own. A move that is still to be finished has no folder of the name yet, and
            # keeps them.
            for key in (
                {key for name in OFFSET_CHECKPOINTS for key in self._table(name)}
                - self.partitions.keys()
                - self.moved.entries.keys()
            ):
                self._forget(key)
            self.registration_mark = read_registration_mark(storage)
            # Last: where the start fails before, the mark stays, and the next start need not
            # recover.
            mark = take_stop_mark(storage)
            self.clean = mark is not None or not self.partitions
            self.stopped_epoch = -1 if mark is None else mark
        except BaseException:
            self._lock.release()
            raise

    @property
    def cluster_id(self) -> str:
        """The cluster id in meta.properties."""
        return self.properties["cluster.id"]

    def _identify(self, node_id: int, cluster_id: str | None, rng: random.Random) -> dict[str, str]:
        """Read meta.properties, or create it. Folders of older Kafkas (version 0) are upgraded.

        Durability: whole or missing. Raises: StorageFailed: it names another node or cluster.
        """
        place = f"{self.storage.location}: {META_PROPERTIES}"
        values = read_properties(self.storage)
        self.is_new = not values
        holder = values.get("node.id", values.get("broker.id"))
        if holder is not None and holder != str(node_id):
            raise StorageFailed(f"{place} says that this is the folder of node {holder}; node.id is {node_id}")
        if cluster_id is not None and values.get("cluster.id", cluster_id) != cluster_id:
            raise StorageFailed(
                f"{place} says that this folder belongs to cluster {values['cluster.id']}, the others to {cluster_id}"
            )
        wanted = {
            "node.id": str(node_id),
            "directory.id": _uuid_of(values.get("directory.id")) or uuid_text(random_uuid(rng)),
            "version": "1",
            "cluster.id": values.get("cluster.id") or cluster_id or uuid_text(random_uuid(rng)),
        }
        if values != wanted:
            self.storage.write_atomic(META_PROPERTIES, checkpoints.encode_properties(wanted, self.clock.wall_ms()))
        return wanted

    def _read_offsets(self, name: str) -> Offsets:
        if not self.storage.exists(name):
            return {}
        try:
            data = checkpoints.read_small_file(self.storage, name)
            return checkpoints.decode_offsets(data) if data else {}  # Kafka makes them empty, and fills them later
        except CorruptIndex as error:
            # without recovery points everything is checked, and without the others logs tell what
            # they hold
            events.CHECKPOINT_DAMAGED.log(
                logger, "%s: %s: %s; going on without it", location=self.storage.location, file=name, error=error
            )
            return {}

    def _list(self) -> None:
        removed = False
        for entry in self.storage.list(""):
            if not entry.is_folder:
                removed |= self._skip(entry.name)
                continue
            if entry.name.endswith(FOLDER_DELETED):
                events.FILES_REMOVAL_RESUMED.log(
                    logger, "%s: completing the deletion of %s", location=self.storage.location, path=entry.name
                )
                remove_folder(self.storage, entry.name)
                removed = True
                continue
            key = parse_partition_folder(entry.name)
            self.moved.found_folder(entry.name)
            if key is not None:
                self.partitions[key] = PartitionFolder(entry.name, self._topic_id(entry.name))
        if removed:
            self.storage.sync_folder("")

    def _skip(self, name: str) -> bool:
        """Handle a non-folder with a partition's name. True: it was marked for deletion, and was
        removed.

        Links are never followed.
        """
        if name.endswith(FOLDER_DELETED):
            self.storage.remove(name)
            return True
        if parse_partition_folder(name) is not None:
            place = self.storage.location
            events.DATA_FOLDER_UNEXPECTED_FILE.log(
                logger,
                "%s: %s: expected a folder, found a symbolic link or a file; its partition is not served",
                location=place,
                path=name,
            )
        return False

    def _topic_id(self, folder: str) -> bytes | None:
        try:
            return checkpoints.decode_partition_metadata(
                checkpoints.read_small_file(self.storage, f"{folder}/{PARTITION_METADATA}")
            )
        except FileNotFoundError:
            return None
        except CorruptIndex as error:
            # harmless: the broker knows the topic's id, and writes the file again when it opens the
            # partition
            events.PARTITION_METADATA_DAMAGED.log(
                logger,
                "%s: %s: %s; it will be written again",
                location=self.storage.location,
                folder=folder,
                error=error,
            )
            return None

    # --- the lock

    @property
    def lost(self) -> FolderLost | None:
        """The error since which the folder is no longer ours; None: it is."""
        return self._lost

    def check_lock(self, jobs: Jobs | None, lost: Callable[[FolderLost], None]) -> None:
        """Verify in a job that the folder is still locked; take a lost, free lock again, with an
        ERROR.

        `lost` is called on the owner thread if another process has the folder, or the path names
        another folder. Two brokers may then write to the same files, so the caller must stop all
        use.
        """
        if self._lost is not None or self._checking:
            return
        self._checking = True

        def finish(repaired: str | None, error: BaseException | None) -> None:
            self._checking = False
            self._report_lock(repaired, error)
            if isinstance(error, FolderLost):
                self._lost = self.error = error
                lost(error)

        run_or_submit(
            IoJob(f"check the lock of {self.storage.location}", self._lock.check, finish, self.storage.location), jobs
        )

    def _report_lock(self, repaired: str | None, error: BaseException | None) -> None:
        if isinstance(error, FolderLost):
            events.DATA_FOLDER_OFFLINE.log(
                logger,
                "data folder %s is offline until the next start, its partitions are not served: %s",
                location=self.storage.location,
                error=error,
            )
        elif error is not None and str(error) != self._lock_error:
            events.LOCK_UNCHECKED.log(logger, "%s: %s", location=self.storage.location, error=error)
        elif repaired is not None:
            events.LOCK_TAKEN_AGAIN.log(
                logger,
                "%s: %s. Remove a lock file only when no broker runs",
                location=self.storage.location,
                what=repaired,
            )
        self._lock_error = None if error is None else str(error)

    def _check_ours(self) -> None:
        if self._lost is not None:
            raise self._lost

    # --- partitions

    @property
    def count(self) -> int:
        """Number of partitions, those included that are being created."""
        return len(self.partitions) + len(self._maker)

    def pending_creations(self) -> list[TopicPartition]:
        """Return the partitions of `create_later` whose folders may not exist yet."""
        return [key for key in self._maker.pending() if key not in self.partitions]

    def make(self, key: TopicPartition, topic_id: bytes) -> PartitionFolder:
        """Create a partition's folder, with its topic id. Blocks.

        Durability: durable with the first flush of its log.
        Raises: StorageFailed: also where the data folder itself is gone.
        """
        self._check_ours()
        self.settle(key)
        self._forget_for_good(key)
        make_partition_folder(self.storage, partition_folder(*key), topic_id)
        return self._made(key, topic_id)

    def create_later(self, key: TopicPartition, topic_id: bytes) -> None:
        """Create the folder in a job. A failure is logged and left to the partition's first use."""
        self._maker.add(key, topic_id)

    def stop_creating(self) -> None:
        """Cancel creations that have not begun."""
        self._maker.cancel_waiting()

    def settle(self, key: TopicPartition) -> None:
        """Finish the partition's work in jobs now: it is in `found`, or `make` may be called.

        Blocks for a rename at most.
        """
        self._remover.settle(key)
        self._maker.cancel(key)

    def is_removing(self, key: TopicPartition | None = None) -> bool:
        """Whether a deleted partition may still have its old name; None: whether any deleted folder
        is left.
        """
        return (
            self._remover.is_pending(key) if key is not None else not self._remover.is_idle or self._remover.has_failed
        )

    def adopt(self, key: TopicPartition, path: str, topic_id: bytes | None) -> None:
        """Give the folder of a complete copy the partition's name. Blocks for a rename.

        Durability: a start finishes it as long as the move's entry exists. Raises: StorageFailed.
        """
        self._check_ours()
        self.settle(key)
        self.storage.rename(path, partition_folder(*key))
        self.partitions[key] = PartitionFolder(partition_folder(*key), topic_id)
        self._stale.discard(key)

    def disown(self, key: TopicPartition, path: str) -> None:
        """Undo `adopt`. Raises: StorageFailed."""
        del self.partitions[key]
        self.storage.rename(partition_folder(*key), path)

    def identify(self, key: TopicPartition, path: str, topic_id: bytes) -> PartitionFolder:
        """Write a topic id into a partition's folder. Durability: as `make`."""
        self._check_ours()
        write_topic_id(self.storage, path, topic_id)
        return self._made(key, topic_id, path)

    def _made(self, key: TopicPartition, topic_id: bytes, path: str | None = None) -> PartitionFolder:
        made = self.partitions[key] = PartitionFolder(path or partition_folder(*key), topic_id)
        self.new.add(key)
        return made

    def _not_made(self, error: BaseException) -> None:
        if isinstance(error, TooManyOpenFiles):
            return  # the disk is well
        self.error = error if isinstance(error, StorageFailed) else StorageFailed(f"{self.storage.location}: {error}")

    def remove_soon(self, key: TopicPartition, unique: str, log: Log | None) -> bool:
        """Remove a partition; its folder is renamed for deletion and deleted in jobs. False: there
        is none.

        Args: log: its open log, which is closed. unique: see `rename`.
        Durability: a crash may bring the folder back under either name, whole or in part; the next
            start deletes folders that are named for deletion.
        """
        # Its folder was not made yet.
        if self._maker.cancel(key):
            return True
        removed = self.partitions.pop(key, None)
        if removed is None:
            return False
        self.new.discard(key)
        self._forget(key)
        self._remover.add(key, PendingRemoval(removed, _renamed(key, FOLDER_DELETED, unique), log))
        return True

    def _removed(self) -> None:
        self._maker.go_on()
        if self.on_removed is not None:
            self.on_removed()

    def _not_removed(self, key: TopicPartition, removal: PendingRemoval, error: BaseException) -> None:
        # else a new partition of the name would get the old one's files
        self._maker.cancel(key)
        self.partitions.setdefault(key, removal.folder)

    def rename(self, key: TopicPartition, suffix: str, unique: str) -> str:
        """Rename a partition's folder to `<topic>-<partition>.<unique><suffix>`; return the new
        path.

        Durability: a crash may bring the old name back until the folder is synced.
        Raises: StorageFailed.
        """
        self._check_ours()
        renamed = self.partitions.pop(key)
        self.new.discard(key)
        path = _renamed(key, suffix, unique)
        self.storage.rename(renamed.path, path)
        self._forget(key)
        return path

    def _forget(self, key: TopicPartition) -> None:
        """Remove a partition from the checkpoints' content; the files on disk follow when next
        written.
        """
        for name in OFFSET_CHECKPOINTS:
            if self._table(name).pop(key, None) is not None:
                self._stale.add(key)

    def _forget_for_good(self, key: TopicPartition) -> None:
        """Write checkpoints without a deleted partition, before one of its name is created.

        Otherwise a crash would make the new one look as if it had lost the old one's flushed
        records.
        """
        if key in self._stale:
            for name in OFFSET_CHECKPOINTS:
                self.save_now(name)
            self._stale.clear()

    def _when_checkpoints_are_clean(self, begin: Callable[[], None]) -> None:
        """Run `_forget_for_good` for all deleted partitions in jobs; then call `begin`, after
        errors too.
        """
        if not self._stale:
            begin()
            return
        stale = set(self._stale)

        def done(error: BaseException | None) -> None:
            if error is None:
                self._stale -= stale
            else:
                self._maker.give_up(error)
            begin()

        finish = all_of(len(OFFSET_CHECKPOINTS), done)
        for name in OFFSET_CHECKPOINTS:
            self.save(name, finish)

    def latest_epoch(self, folder: PartitionFolder) -> int:
        """Return the newest leader epoch in a partition's checkpoint; -1: none."""
        try:
            return decode_epochs(checkpoints.read_small_file(self.storage, f"{folder.path}/{EPOCHS}")).latest
        except (FileNotFoundError, CorruptIndex):
            return UNKNOWN

    # --- checkpoints

    def _table(self, name: str) -> Offsets:
        tables = (self.recovery_points, self.high_watermarks, self.log_starts, self.cleaner_offsets)
        return dict(zip(OFFSET_CHECKPOINTS, tables, strict=True))[name]

    def save(self, name: str, done: Done) -> None:
        """Write a checkpoint in a job if its content changed; then call `done`. See
        `CheckpointFile.save`.
        """
        if self._lost is not None:
            done(self._lost)
        else:
            self._files[name].save(lambda: dict(self._table(name)), done)

    def save_now(self, name: str) -> None:
        """Write a checkpoint if its content changed. Blocks. Raises: StorageFailed."""
        self._check_ours()
        self._files[name].save_now(dict(self._table(name)))

    def write_registration_mark(self, mark: RegistrationMark) -> None:
        """Write the mark of a registration. Blocks. Thread: any. Raises: StorageFailed."""
        self._check_ours()
        write_registration_mark(self.storage, mark, self.space.make_room)

    def close(self, *, clean: bool, broker_epoch: int) -> None:
        """Unlock the folder; with `clean`, write the clean-stop marker first.

        Args: clean: all logs were flushed and closed, or not touched since the last clean stop.
        Raises: StorageFailed.
        """
        for file in self._files.values():
            file.close()
        try:
            if clean and self._lost is None:
                write_stop_mark(self.storage, broker_epoch)
        finally:
            self._lock.release()


def read_properties(storage: Storage) -> dict[str, str]:
    """Return the content of meta.properties; empty: there is none. Raises: StorageFailed:
    unreadable.
    """
    if not storage.exists(META_PROPERTIES):
        return {}
    try:
        return checkpoints.decode_properties(checkpoints.read_small_file(storage, META_PROPERTIES))
    except CorruptIndex as error:
        raise StorageFailed(f"{storage.location}: {META_PROPERTIES}: {error}") from error


def is_meant(named_id: bytes | None, topic_id: bytes) -> bool:
    """Whether a partition's folder belongs to this topic: it names none, or an id with few flipped
    bits.

    Two random ids differ in some sixty bits.
    """
    return named_id is None or (int.from_bytes(named_id) ^ int.from_bytes(topic_id)).bit_count() <= FLIPPED_BITS_MAX


def _renamed(key: TopicPartition, suffix: str, unique: str) -> str:
    tail = f"-{key[1]}.{unique}{suffix}"
    return key[0][: 255 - len(tail)] + tail  # the longest name that file systems take


def _uuid_of(text: str | None) -> str | None:
    try:
        return text if text and parse_uuid(text) else None
    except ValueError:
        return None
