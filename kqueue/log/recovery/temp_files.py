"""What a crash leaves in a partition's folder: half-done compactions, deletions and replacements of
files.
"""

from __future__ import annotations

from kqueue.log.compaction import swap_files
from kqueue.log.formats.filenames import CLEANED, DELETED, SWAP
from kqueue.storage import Storage
from kqueue.storage.contract import FolderEntry
from kqueue.storage.paths import TEMPORARY_SUFFIX


def clear(storage: Storage, folder: str) -> tuple[dict[str, int], bool]:
    """Finish or undo all of it; the folder is made if it is not there. What nobody knows is left
    alone.

    Returns: the files that are left, bytes by name, and whether a name was changed that is not
    synced yet. Blocks. Raises: StorageFailed; CorruptBatch: a compaction can't be finished. Crash:
    the next start begins again.
    """
    if not storage.exists(folder):
        storage.make_folder(folder)
    entries = _files(storage, folder)
    names = [entry.name for entry in entries]
    changed = any(name.endswith((DELETED, CLEANED, SWAP)) for name in names) and swap_files.complete(
        storage, folder, names
    )
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
