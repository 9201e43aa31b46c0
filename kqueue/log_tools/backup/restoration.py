"""Restores a backup into a new or empty folder.

Files are copied into `<target>.restoring`, which is renamed when all are on the disk. So a crash
leaves no folder that a broker would start from; the next restore replaces what it left.

What a restored folder counts as, when its broker starts:

    single broker                     its data, as of the backup
    member, of a cluster that runs    an empty disk: it has no mark, and the store has a stamp
    member, restored with the store   its data: the stamps of all restored brokers are removed from
                                      the restored store

A broker of that cluster whose folder was not restored has a mark that the restored store does not
know: it does not start, so old and newer data are never mixed.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from kqueue.base.errors import StorageFailed
from kqueue.log_tools.backup.file_copy import copy_file
from kqueue.log_tools.backup.manifest import (
    FOLDERS,
    STORE,
    BackupRefused,
    FolderEntry,
    Manifest,
    check_empty,
    read_manifest,
    sync_folder,
)
from kqueue.log_tools.backup.verification import check_whole
from kqueue.log_tools.progress import ProgressCallback, ProgressMeter
from kqueue.metadata.sqlite import FILE_NAME

RESTORING = ".restoring"
STAMPS = "/folders/"
"""Keys of the brokers' stamps in the store; see `kqueue.broker.cluster.folder_identity`."""


def restore_backup(
    backup: Path, to: Path, *, only: str | None = None, progress: ProgressCallback | None = None
) -> Manifest:
    """Copy a backup into the new or empty folder `to`.

    Args:
        only: name of the one data folder to restore, which `to` becomes; None: all of them, and
            the store. `to` then holds them by their names, or is the data folder, if the backup is
            of one only.
        progress: receives the bytes that are done, and their total.
    Raises: BackupDamaged: before anything is written. BackupRefused: `to` is not empty, or there
        is no such folder. StorageFailed: a file can't be read or written.
    """
    manifest = read_manifest(backup)
    folders = _chosen(manifest, only)
    check_empty(to, "restored data")
    check_whole(backup)
    to = to.resolve()
    temporary = to.with_name(to.name + RESTORING)
    is_one = only is not None or (len(manifest.folders) == 1 and manifest.store is None)
    parts = [(f"{FOLDERS}/{folder.name}/", "" if is_one else f"{folder.name}/") for folder in folders]
    if not is_one:
        parts.append((f"{STORE}/", ""))
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        _copy(backup, manifest, parts, temporary, progress)
        nodes = [folder.node_id for folder in folders]
        for store in _stores(manifest, parts, temporary):
            _forget_stamps(store, nodes)
        if to.exists():
            to.rmdir()
        temporary.rename(to)
        sync_folder(to.parent)
    except (OSError, EOFError, sqlite3.Error) as error:
        raise StorageFailed(f"{backup} could not be restored to {to}: {error}") from error
    return manifest


def _chosen(manifest: Manifest, only: str | None) -> list[FolderEntry]:
    if only is None:
        return list(manifest.folders)
    chosen = [folder for folder in manifest.folders if folder.name == only]
    if not chosen:
        names = ", ".join(folder.name for folder in manifest.folders)
        raise BackupRefused(f"the backup has no data folder {only!r}: it has {names}")
    return chosen


def _copy(
    backup: Path,
    manifest: Manifest,
    parts: Iterable[tuple[str, str]],
    temporary: Path,
    progress: ProgressCallback | None,
) -> None:
    files = [
        (file, temporary / (target + file.path.removeprefix(source)))
        for source, target in parts
        for file in manifest.files
        if file.path.startswith(source)
    ]
    meter = ProgressMeter(progress, sum(file.size for file, _ in files))
    made = {temporary}
    temporary.mkdir(mode=0o700, parents=True)
    for file, target in files:
        missing = [folder for folder in target.parents if folder not in made and folder.is_relative_to(temporary)]
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)
            made.add(folder)
        copy_file(backup / file.path, target, file.size, may_link=False, add=meter.add)
    for folder in made:
        sync_folder(folder)
    meter.finish()


def _stores(manifest: Manifest, parts: Iterable[tuple[str, str]], temporary: Path) -> list[Path]:
    stores = [temporary / target / FILE_NAME for source, target in parts if source != f"{STORE}/"]
    if manifest.store is not None:
        stores.append(temporary / Path(manifest.store).name)
    return [path for path in stores if path.is_file()]


def _forget_stamps(store: Path, nodes: Iterable[str]) -> None:
    """Let the restored brokers be those that took part last."""
    database = sqlite3.connect(store)
    try:
        with database:
            database.executemany("DELETE FROM entries WHERE key = ?", [(f"{STAMPS}{node}",) for node in nodes])
    finally:
        database.close()
    sync_folder(store.parent)
