"""Copies all logs into another storage, which then opens as after a clean stop.

Runs on the owner thread, so nothing is appended or renamed meanwhile. Jobs that run beside it touch
only names that are not copied (`.cleaned`, `.swap`, `.deleted`, checkpoints).
Durability: each file is synced; the marker of a clean stop comes last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kqueue.base.clock import Clock
from kqueue.base.errors import StorageFailed
from kqueue.log.folders.data_folder import DataFolder
from kqueue.log.folders.partition_folders import PartitionFolder, TopicPartition
from kqueue.log.formats import checkpoints
from kqueue.log.formats.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    Offsets,
)
from kqueue.log.formats.filenames import (
    CLEANED,
    DELETED,
    EPOCHS,
    PARTITION_METADATA,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    SWAP,
    file_name,
    parse_file_name,
)
from kqueue.log.formats.leader_epochs import encode_epochs
from kqueue.log.formats.producer_snapshot import encode_snapshot
from kqueue.log.log import Log
from kqueue.storage import Storage

CHUNK_BYTES = 1024 * 1024


class LogCopier:
    """One copy into `target`, which is empty: `add` each data folder, then `finish`.

    Raises: StorageFailed, from both.
    """

    def __init__(self, target: Storage) -> None:
        self._target = target
        self._offsets: dict[str, Offsets] = {
            name: {} for name in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANER_OFFSETS)
        }

    def add(
        self, folder: DataFolder, logs: Mapping[TopicPartition, Log], unrecovered: Collection[TopicPartition]
    ) -> None:
        """Copy the partitions of one data folder.

        Args: logs: the open ones. unrecovered: partitions that could not be recovered at the
        start; one
            of them fails the copy.
        """
        for key, found in folder.found.items():
            if key in unrecovered:
                raise StorageFailed(
                    f"{folder.storage.location}: {found.path} could not be recovered at the start, and can't be copied"
                )
            log = logs.get(key)
            if log is not None:
                self._add_log(key, log)
            else:
                self._add_closed(key, folder, found)
            if key in folder.cleaner_offsets:
                self._offsets[CLEANER_OFFSETS][key] = folder.cleaner_offsets[key]

    def finish(self, properties: Mapping[str, str], clock: Clock, broker_epoch: int) -> None:
        """Write the files at the top of a data folder, the clean-stop marker last.

        Args: properties: `meta.properties` of the first folder that was added.
        """
        target = self._target
        target.write_atomic(META_PROPERTIES, checkpoints.encode_properties(properties, clock.wall_ms()))
        for name, offsets in self._offsets.items():
            if name == CLEANER_OFFSETS and not offsets:
                continue  # nothing was ever compacted
            target.write_atomic(name, checkpoints.encode_offsets(offsets))
        target.sync_folder("")
        target.write_atomic(checkpoints.CLEAN_SHUTDOWN, checkpoints.encode_clean_shutdown(broker_epoch))

    def _add_log(self, key: TopicPartition, log: Log) -> None:
        """Copy an open log: its segments, and from memory what a clean stop would write."""
        if log.offline is not None:
            raise log.offline
        log.segments.active.finish_timeindex()
        path = log.folder
        bases = {segment.base for segment in log.segments}
        names = [name for name in _names(log.storage, path) if name == PARTITION_METADATA or _is_of(name, bases)]
        copy_files(log.storage, path, names, self._target)
        if log.epochs.entries():
            self._write(f"{path}/{EPOCHS}", encode_epochs(log.epochs))
        snapshot = file_name(log.end_offset, SNAPSHOT)
        if log.end_offset > log.segments.base_offset and snapshot not in names:
            self._write(f"{path}/{snapshot}", encode_snapshot(log.producers))
        self._target.sync_folder(path)
        end_offset = max(log.end_offset, log.pending_start_offset)
        self._offsets[RECOVERY_POINTS][key] = self._offsets[HIGH_WATERMARKS][key] = end_offset
        if log.pending_start_offset > 0:
            self._offsets[LOG_STARTS][key] = log.pending_start_offset

    def _add_closed(self, key: TopicPartition, folder: DataFolder, found: PartitionFolder) -> None:
        """Copy a log that was not opened since the last clean stop: its files and checkpoints."""
        names = [name for name in _names(folder.storage, found.path) if not name.endswith((CLEANED, DELETED, SWAP))]
        copy_files(folder.storage, found.path, names, self._target)
        self._target.sync_folder(found.path)
        for name, table in (
            (RECOVERY_POINTS, folder.recovery_points),
            (HIGH_WATERMARKS, folder.high_watermarks),
            (LOG_STARTS, folder.log_starts),
        ):
            if key in table:
                self._offsets[name][key] = table[key]

    def _write(self, path: str, data: bytes) -> None:
        file = self._target.open(path, create=True)
        file.append(data)
        file.sync()
        file.close()


def _names(storage: Storage, folder: str) -> list[str]:
    try:
        return [entry.name for entry in storage.list(folder) if not entry.is_folder]
    except FileNotFoundError as error:
        raise StorageFailed(f"{storage.location}: the folder {folder} was there and is gone") from error


def _is_of(name: str, bases: Collection[int]) -> bool:
    parsed = parse_file_name(name)
    return parsed is not None and parsed[0] in bases and (parsed[1] in SEGMENT_SUFFIXES or parsed[1] == SNAPSHOT)


def copy_files(source: Storage, folder: str, names: Iterable[str], target: Storage) -> None:
    """Copy files into a folder of the same name, which is created.

    Durability: contents are synced, names are not. Raises: StorageFailed.
    """
    target.make_folder(folder)
    for name in names:
        path = f"{folder}/{name}"
        try:
            original = source.open(path)
            copy = target.open(path, create=True)
            size = original.size
            for position in range(0, size, CHUNK_BYTES):
                copy.append(original.read_at(position, min(CHUNK_BYTES, size - position)))
        except FileNotFoundError as error:
            raise StorageFailed(f"{source.location}: {path} was there and is gone") from error
        original.close()
        if size:
            copy.sync()
        copy.close()
