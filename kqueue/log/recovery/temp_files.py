"""Completes or removes what a crash leaves in a partition's folder: half-done compactions,
deletions and replacements of files.
"""

from __future__ import annotations

from kqueue.log.compaction import swap_files
from kqueue.log.formats.filenames import CLEANED, DELETED, SWAP
from kqueue.storage import Storage
from kqueue.storage.contract import FolderEntry
from kqueue.storage.paths import TEMPORARY_SUFFIX


def clear_temp_files(storage: Storage, folder: str) -> tuple[dict[str, int], bool]:
    """Complete or undo all of it; make the folder if it does not exist. Leaves unknown files alone.

    Returns: sizes in bytes of the remaining files, by name; whether a name was changed that is not
        synced yet.
    Raises: StorageFailed; CorruptBatch: a compaction cannot be completed.
    Durability: a crash costs nothing, the next start does the same.
    """
    if not storage.exists(folder):
        storage.make_folder(folder)
    entries = _files(storage, folder)
    names = [entry.name for entry in entries]
    has_compaction = any(name.endswith((DELETED, CLEANED, SWAP)) for name in names)
    changed = has_compaction and swap_files.complete(storage, folder, names)
    if changed:
        entries = _files(storage, folder)
    sizes: dict[str, int] = {}
    for entry in entries:
        if entry.name.endswith((DELETED, TEMPORARY_SUFFIX)):
            storage.remove(f"{folder}/{entry.name}")
            changed = True
        else:
            sizes[entry.name] = entry.size
    return sizes, changed


def _files(storage: Storage, folder: str) -> list[FolderEntry]:
    return [entry for entry in storage.list(folder) if not entry.is_folder]
