"""Repairs the damaged partitions of a data folder, or one partition, after making a backup.

The backup is complete and on disk before anything is changed. An interrupted repair can run again
with another backup folder: finished steps stay, and no step leaves a folder that a broker would
read wrongly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kqueue.base.errors import CorruptIndex, StorageFailed, TooManyOpenFiles
from kqueue.log.formats.checkpoints import (
    CLEAN_SHUTDOWN,
    LOCK,
    LOG_STARTS,
    META_PROPERTIES,
    decode_offsets,
    encode_offsets,
)
from kqueue.log.formats.filenames import LOG
from kqueue.log_tools.errors import NotALogFolder, RepairRefused
from kqueue.log_tools.folder import LogFolder
from kqueue.log_tools.progress import ProgressCallback, ProgressMeter
from kqueue.log_tools.repair.backup import check_backup_folder, check_free_space, copy_files
from kqueue.log_tools.repair.log_rewrite import LostRange
from kqueue.log_tools.repair.partition_repair import PartitionRepair, RepairAction
from kqueue.log_tools.tier_urls import is_url
from kqueue.log_tools.verify import resolve_target, verify_storage
from kqueue.log_tools.verify.data_folder import CHECKPOINTS, CLEANED_TO, DataFolderState, read_data_folder
from kqueue.log_tools.verify.report import VerificationReport
from kqueue.storage import LocalStorage, Lock, Storage
from kqueue.tier.stores.address import location_of

__all__ = ["LostRange", "RepairAction", "RepairResult", "repair", "repair_storage"]
_COPIED = (*CHECKPOINTS, META_PROPERTIES, CLEAN_SHUTDOWN)


@dataclass(slots=True)
class RepairResult:
    """The findings and changes of a repair.

    `copy`: the backup folder, None: nothing was damaged, or it was a dry run. `lost`: byte ranges
    removed from logs. `done`: every change, in order. `failed`: partitions that could not be
    repaired, with the reason. `before`, `after`: the verifications; `after` is None if nothing was
    changed.
    """

    folder: str
    before: VerificationReport
    after: VerificationReport | None = None
    copy: str | None = None
    copied_bytes: int = 0
    lost: list[LostRange] = field(default_factory=list)
    done: list[RepairAction] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged now."""
        return (self.after or self.before).is_sound and not self.failed

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "folder": self.folder,
            "sound": self.is_sound,
            "copy": self.copy,
            "lost": [lost._asdict() for lost in self.lost],
            "done": [done._asdict() for done in self.done],
            "failed": self.failed,
            "before": self.before.as_json(),
            "after": self.after.as_json() if self.after is not None else None,
        }


def repair(
    path: str | Path,
    copy_to: str | Path | None,
    *,
    dry_run: bool = False,
    deep: bool = False,
    allow_gaps: bool = False,
    progress: ProgressCallback | None = None,
) -> RepairResult:
    """Repair a partition folder, or the damaged partitions of a data folder, after a backup.

    Damaged batches are removed; all others keep their offsets, so that a gap remains. Wrong
    indexes, snapshots, leader epochs and checkpoints are rebuilt. If nothing is damaged, nothing is
    copied or changed.

    Args:
        copy_to: the backup folder, new or empty; may be None in a dry run.
        dry_run: only report what would be done to the logs.
        deep: also remove batches with a right checksum whose records cannot be read.
        allow_gaps: see `verify`.
        progress: of the backup.
    Raises:
        NotALogFolder.
        FolderInUse: a broker uses the folder.
        RepairRefused: no space, no folder for the backup, or `path` is a URL.
        StorageFailed.
    """
    if is_url(path):
        raise RepairRefused(
            f"{location_of(str(path))} is in a tier, where segments never change: export what is valid "
            "(kqueue log export --skip-damaged), or repair the log of a broker that still has the records"
        )
    target = resolve_target(path)
    if dry_run:
        return repair_storage(target.storage, target.partition, None, "", deep=deep, allow_gaps=allow_gaps)
    if copy_to is None:
        raise RepairRefused("a repair needs a folder to copy to first")
    copy = Path(copy_to).resolve()
    if copy == Path(target.location) or Path(target.storage.location) in copy.parents:
        raise RepairRefused(f"{copy} lies within {target.storage.location}, which is to be copied")
    if not copy.parent.is_dir():
        raise RepairRefused(f"there is no folder {copy.parent} to make the copy in")
    return repair_storage(
        target.storage,
        target.partition,
        LocalStorage(copy.parent),
        copy.name,
        deep=deep,
        allow_gaps=allow_gaps,
        progress=progress,
    )


def repair_storage(
    storage: Storage,
    partition: str | None,
    target: Storage | None,
    name: str,
    *,
    deep: bool = False,
    allow_gaps: bool = False,
    progress: ProgressCallback | None = None,
) -> RepairResult:
    """Run `repair` on storages: `storage` is rooted at the data folder.

    Args:
        target, name: the storage and folder of the backup; target None: a dry run.
    """
    if target is not None:
        check_backup_folder(target, name)
    lock = _lock(storage) if target is not None else None
    try:
        return _Repair(storage, partition, deep, allow_gaps).run(target, name, progress)
    finally:
        if lock is not None:
            lock.release()


def _lock(storage: Storage) -> Lock | None:
    """Lock brokers out. Returns: None if the parent folder is no data folder, so that none can run.

    Raises: FolderInUse.
    """
    names = {entry.name for entry in storage.list("")}
    return storage.lock(LOCK) if names & {LOCK, *_COPIED} else None


class _Repair:
    def __init__(self, storage: Storage, partition: str | None, deep: bool, allow_gaps: bool) -> None:
        self.storage = storage
        self.partition = partition
        self.deep = deep
        self.allow_gaps = allow_gaps
        self.result = RepairResult("", self._verify())
        self.result.folder = self.result.before.folder

    def _verify(self) -> VerificationReport:
        return verify_storage(self.storage, self.partition, deep=self.deep, allow_gaps=self.allow_gaps)

    def run(self, target: Storage | None, name: str, progress: ProgressCallback | None) -> RepairResult:
        result = self.result
        if result.before.is_sound:
            return result
        data = read_data_folder(self.storage, VerificationReport(""))
        wrong = {finding.file for finding in result.before.errors}
        folders = sorted({file.partition("/")[0] for file in wrong if "/" in file} | self._too_short(data, wrong))
        if target is None:
            self._each(folders, lambda folder: self._partition(data, folder).plan())
            return result
        self._copy(folders, target, name, progress)
        self._each(folders, lambda folder: self._partition(data, folder).repair())
        if self.partition is None:
            self._mend_checkpoints(data, wrong)
        result.after = self._verify()
        return result

    def _too_short(self, data: DataFolderState, wrong: set[str]) -> set[str]:
        """Return partitions that end before both checkpoints.

        A broker would assign their missing offsets a second time.
        """
        if self.partition is not None or not wrong & set(CHECKPOINTS):
            return set()
        return {path for path in data.partitions.values() if self._partition(data, path).is_too_short()}

    def _partition(self, data: DataFolderState, folder: str) -> PartitionRepair:
        return PartitionRepair(self.storage, folder, data, deep=self.deep, allow_gaps=self.allow_gaps)

    def _each(self, folders: list[str], work: Callable[[str], Any]) -> None:
        for folder in folders:
            try:
                repaired = work(folder)
            except (StorageFailed, FileNotFoundError) as error:
                self.result.failed.append(f"{folder}: {error}")
                continue
            self.result.lost += repaired.lost
            self.result.done += repaired.done

    # --- the copy

    def _copy(self, folders: list[str], target: Storage, name: str, progress: ProgressCallback | None) -> None:
        sizes: dict[str, int] = {entry.name: entry.size for entry in self.storage.list("") if entry.name in _COPIED}
        for folder in folders:
            sizes |= {
                f"{folder}/{entry.name}": entry.size for entry in self.storage.list(folder) if not entry.is_folder
            }
        total = sum(sizes.values())
        check_free_space(
            self.storage, target, total, max((size for path, size in sizes.items() if path.endswith(LOG)), default=0)
        )
        meter = ProgressMeter(progress, total)
        copy_files(self.storage, list(sizes), target, name, meter.add)
        meter.finish()
        self.result.copy = f"{target.location}/{name}"
        self.result.copied_bytes = total

    # --- the data folder's own files

    def _mend_checkpoints(self, data: DataFolderState, wrong: set[str]) -> None:
        for name in CHECKPOINTS:
            if name not in wrong:
                continue
            offsets = dict(data.offsets[name])
            if offsets or self._is_readable(name):
                changed = self._clamp(name, offsets, data)
            else:
                changed = ["emptied: it cannot be read, and the logs hold the same information"]
            if changed:
                self.storage.write_atomic(name, encode_offsets(offsets))
                self.result.done += [RepairAction(name, what) for what in changed]

    def _is_readable(self, name: str) -> bool:
        try:
            decode_offsets(self.storage.read(name))
        except TooManyOpenFiles:
            raise  # the file may be readable, so it must not be emptied
        except (CorruptIndex, StorageFailed, FileNotFoundError):
            return False
        return True

    def _clamp(self, name: str, offsets: dict[tuple[str, int], int], data: DataFolderState) -> list[str]:
        """Limit each offset to its log's end. Returns: the changes.

        A log start beyond the end is removed, because a broker would delete the whole log for it.
        """
        changed = []
        for key, offset in list(offsets.items()):
            folder = data.partitions.get(key)
            if folder is None or name == CLEANED_TO:
                continue
            end_offset = self._end_offset(folder)
            if offset <= end_offset:
                continue
            if name == LOG_STARTS:
                del offsets[key]
                changed.append(
                    f"{folder}: {offset} removed: the log ends at {end_offset}; deleted records may be readable again"
                )
            else:
                offsets[key] = end_offset
                changed.append(f"{folder}: {offset} lowered to the log's end, {end_offset}")
        return changed

    def _end_offset(self, folder: str) -> int:
        try:
            return LogFolder(self.storage, folder).end_offset
        except (NotALogFolder, StorageFailed, FileNotFoundError):
            return 0
