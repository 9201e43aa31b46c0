"""What may be told of the data folders."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import NamedTuple

from kqueue.base.errors import StorageFailed
from kqueue.log.folders.data_folder import DataFolder
from kqueue.log.folders.partition_folders import TopicPartition
from kqueue.log.formats.filenames import LOG
from kqueue.log.log import Log
from kqueue.storage import Storage


class LogDirDescription(NamedTuple):
    """What may be told of a data folder; `error` None: it serves.

    `directory_id` None: it could not be read. `total_bytes`, `usable_bytes`: of the volume, None:
    not known. `partitions`: bytes of batches in each.
    """

    place: str
    directory_id: str | None
    error: StorageFailed | None
    total_bytes: int | None
    usable_bytes: int | None
    partitions: dict[TopicPartition, int]


class LogDirListing:
    """A data folder as it was at one moment, whose closed partitions are not listed yet. `place`:
    where the folder is.

    Made on the owner thread; `run` may be called in another one.
    """

    def __init__(
        self, folder: DataFolder, logs: Mapping[TopicPartition, Log], wanted: Container[TopicPartition] | None = None
    ) -> None:
        """`logs`: those that are open. `wanted`: the partitions to tell of; None: all."""
        self.place = folder.storage.location
        self._storage = folder.storage
        self._directory_id = folder.properties["directory.id"]
        self._sizes = {key: 0 for key in folder.pending_creations() if wanted is None or key in wanted}
        self._closed: dict[TopicPartition, str] = {}
        for key, found in folder.found.items():
            if wanted is not None and key not in wanted:
                continue
            log = logs.get(key)
            if log is None:
                self._closed[key] = found.path
            else:
                self._sizes[key] = log.segments.size

    def run(self) -> LogDirDescription:
        """What may be told of the folder; where a closed partition can't be listed, only the error.
        Blocks.
        """
        storage = self._storage
        try:
            closed = {key: _batch_bytes(storage, path) for key, path in self._closed.items()}
        except StorageFailed as error:
            return LogDirDescription(self.place, self._directory_id, error, None, None, {})
        return LogDirDescription(
            self.place, self._directory_id, None, storage.total_bytes(), storage.free_bytes(), self._sizes | closed
        )


def log_dir(folder: DataFolder, logs: Mapping[TopicPartition, Log]) -> LogDirDescription:
    """A folder that serves, with the `logs` that are open; one that can't be listed has an error.
    Lists those of the others. Blocks.
    """
    return LogDirListing(folder, logs).run()


def _batch_bytes(storage: Storage, path: str) -> int:
    try:
        return sum(entry.size for entry in storage.list(path) if entry.name.endswith(LOG))
    except FileNotFoundError:
        return 0
