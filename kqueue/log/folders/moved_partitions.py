"""The commits of moves into one data folder, and what a start does with them.

An entry says that a partition's copy is complete, and which part of the old log it holds. It is
written before the copy gets the partition's name, and removed after the old log is gone. A start
in between finishes the move. Where the old log has grown since, the move was given up and its entry
could not be removed: then the old log stays.
"""

from __future__ import annotations

import logging
import threading

from kqueue.base import events
from kqueue.base.errors import CorruptIndex
from kqueue.base.names import parse_partition_folder
from kqueue.log.formats import checkpoints
from kqueue.log.formats.filenames import LOG, parse_file_name
from kqueue.log.formats.moved_partitions import (
    MOVED_PARTITIONS,
    MovedPartition,
    decode_moved,
    encode_moved,
    folder_of_future,
)
from kqueue.storage import Storage

logger = logging.getLogger("kqueue.log")
TopicPartition = tuple[str, int]


class MovedPartitions:
    """The entries of one data folder, by partition; `futures`: leftover folders of replicas.

    Raises: StorageFailed: the file can't be read.
    Thread: any, for `commit` and `remove`; else the owner thread.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lock = threading.Lock()
        self.futures: dict[TopicPartition, list[str]] = {}
        self.entries: dict[TopicPartition, MovedPartition] = {}
        if not storage.exists(MOVED_PARTITIONS):
            return
        try:
            moved = decode_moved(checkpoints.read_small_file(storage, MOVED_PARTITIONS))
        except CorruptIndex as error:
            events.CHECKPOINT_DAMAGED.log(
                logger,
                "%s: %s: %s; unfinished moves begin again",
                location=storage.location,
                file=MOVED_PARTITIONS,
                error=error,
            )
            return
        self.entries = {one.key: one for one in moved}

    def found_folder(self, name: str) -> None:
        """Take note of a folder if it is a future replica's."""
        folder = folder_of_future(name)
        key = parse_partition_folder(folder) if folder is not None else None
        if key is not None:
            self.futures.setdefault(key, []).append(name)

    def commit(self, moved: MovedPartition) -> None:
        """Write an entry. Blocks. Durability: on return. Raises: StorageFailed."""
        with self._lock:
            self._write({**self.entries, moved.key: moved})

    def remove(self, key: TopicPartition) -> None:
        """Remove an entry, if there is one. Blocks. Durability and Raises: as `commit`."""
        with self._lock:
            if key in self.entries:
                self._write({other: moved for other, moved in self.entries.items() if other != key})

    def _write(self, entries: dict[TopicPartition, MovedPartition]) -> None:
        self._storage.write_atomic(MOVED_PARTITIONS, encode_moved(entries.values()))
        self.entries = entries


def is_covered(storage: Storage, path: str, moved: MovedPartition) -> bool:
    """Whether the copy of `moved` holds all of the old log in `path`.

    Raises: StorageFailed, FileNotFoundError.
    """
    # A log grows at its last segment only, so that one shows whether anything was appended since.
    last = (-1, 0)
    for entry in storage.list(path):
        parsed = parse_file_name(entry.name)
        if parsed is not None and parsed[1] == LOG and entry.size:
            last = max(last, (parsed[0], entry.size))
    return last <= (moved.segment, moved.size)
