"""Creates and deletes the partition folders of one data folder, in jobs.

Deletions come first: a folder is created only after one of the same name is gone.
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from kqueue.base import events
from kqueue.base.errors import StorageFailed
from kqueue.base.jobs import Jobs
from kqueue.base.names import partition_folder
from kqueue.log.deletion import remove_folder
from kqueue.log.folders.task_queue import KeyedTaskQueue
from kqueue.log.formats import checkpoints
from kqueue.log.formats.checkpoints import META_PROPERTIES
from kqueue.log.formats.filenames import PARTITION_METADATA
from kqueue.log.log import Log
from kqueue.storage import Storage

logger = logging.getLogger("kqueue.log")
TopicPartition = tuple[str, int]


class PartitionFolder(NamedTuple):
    """A partition's folder. path: below the data folder. topic_id: 16 bytes; None: unknown."""

    path: str
    topic_id: bytes | None


class PendingRemoval(NamedTuple):
    """A folder to rename to `new_path` and then delete. log: its open log; None: not open."""

    folder: PartitionFolder
    new_path: str
    log: Log | None


class PartitionFolderRemover(KeyedTaskQueue[TopicPartition, PendingRemoval]):
    """Renames folders for deletion, then deletes them.

    Args:
        check: raises where the data folder may not be written any more. Thread: any.
        failed: `failed(topic_partition, removal, error)`: the folder still has its name.
        idle: called when no work is left.
    Attributes: has_failed: a folder may be left.
    """

    name = "delete partition folders"

    def __init__(
        self,
        storage: Storage,
        jobs: Jobs | None,
        check: Callable[[], None],
        failed: Callable[[TopicPartition, PendingRemoval, BaseException], None],
        idle: Callable[[], None],
    ) -> None:
        super().__init__(jobs, storage.location)
        self.has_failed = False
        self._storage = storage
        self._check = check
        self._failed = failed
        self._renamed: deque[str] = deque()
        self._idle = idle

    def has_work(self) -> bool:
        return super().has_work() or bool(self._renamed)

    def prepare(self, key: TopicPartition, piece: PendingRemoval) -> None:
        if piece.log is not None:
            piece.log.abandon()

    def do(self, key: TopicPartition, piece: PendingRemoval) -> None:
        self._check()
        with contextlib.suppress(FileNotFoundError):  # somebody removed it
            self._storage.rename(piece.folder.path, piece.new_path)
            self._renamed.append(piece.new_path)

    def finish_slice(self) -> None:
        """Delete the renamed folders, once the new names are durable.

        Raises: the first failure, after the rest was done.
        """
        self._check()
        # Else a crash could bring the old name back to a folder of which files are deleted already,
        # and the next start would serve the rest as a log.
        self._storage.sync_folder("")
        failed: Exception | None = None
        while self._renamed:
            path = self._renamed.popleft()
            try:
                remove_folder(self._storage, path)
            except Exception as error:  # a storage may be a plugin's
                failed = failed or StorageFailed(f"{path} could not be removed, the next start tries again: {error}")
        self._storage.sync_folder("")
        if failed is not None:
            raise failed

    def applied(self, key: TopicPartition, piece: PendingRemoval, error: BaseException | None) -> None:
        if error is not None:
            self.has_failed = True
            events.FILES_NOT_RENAMED.log(
                logger,
                "%s: %s could not be renamed for deletion: %s",
                location=self._storage.location,
                path=piece.folder.path,
                error=error,
            )
            self._failed(key, piece, error)

    def slice_ended(self, error: BaseException | None) -> None:
        if error is not None:
            events.FILES_NOT_REMOVED.log(logger, "%s: %s", location=self._storage.location, error=error)
            self._renamed.clear()
            self.has_failed = True
        if self.is_idle:
            self._idle()


class PartitionFolderCreator(KeyedTaskQueue[TopicPartition, bytes]):
    """Creates the folders of new partitions. After a failure the rest is left to each first use.

    Args:
        check: raises where the data folder may not be written any more. Thread: any.
        made: `made(topic_partition, topic_id)`: the folder exists.
        failed: `failed(error)`: creation stops for now.
        before: `before(begin)` calls `begin` when folders may be created.
    """

    name = "make partition folders"

    def __init__(
        self,
        storage: Storage,
        jobs: Jobs | None,
        remover: PartitionFolderRemover,
        *,
        check: Callable[[], None],
        before: Callable[[Callable[[], None]], None],
        made: Callable[[TopicPartition, bytes], object],
        failed: Callable[[BaseException], None],
    ) -> None:
        super().__init__(jobs, storage.location)
        self._storage = storage
        self._check = check
        self._remover = remover
        self._before = before
        self._made = made
        self._failed = failed
        self._error: BaseException | None = None
        self._failures = 0

    def may_start(self) -> bool:
        return self._remover.is_idle

    def before_slice(self, begin: Callable[[], None]) -> None:
        self._before(begin)

    def do(self, key: TopicPartition, piece: bytes) -> None:
        self._check()
        make_partition_folder(self._storage, partition_folder(*key), piece)

    def applied(self, key: TopicPartition, piece: bytes, error: BaseException | None) -> None:
        if error is None:
            self._made(key, piece)
            return
        self._failures += 1
        self.give_up(error)

    def give_up(self, error: BaseException) -> None:
        """Leave all waiting creations to the first use of each partition, because of `error`."""
        self._error = error
        self._failures += self.cancel_waiting()

    def slice_ended(self, error: BaseException | None) -> None:
        if self._error is None:
            return
        events.PARTITION_FOLDERS_NOT_MADE.log(
            logger,
            "%s: %d partition folders could not be made, the first use of each tries again: %s",
            location=self._storage.location,
            folders=self._failures,
            error=self._error,
        )
        self._failed(self._error)
        self._error, self._failures = None, 0


def make_partition_folder(storage: Storage, path: str, topic_id: bytes) -> None:
    """Create a partition's folder, with its topic id. Thread: any.

    Durability: durable with the first flush of the partition's log.
    Raises: StorageFailed: also where the data folder itself is gone. FileNotFoundError.
    """
    if not storage.exists(META_PROPERTIES):
        # else a folder that was unmounted would be made again on the disk below
        raise StorageFailed(f"{storage.location}: {META_PROPERTIES} was there and is gone")
    storage.make_folder(path)
    try:
        write_topic_id(storage, path, topic_id)
    except StorageFailed:
        with contextlib.suppress(StorageFailed, FileNotFoundError):
            remove_folder(storage, path)
        raise


def write_topic_id(storage: Storage, path: str, topic_id: bytes) -> None:
    """Write a topic id into a folder. Raises and durability: see `make_partition_folder`."""
    file = storage.open(f"{path}/{PARTITION_METADATA}", create=True)
    if file.size:
        file.truncate(0)
    file.append(checkpoints.encode_partition_metadata(topic_id))
    file.close()
