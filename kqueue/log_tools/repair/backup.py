"""The backup that precedes a repair; its folder gets its name once it is complete and on disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kqueue.log_tools.errors import RepairRefused
from kqueue.storage import Storage

PARTIAL = ".partial"
CHUNK_BYTES = 4 * 1024 * 1024
RESERVE_BYTES = 16 * 1024 * 1024  # file system overhead, and the small files that are rebuilt


def check_free_space(source: Storage, target: Storage, copy_bytes: int, work_bytes: int) -> None:
    """Raise RepairRefused unless there is space for the backup and for one rewritten segment.

    Args:
        copy_bytes: size of the backup.
        work_bytes: size of the largest segment.
    """
    # both may be on one disk, so the backup's storage needs the space for both
    for storage, needed in ((target, copy_bytes + work_bytes + RESERVE_BYTES), (source, work_bytes + RESERVE_BYTES)):
        free = storage.free_bytes()
        if free is not None and free < needed:
            raise RepairRefused(f"a repair needs {needed} bytes in {storage.location}, {free} are free")


def check_backup_folder(target: Storage, name: str) -> None:
    """Raise RepairRefused unless the backup's folder is missing or empty."""
    if target.exists(name):
        try:
            entries = target.list(name)
        except (OSError, NotADirectoryError) as error:
            raise RepairRefused(f"{target.location}/{name} can't take the copy: {error}") from error
        if entries:
            raise RepairRefused(f"{target.location}/{name} is not empty, and a copy needs a folder of its own")


def copy_files(
    source: Storage, files: Sequence[str], target: Storage, name: str, progress: Callable[[int], None]
) -> None:
    """Copy these files, with their parent folders, to the folder `name`.

    Durability: a crash before the return leaves at most a folder `name`.partial, which the next
        attempt reuses; after it everything is on disk.
    Raises: StorageFailed.
    """
    partial = name + PARTIAL
    target.make_folder(partial)
    folders = {path.rpartition("/")[0] for path in files}
    for folder in sorted(folders - {""}):
        target.make_folder(f"{partial}/{folder}")
    for path in files:
        _copy(source, path, target, f"{partial}/{path}", progress)
    for folder in sorted(folders | {""}):
        target.sync_folder(f"{partial}/{folder}" if folder else partial)
    if target.exists(name):
        target.remove(name)
    target.rename(partial, name)
    target.sync_folder("")


def _copy(source: Storage, path: str, target: Storage, to: str, progress: Callable[[int], None]) -> None:
    old, new = source.open(path), target.open(to, create=True)
    new.truncate(0)
    position = 0
    while data := old.read_at(position, CHUNK_BYTES):
        new.append(data)
        position += len(data)
        progress(len(data))
    new.sync()
    old.close()
    new.close()
