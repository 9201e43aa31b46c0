"""Checks a backup: each file by its size and SHA-256, each log by the checksums of its batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from kqueue.log_tools.backup.manifest import FOLDERS, BackupDamaged, Manifest, entry_of, read_manifest
from kqueue.log_tools.errors import NotALogFolder
from kqueue.log_tools.progress import ProgressCallback, ProgressMeter
from kqueue.log_tools.verify import verify


class BackupReport(NamedTuple):
    """The result of a check. `damage`: a line for each file that is missing, differs or is
    damaged.
    """

    backup: str
    manifest: Manifest
    damage: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing or damaged."""
        return not self.damage

    def as_json(self) -> dict[str, Any]:
        """Return the report for output."""
        return {
            "backup": self.backup,
            "is_whole": self.is_whole,
            "damage": list(self.damage),
            "manifest": self.manifest.as_json(),
        }


def verify_backup(backup: Path, *, progress: ProgressCallback | None = None) -> BackupReport:
    """Check all files of a backup. Nothing is written.

    Args: progress: receives the bytes that are done, and their total.
    Raises: BackupDamaged: the backup is not complete, so there is nothing to check.
    """
    manifest = read_manifest(backup)
    meter = ProgressMeter(progress, 2 * manifest.total_bytes)
    damage = check_files(backup, manifest, meter)
    for folder in manifest.folders:
        before = meter.done

        def advance(done: int, total: int, before: int = before) -> None:
            meter.add(before + done - meter.done)

        try:
            report = verify(backup / FOLDERS / folder.name, progress=advance)
        except NotALogFolder as error:
            if folder.partitions:
                damage.append(str(error))
            continue
        damage += [
            f"{FOLDERS}/{folder.name}/{finding.file}: expected {finding.expected}, found {finding.found}"
            for finding in report.errors
        ]
    meter.finish()
    return BackupReport(str(backup), manifest, tuple(damage))


def check_files(backup: Path, manifest: Manifest, meter: ProgressMeter) -> list[str]:
    """Return a line for each file that is missing, or differs from the manifest."""
    damage = []
    for file in manifest.files:
        try:
            entry = entry_of(backup, backup / file.path)
        except FileNotFoundError:
            damage.append(f"{file.path}: missing")
        except OSError as error:
            damage.append(f"{file.path}: can't be read: {error.strerror}")
        else:
            if entry.size != file.size:
                damage.append(f"{file.path}: expected {file.size} bytes, found {entry.size}")
            elif entry.sha256 != file.sha256:
                damage.append(f"{file.path}: its SHA-256 is not that of the manifest")
        meter.add(file.size)
    return damage


def check_whole(backup: Path) -> None:
    """Check all files. Raises: BackupDamaged: with the first lines of what differs."""
    damage = verify_backup(backup).damage
    if damage:
        more = f" and {len(damage) - 3} more" if len(damage) > 3 else ""
        raise BackupDamaged(f"{backup} is damaged: {'; '.join(damage[:3])}{more}. Use another backup")
