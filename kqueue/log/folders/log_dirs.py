"""What may be told of the data folders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kqueue.base.errors import StorageFailed
from kqueue.log.folders.data_folder import DataFolder
from kqueue.log.folders.folder_work import Key
from kqueue.log.formats.filenames import LOG
from kqueue.log.log import Log
from kqueue.storage import Storage


class LogDir(NamedTuple):
    """What may be told of a data folder; `error` None: it serves.

    `directory_id` None: it could not be read. `total_bytes`, `usable_bytes`: of the volume, None: not known.
    `partitions`: bytes of batches in each.
    """

    place: str
    directory_id: str | None
    error: StorageFailed | None
    total_bytes: int | None
    usable_bytes: int | None
    partitions: dict[Key, int]


def log_dir(folder: DataFolder, logs: Mapping[Key, Log]) -> LogDir:
    """A folder that serves, with the `logs` that are open; one that can't be listed has an error. Lists those of the others. Blocks."""
    storage = folder.storage
    directory_id = folder.properties["directory.id"]
    try:
        sizes = {key: logs[key].size if key in logs else _batch_bytes(storage, found.path) for key, found in folder.found.items()}
    except StorageFailed as error:
        return LogDir(storage.place, directory_id, error, None, None, {})
    return LogDir(storage.place, directory_id, None, storage.total_bytes(), storage.free_bytes(), sizes)


def _batch_bytes(storage: Storage, path: str) -> int:
    try:
        return sum(entry.size for entry in storage.list(path) if entry.name.endswith(LOG))
    except FileNotFoundError:
        return 0
