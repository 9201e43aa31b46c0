"""Verifies the files of a partition folder or data folder against each other, without a broker.

Nothing is written. A broker may use the folder: what it has not finished is a note, not an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kqueue.base.errors import StorageFailed
from kqueue.base.names import parse_partition_folder
from kqueue.log.formats.filenames import LOG, parse_file_name
from kqueue.log_tools.errors import NotALogFolder
from kqueue.log_tools.progress import ProgressCallback, ProgressMeter
from kqueue.log_tools.tier_urls import is_url, open_url
from kqueue.log_tools.verify.data_folder import DataFolderState, Key, check_checkpoints, read_data_folder
from kqueue.log_tools.verify.partition import LogRange, PartitionVerifier
from kqueue.log_tools.verify.report import ERROR, NOTE, Finding, VerificationReport
from kqueue.storage import LocalStorage, Storage

__all__ = [
    "ERROR",
    "NOTE",
    "Finding",
    "VerificationReport",
    "VerificationTarget",
    "resolve_target",
    "verify",
    "verify_storage",
]


class VerificationTarget:
    """The folder to verify.

    `storage`: rooted at the data folder. `partition`: one folder in it, None: all. `note`: more on
    which log it is, for people.
    """

    def __init__(self, storage: Storage, partition: str | None, note: str = "") -> None:
        self.storage = storage
        self.partition = partition
        self.note = note

    @property
    def location(self) -> str:
        return self.storage.location if self.partition is None else f"{self.storage.location}/{self.partition}"


def resolve_target(path: str | Path, topics: Sequence[str] = ()) -> VerificationTarget:
    """Return whether a path, or the URL of a tier, is a partition folder or a data folder.

    Args: topics: of a tier, only these are looked for; empty: all.
    Raises:
        NotALogFolder: it is neither, or does not exist.
        StorageFailed: it cannot be listed.
        ExtraNeeded: the package for a URL is missing.
    """
    if is_url(path):
        target = open_url(str(path), topics)
        return VerificationTarget(target.storage, target.partition, target.note)
    folder = Path(path).resolve()
    if not folder.is_dir():
        raise NotALogFolder(f"there is no folder {folder}")
    storage = LocalStorage(folder)
    entries = storage.list("")
    if any(entry.is_folder and parse_partition_folder(entry.name) for entry in entries):
        return VerificationTarget(storage, None)
    if any((parsed := parse_file_name(entry.name)) and parsed[1] == LOG for entry in entries) or parse_partition_folder(
        folder.name
    ):
        return VerificationTarget(LocalStorage(folder.parent), folder.name)
    if any(entry.name == "meta.properties" for entry in entries):
        return VerificationTarget(storage, None)
    raise NotALogFolder(f"{folder} is no data folder of Kafka or kqueue, and no partition's folder: it holds no logs")


def verify(
    path: str | Path, *, deep: bool = False, allow_gaps: bool = False, progress: ProgressCallback | None = None
) -> VerificationReport:
    """Verify a partition folder, or a data folder with all partitions in it; or those of a tier.

    Args:
        path: a folder, or a URL, as for `resolve_target`.
        deep: also decompress and decode every record and compare it with its batch's header.
        allow_gaps: all logs are compacted, so that missing offsets are no loss, although the data
            folder does not say so.
        progress: receives the bytes that are done, and their total.
    Returns: the findings; `report.is_sound`: nothing is damaged.
    Raises:
        NotALogFolder: there are no logs.
        StorageFailed: the folder cannot be listed. Unreadable files are findings.
    """
    target = resolve_target(path)
    return verify_storage(target.storage, target.partition, deep=deep, allow_gaps=allow_gaps, progress=progress)


def verify_storage(
    storage: Storage,
    partition: str | None = None,
    *,
    deep: bool = False,
    allow_gaps: bool = False,
    progress: ProgressCallback | None = None,
) -> VerificationReport:
    """Run `verify` on any storage that is rooted at a data folder.

    Args:
        partition: path of the one folder to verify; None: all of them.
    """
    report = VerificationReport(storage.location if partition is None else f"{storage.location}/{partition}")
    if partition is None:
        folder = read_data_folder(storage, report)
        folders = dict(sorted(folder.partitions.items(), key=lambda item: item[1]))
    else:
        folder = _around(storage)
        folders = {parse_partition_folder(partition) or (partition, 0): partition}
    meter = ProgressMeter(progress, sum(_log_bytes(storage, path) for path in folders.values()))
    bounds: dict[Key, LogRange | None] = {}
    for key, path in folders.items():
        try:
            known = folder.known(path, allow_gaps=allow_gaps)
            bounds[key] = PartitionVerifier(storage, path, report, known, deep=deep, progress=meter.add).run()
        except (StorageFailed, FileNotFoundError) as error:
            if isinstance(error, FileNotFoundError) and partition is None and not folder.clean:
                continue  # a running broker has deleted the topic since the folders were listed
            report.add(Finding(path, None, "a folder that can be read", str(error)))
    if partition is None and folder.is_one:
        check_checkpoints(folder, bounds, report)
    report.close()
    meter.finish()
    return report


def _around(storage: Storage) -> DataFolderState:
    """Return the state of the data folder around a partition; its own damage is not reported."""
    try:
        return read_data_folder(storage, VerificationReport(""))
    except (StorageFailed, FileNotFoundError):
        return DataFolderState()


def _log_bytes(storage: Storage, path: str) -> int:
    try:
        return sum(entry.size for entry in storage.list(path) if entry.name.endswith(LOG))
    except (StorageFailed, FileNotFoundError):
        return 0
