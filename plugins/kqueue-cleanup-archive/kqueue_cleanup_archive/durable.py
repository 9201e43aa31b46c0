"""Makes what was written survive a power cut. Object stores promise that by themselves; a local
disk has to be told.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


def sync_file(filesystem: FileSystem, path: str) -> None:
    """The bytes of a file. Raises OSError: nobody knows what the disk has of it."""
    local = _local(filesystem, path)
    if local is not None:
        _sync(local)


def sync_folders(filesystem: FileSystem, path: str) -> None:
    """The names in a folder, and those of the folder and all above it, which may be as new. Raises
    OSError.
    """
    local = _local(filesystem, path)
    if local is not None and os.name != "nt":  # Windows has no descriptors of folders
        _sync(local)
        for folder in local.parents:
            with contextlib.suppress(PermissionError):  # a folder that is not ours was there before
                _sync(folder)


def _local(filesystem: FileSystem, path: str) -> Path | None:
    """Where this is on a disk of this machine; None: it is not."""
    from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

    if isinstance(filesystem, SubTreeFileSystem):
        return _local(filesystem.base_fs, filesystem.base_path + path)
    return Path(path) if isinstance(filesystem, LocalFileSystem) else None


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
