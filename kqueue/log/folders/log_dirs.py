"""Descriptions of the data folders, for DescribeLogDirs."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import NamedTuple

from kqueue.base.errors import StorageFailed
from kqueue.log.folders.data_folder import DataFolder
from kqueue.log.folders.partition_folders import TopicPartition
from kqueue.log.formats.filenames import LOG
from kqueue.log.log import Log
from kqueue.storage import Storage


class FutureSize(NamedTuple):
    """A copy that is to replace its log: bytes of batches, and offsets that it lacks."""

    size: int
    offset_lag: int


class LogDirDescription(NamedTuple):
    """A data folder. Kafka's LogDirDescription.

    error: None: it serves. directory_id: None: unreadable. total_bytes, usable_bytes: of the
    volume; None: unknown. partitions: bytes of batches by partition. futures: copies of partitions
    that are being moved here. reserve_bytes: that producers leave free; None: no reserve.
    """

    place: str
    directory_id: str | None
    error: StorageFailed | None
    total_bytes: int | None
    usable_bytes: int | None
    partitions: dict[TopicPartition, int]
    futures: Mapping[TopicPartition, FutureSize] = {}
    reserve_bytes: int | None = None


class LogDirListing:
    """A data folder at one moment, whose closed partitions are still to be listed.

    Thread: created on the owner thread; `run` may run in any.
    """

    def __init__(
        self,
        folder: DataFolder,
        logs: Mapping[TopicPartition, Log],
        wanted: Container[TopicPartition] | None = None,
        futures: Mapping[TopicPartition, FutureSize] | None = None,
    ) -> None:
        """Args: logs: the open ones. wanted: the partitions to list; None: all."""
        self.place = folder.storage.location
        self._storage = folder.storage
        self._space = folder.space
        self._directory_id = folder.properties["directory.id"]
        self._sizes = {key: 0 for key in folder.pending_creations() if wanted is None or key in wanted}
        self._futures = {key: size for key, size in (futures or {}).items() if wanted is None or key in wanted}
        self._closed: dict[TopicPartition, str] = {}
        for key, partition_folder in folder.partitions.items():
            if wanted is not None and key not in wanted:
                continue
            log = logs.get(key)
            if log is None:
                self._closed[key] = partition_folder.path
            else:
                self._sizes[key] = log.segments.size

    def run(self) -> LogDirDescription:
        """List the folder. An unlistable closed partition leaves only the error. Blocks."""
        storage = self._storage
        try:
            closed = {key: _batch_bytes(storage, path) for key, path in self._closed.items()}
        except StorageFailed as error:
            return LogDirDescription(self.place, self._directory_id, error, None, None, {})
        return LogDirDescription(
            self.place,
            self._directory_id,
            None,
            storage.total_bytes(),
            storage.free_bytes(),
            self._sizes | closed,
            self._futures,
            self._space.reserve_bytes(),
        )


def _batch_bytes(storage: Storage, path: str) -> int:
    try:
        return sum(entry.size for entry in storage.list(path) if entry.name.endswith(LOG))
    except FileNotFoundError:
        return 0
