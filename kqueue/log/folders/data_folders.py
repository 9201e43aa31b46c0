"""All data folders of a broker: those that serve, and those that are offline.

A folder that can't be opened is offline until the next start; the others serve. One that fails
while it serves is not taken offline as a whole: each log in it fails with its own first failed
write or fsync, because only that tells which bytes are lost. New partitions go elsewhere.

The partitions of an offline folder are unknown. So a partition in no folder is not created while
one is offline, unless it is new to the broker: an empty log in the place of a full one would assign
its offsets a second time.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.errors import StorageFailed, TooManyOpenFiles
from kqueue.base.jobs import Jobs
from kqueue.base.names import random_uuid
from kqueue.log.folders.data_folder import DataFolder, read_properties
from kqueue.log.folders.moved_partitions import is_covered
from kqueue.log.folders.partition_folders import PartitionFolder, TopicPartition
from kqueue.log.formats.filenames import LOG
from kqueue.log.formats.moved_partitions import MovedPartition
from kqueue.storage import Storage
from kqueue.storage.sealing import Sealer, sealer_of

logger = logging.getLogger("kqueue.log")
PREFERRED_MAX = 10_000


class OfflineFolder(NamedTuple):
    """A data folder that can't be used, and why."""

    place: str
    error: StorageFailed


class DataFolders:
    """Opens and locks the data folders; at least one can be used.

    Attributes: offline: those that can't be used.
    Raises: FolderInUse: another broker has one of them. StorageFailed: none can be used, or one is
        a copy of another one.
        TooManyOpenFiles.
    """

    def __init__(
        self,
        storages: Sequence[Storage],
        offline: Sequence[OfflineFolder],
        *,
        node_id: int,
        cluster_id: str | None,
        clock: Clock,
        rng: random.Random,
        jobs: Jobs | None,
        reserve_bytes: int = 0,
    ) -> None:
        self._folders: list[DataFolder] = []
        self.offline = list(offline)
        self._blocked: dict[TopicPartition, StorageFailed] = {}
        self._unmade: set[TopicPartition] = set()
        cluster_id = cluster_id or next((id for id in map(cluster_id_of, storages) if id), None)
        try:
            for storage in storages:
                try:
                    folder = DataFolder(
                        storage,
                        node_id=node_id,
                        cluster_id=cluster_id,
                        clock=clock,
                        rng=rng,
                        jobs=jobs,
                        reserve_bytes=reserve_bytes,
                    )
                except TooManyOpenFiles:
                    raise  # the folder may be in order: rather no start than one without it
                except (StorageFailed, FileNotFoundError) as error:
                    self.offline.append(OfflineFolder(storage.location, _as_failure(storage, error)))
                    continue
                self._folders.append(folder)
                cluster_id = folder.cluster_id
            self._check_ids()
            self._report_offline()
        except BaseException:
            for folder in self._folders:
                folder.close(clean=folder.clean, broker_epoch=folder.stopped_epoch)
            raise
        self.preferred: dict[TopicPartition, DataFolder] = {}
        for folder in self._folders:
            for moved in list(folder.moved.entries.values()):
                self._finish_move(folder, moved, rng)
        self._settle_doubles()

    @property
    def sealer(self) -> Sealer | None:
        """Encrypts secrets with the key of the folders; None: they have none."""
        return next((one for one in (sealer_of(folder.storage) for folder in self._folders) if one), None)

    def __iter__(self) -> Iterator[DataFolder]:
        return iter(self._folders)

    def __len__(self) -> int:
        return len(self._folders)

    def _check_ids(self) -> None:
        """Check that no folder is a copy of another one. Raises: StorageFailed."""
        places: dict[str, str] = {}
        for folder in self._folders:
            id, place = folder.properties["directory.id"], folder.storage.location
            if id in places:
                raise StorageFailed(
                    f"{places[id]} and {place} have the same directory.id {id}: one is a copy of the other one. Put "
                    "back the folder that it replaced, or take it out of log.dirs"
                )
            places[id] = place

    def _report_offline(self) -> None:
        if not self._folders:
            if len(self.offline) == 1:
                raise self.offline[0].error
            raise StorageFailed(
                f"no data folder can be used: {'; '.join(str(folder.error) for folder in self.offline)}"
            )
        for place, error in self.offline:
            events.DATA_FOLDER_OFFLINE.log(
                logger, "data folder %s is offline, its partitions are not served: %s", location=place, error=error
            )

    def _settle_doubles(self) -> None:
        """Resolve partitions found in several folders. A copy without batches is left by a failed
        creation and ignored; several copies with batches block the partition.
        """
        homes: dict[TopicPartition, list[DataFolder]] = {}
        for folder in self._folders:
            for key in folder.partitions:
                homes.setdefault(key, []).append(folder)
        for key, folders in homes.items():
            if len(folders) == 1:
                continue
            full = [folder for folder in folders if has_batches(folder.storage, folder.partitions[key])]
            places = " and in ".join(folder.storage.location for folder in full or folders)
            if len(full) > 1:
                self._blocked[key] = StorageFailed(f"partition {key[0]}-{key[1]} is in {places}: take one of them away")
                events.PARTITION_IN_SEVERAL_FOLDERS.log(logger, "%s", error=self._blocked[key])
            for folder in folders:
                if folder is not (full or folders)[0]:
                    del folder.partitions[key]

    def _finish_move(self, target: DataFolder, moved: MovedPartition, rng: random.Random) -> None:
        """Finish a move that was committed before the last stop; see `log_mover`."""
        key = moved.key
        sources = [
            folder
            for folder in self._folders
            if folder is not target and key in folder.partitions and folder.partitions[key].topic_id == moved.topic_id
        ]
        try:
            is_whole = all(is_covered(source.storage, source.partitions[key].path, moved) for source in sources)
            if moved.future in target.moved.futures.get(key, ()):
                if not is_whole or key in target.partitions or (self.offline and not sources):
                    return  # given up, or unknown: the old log stays
                target.adopt(key, moved.future, moved.topic_id)
                target.moved.futures[key].remove(moved.future)
            elif key not in target.partitions or target.partitions[key].topic_id != moved.topic_id:
                return
        except (StorageFailed, FileNotFoundError) as error:
            events.MOVE_FAILED.log(
                logger,
                "%s-%d: its move to %s can't be finished: %s",
                topic=key[0],
                partition=key[1],
                target=target.storage.location,
                error=error,
            )
            return
        for folder in sources if is_whole else [target] if sources else []:
            events.MOVE_SOURCE_REMOVED.log(
                logger,
                "%s: removing %s, which was moved",
                location=folder.storage.location,
                path=folder.partitions[key].path,
            )
            folder.remove_soon(key, random_uuid(rng).hex(), None)

    # --- partitions

    def at(self, place: str) -> DataFolder | None:
        """Return the serving folder with this location."""
        return next((folder for folder in self._folders if folder.storage.location == place), None)

    def prefer(self, key: TopicPartition, folder: DataFolder) -> None:
        """Create this partition there, when it is created. The oldest wishes are forgotten."""
        self.preferred.pop(key, None)
        self.preferred[key] = folder
        if len(self.preferred) > PREFERRED_MAX:
            del self.preferred[next(iter(self.preferred))]

    def of(self, key: TopicPartition) -> DataFolder | None:
        """Return the folder that holds the partition; None: no serving one does."""
        return next((folder for folder in self._folders if key in folder.partitions), None)

    def has_partition(self, key: TopicPartition) -> bool:
        """Whether a serving folder holds the partition."""
        return self.of(key) is not None

    def check(self, key: TopicPartition) -> None:
        """Refuse a partition that may be elsewhere.

        Raises: StorageFailed: it may be on an offline folder, or it exists twice.
        """
        if key in self._blocked:
            raise self._blocked[key]
        if self.offline and not self.has_partition(key) and key not in self._unmade:
            places = ", ".join(folder.place for folder in self.offline)
            raise StorageFailed(
                f"partition {key[0]}-{key[1]} is in no data folder that serves; it may be on {places}, which is offline"
            )

    def is_new(self, key: TopicPartition) -> None:
        """Note that the broker never had this partition, so no offline folder holds it."""
        if self.offline:
            self._unmade.add(key)

    def settle(self, key: TopicPartition) -> None:
        """Finish the partition's work in jobs; see `DataFolder.settle`."""
        for folder in self._folders:
            folder.settle(key)

    def create_later(self, key: TopicPartition, topic_id: bytes, is_impaired: Callable[[DataFolder], bool]) -> None:
        """Create the partition's folder in a job; a failure is logged and left to its first use."""
        # beside a deleted partition of the name, which has to go first: it must never be in two
        # data folders
        removing = next((folder for folder in self._folders if folder.is_removing(key)), None)
        wanted = self.preferred.pop(key, None)
        folder = removing or wanted or min(self._folders, key=lambda folder: (is_impaired(folder), folder.count))
        folder.create_later(key, topic_id)

    def make(self, key: TopicPartition, topic_id: bytes, is_impaired: Callable[[DataFolder], bool]) -> DataFolder:
        """Create a partition's folder in the data folder with the fewest partitions. Blocks.

        Args: is_impaired: folders where something has failed are used last. Durability: as
        `DataFolder.make`. Raises: StorageFailed: every data folder failed. TooManyOpenFiles: no
        folder would do better.
        """
        failed: StorageFailed | None = None
        self.settle(key)
        wanted = self.preferred.pop(key, None)
        for folder in sorted(
            self._folders, key=lambda folder: (folder is not wanted, is_impaired(folder), folder.count)
        ):
            try:
                folder.make(key, topic_id)
            except TooManyOpenFiles:
                raise
            except (StorageFailed, FileNotFoundError) as error:
                failed = folder.error = _as_failure(folder.storage, error)
                events.DATA_FOLDER_NOT_USED.log(
                    logger, "%s takes no new partition: %s", location=folder.storage.location, error=error
                )
                continue
            self._unmade.discard(key)
            return folder
        assert failed is not None
        raise failed


def cluster_id_of(storage: Storage) -> str | None:
    """Return the cluster id in a data folder that may be of another broker; None: it has none."""
    try:
        return read_properties(storage).get("cluster.id")
    except StorageFailed:
        return None  # reported when the folder is opened


def _as_failure(storage: Storage, error: Exception) -> StorageFailed:
    return error if isinstance(error, StorageFailed) else StorageFailed(f"{storage.location}: {error}")


def has_batches(storage: Storage, folder: PartitionFolder) -> bool:
    """Whether a partition's folder holds a batch. Lists it. Raises: StorageFailed,
    FileNotFoundError.
    """
    return any(entry.name.endswith(LOG) and entry.size for entry in storage.list(folder.path))
