"""The copy that is made before anything is mended: under its name only when it is whole and on
disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kqueue.log_tools.errors import RepairRefused
from kqueue.storage import Storage

PARTIAL = ".partial"
CHUNK_BYTES = 4 * 1024 * 1024
ROOM_BYTES = 16 * 1024 * 1024  # for what file systems need besides, and for the small files that are made


def check_free_space(source: Storage, target: Storage, copy_bytes: int, work_bytes: int) -> None:
    """Whether there is room for a copy of `copy_bytes`, and for a new segment of `work_bytes`
    beside the old. Raises RepairRefused.
    """
    # the two may share a disk, so the copy's needs room for both
    for storage, needed in ((target, copy_bytes + work_bytes + ROOM_BYTES), (source, work_bytes + ROOM_BYTES)):
        free = storage.free_bytes()
        if free is not None and free < needed:
            raise RepairRefused(f"a repair needs {needed} bytes in {storage.location}, {free} are free")


def check_backup_folder(target: Storage, name: str) -> None:
    """The copy's folder must not be there, or be empty. Raises RepairRefused."""
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
    """Copy these files to the folder `name`, with the folders that they are in.

    Crash: before it returns there is at most a folder `name`.partial, which the next try takes
    over; afterwards all of it is durable. Raises StorageFailed.
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
