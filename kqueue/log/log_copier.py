"""Copies all logs into another storage, which then opens as after a clean stop.

1. `plan`, within one turn of the owner thread, notes what each log holds: sizes of files, and from
   memory what a clean stop would write. It touches no disk but for the last time index entries.
2. `copy` yields one callable per log, for a job: it copies each file up to its noted size. Appends
   only lengthen files, so the copy is of the moment of the plan.
3. A log that changed otherwise meanwhile (segments dropped or compacted, the log opened or moved)
   is copied again, as of a later moment. A deleted partition is left out.
4. `finish` writes the files at the top, the marker of a clean stop last.

Jobs that run beside it touch only names that are not copied (`.cleaned`, `.swap`, `.deleted`,
checkpoints).
Durability: each file is synced; without the marker the copy does not count as stopped cleanly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from kqueue.base.errors import StorageFailed
from kqueue.base.sliced_task import SlicedWork
from kqueue.log.deletion import remove_folder
from kqueue.log.folders.data_folder import DataFolder
from kqueue.log.folders.partition_folders import PartitionFolder, TopicPartition
from kqueue.log.formats import checkpoints
from kqueue.log.formats.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    META_PROPERTIES,
    OFFSET_CHECKPOINTS,
    RECOVERY_POINTS,
)
from kqueue.log.formats.filenames import CLEANED, DELETED, EPOCHS, PARTITION_METADATA, SNAPSHOT, SWAP, file_name
from kqueue.log.formats.leader_epochs import encode_epochs
from kqueue.log.formats.producer_snapshot import encode_snapshot
from kqueue.log.log import Log
from kqueue.log.segment import Segment
from kqueue.storage import Storage

CHUNK_BYTES = 1024 * 1024
CHUNKS_PER_SYNC = 8
"""A sync of much data at once would delay what the owner thread writes to the same disk."""
ATTEMPTS_MAX = 5
"""Copies of a log that changes meanwhile, before the whole copy fails."""


@dataclass(slots=True)
class _PlannedCopy:
    """The files of one partition that are to be copied.

    sizes: bytes of each file to copy; None: all of it, if it is there. listed: copy all files of
    the folder instead. written: files whose content is known. segments: those of the open log.
    """

    key: TopicPartition
    folder: DataFolder
    original: PartitionFolder
    log: Log | None
    offsets: dict[str, int]
    sizes: dict[str, int | None] = field(default_factory=dict)
    written: dict[str, bytes] = field(default_factory=dict)
    segments: list[Segment] = field(default_factory=list)
    is_deleted: bool = False


class LogCopier:
    """One copy into `target`, which is empty: `plan`, `copy`, `finish`.

    Args: logs: the open ones. unrecovered: partitions that are not recovered; one of them fails the
    copy.
    Thread: owner thread; `finish` and what `copy` yields: any.
    """

    def __init__(
        self, target: Storage, logs: Mapping[TopicPartition, Log], unrecovered: Collection[TopicPartition]
    ) -> None:
        self._target = target
        self._logs = logs
        self._unrecovered = unrecovered
        self._folders: list[DataFolder] = []
        self._plans: list[_PlannedCopy] = []

    def plan(self, folders: Iterable[DataFolder]) -> None:
        """Note what all partitions of the data folders hold now. Raises: StorageFailed."""
        self._folders = list(folders)
        for folder in self._folders:
            for key, partition in folder.partitions.items():
                self._plans.append(self._plan(key, folder, partition))

    def copy(self) -> SlicedWork[None]:
        """Copy what was planned. Raises: StorageFailed."""
        for number, plan in enumerate(self._plans):
            for _ in range(ATTEMPTS_MAX):
                failed: StorageFailed | None = None
                try:
                    yield partial(self._copy, plan)
                except StorageFailed as error:
                    failed = error
                if self._is_current(plan):
                    break
                yield partial(self._discard, plan)
                folder = self._folder_of(plan)
                if folder is None:
                    plan.is_deleted, failed = True, None
                    break
                plan = self._plans[number] = self._plan(plan.key, folder, folder.partitions[plan.key])
                failed = StorageFailed(
                    f"{plan.folder.storage.location}: {plan.original.path} changes faster than copied"
                )
            if failed is not None:
                raise failed

    def finish(self, properties: Mapping[str, str], now_ms: int, broker_epoch: int) -> None:
        """Write the files at the top of a data folder, the clean-stop marker last.

        Args: properties: `meta.properties` of the first folder that was added. now_ms: wall clock.
        Raises: StorageFailed.
        """
        target = self._target
        target.write_atomic(META_PROPERTIES, checkpoints.encode_properties(properties, now_ms))
        for name in OFFSET_CHECKPOINTS:
            offsets = {plan.key: plan.offsets[name] for plan in self._plans if name in plan.offsets}
            offsets = {key: offset for key, offset in offsets.items() if not self._was_deleted(key)}
            if name == CLEANER_OFFSETS and not offsets:
                continue  # nothing was ever compacted
            target.write_atomic(name, checkpoints.encode_offsets(offsets))
        target.sync_folder("")
        target.write_atomic(checkpoints.CLEAN_SHUTDOWN, checkpoints.encode_clean_shutdown(broker_epoch))

    def _plan(self, key: TopicPartition, folder: DataFolder, partition: PartitionFolder) -> _PlannedCopy:
        if key in self._unrecovered:
            raise StorageFailed(f"{folder.storage.location}: {partition.path} is not recovered, and can't be copied")
        log = self._logs.get(key)
        offsets = {CLEANER_OFFSETS: folder.cleaner_offsets[key]} if key in folder.cleaner_offsets else {}
        plan = _PlannedCopy(key, folder, partition, log, offsets)
        if log is not None:
            _plan_log(plan, log)
            return plan
        for name, table in (
            (RECOVERY_POINTS, folder.recovery_points),
            (HIGH_WATERMARKS, folder.high_watermarks),
            (LOG_STARTS, folder.log_starts),
        ):
            if key in table:
                offsets[name] = table[key]
        return plan

    def _is_current(self, plan: _PlannedCopy) -> bool:
        """Whether what was planned is still what the partition begins with."""
        log = self._logs.get(plan.key)
        if log is not plan.log or plan.folder.partitions.get(plan.key) is not plan.original:
            return False
        if log is None:
            return True
        segments = list(log.segments)[: len(plan.segments)]
        is_whole = log.end_offset >= plan.offsets[RECOVERY_POINTS] or log.pending_start_offset > log.end_offset
        return segments == plan.segments and is_whole

    def _folder_of(self, plan: _PlannedCopy) -> DataFolder | None:
        """Return the data folder that holds the partition now; None: it was deleted."""
        for folder in self._folders:
            partition = folder.partitions.get(plan.key)
            if partition is not None and partition.topic_id == plan.original.topic_id:
                return folder
        return None

    def _copy(self, plan: _PlannedCopy) -> None:
        """Copy one partition. Thread: any. Raises: StorageFailed."""
        source, path = plan.folder.storage, plan.original.path
        sizes = plan.sizes if plan.log is not None else _sizes(source, path)
        copy_files(source, path, sizes, self._target)
        for name, data in plan.written.items():
            file = self._target.open(f"{path}/{name}", create=True)
            file.append(data)
            file.sync()
            file.close()
        self._target.sync_folder(path)

    def _discard(self, plan: _PlannedCopy) -> None:
        if self._target.exists(plan.original.path):
            remove_folder(self._target, plan.original.path)

    def _was_deleted(self, key: TopicPartition) -> bool:
        return any(plan.is_deleted and plan.key == key for plan in self._plans)


def _plan_log(plan: _PlannedCopy, log: Log) -> None:
    """Note what an open log holds, and what a clean stop would write. Raises: StorageFailed."""
    if log.health.failure is not None:
        raise log.health.failure
    log.segments.active.finish_timeindex()
    plan.segments = list(log.segments)
    plan.sizes[PARTITION_METADATA] = None
    for segment in plan.segments:
        plan.sizes.update(zip(segment.files.names(), (file.size for file in segment.files.all()), strict=True))
        plan.sizes[file_name(segment.base, SNAPSHOT)] = None
    if log.epochs.entries():
        plan.written[EPOCHS] = encode_epochs(log.epochs)
    snapshot = file_name(log.end_offset, SNAPSHOT)
    if log.end_offset > log.segments.base_offset and snapshot not in plan.sizes:
        plan.written[snapshot] = encode_snapshot(log.producers)
    end_offset = max(log.end_offset, log.pending_start_offset)
    plan.offsets[RECOVERY_POINTS] = plan.offsets[HIGH_WATERMARKS] = end_offset
    if log.pending_start_offset > 0 or log.config.tiered:
        plan.offsets[LOG_STARTS] = log.pending_start_offset


def _sizes(storage: Storage, folder: str) -> dict[str, int | None]:
    """Return what to copy of a log that was not opened since the last clean stop: all."""
    try:
        entries = storage.list(folder)
    except FileNotFoundError as error:
        raise StorageFailed(f"{storage.location}: the folder {folder} was there and is gone") from error
    return {
        entry.name: None
        for entry in entries
        if not entry.is_folder and not entry.name.endswith((CLEANED, DELETED, SWAP))
    }


def copy_files(source: Storage, folder: str, sizes: Mapping[str, int | None], target: Storage) -> None:
    """Copy files into a folder of the same name, which is created.

    Args: sizes: bytes of each; None: all of it, and nothing if there is no such file.
    Durability: contents are synced, names are not. Raises: StorageFailed.
    """
    target.make_folder(folder)
    for name, size in sizes.items():
        path = f"{folder}/{name}"
        if size is None and not source.exists(path):
            continue
        try:
            original = source.open(path)
            size = original.size if size is None else size
            copy = target.open(path, create=True)
            for position in range(0, size, CHUNK_BYTES):
                copy.append(original.read_at(position, min(CHUNK_BYTES, size - position)))
                if not (position // CHUNK_BYTES + 1) % CHUNKS_PER_SYNC:
                    copy.sync()
        except FileNotFoundError as error:
            raise StorageFailed(f"{source.location}: {path} was there and is gone") from error
        original.close()
        if copy.size != size:
            raise StorageFailed(f"{source.location}: {path} had {size} bytes, found {copy.size}")
        if size:
            copy.sync()
        copy.close()
