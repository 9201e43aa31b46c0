"""Makes written files survive a power failure.

Object stores guarantee that on return. A local disk needs an explicit fsync.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


def sync_file(filesystem: FileSystem, path: str) -> None:
    """Sync the bytes of a local file. Raises: OSError: what the disk holds is unknown."""
    local = _local(filesystem, path)
    if local is not None:
        _sync(local)


def sync_folders(filesystem: FileSystem, path: str) -> None:
    """Sync the entries of a local folder and of all its parents, which may be new too.

    Raises: OSError.
    """
    local = _local(filesystem, path)
    if local is not None and os.name != "nt":  # Windows can't open a folder for fsync
        _sync(local)
        for folder in local.parents:
            with contextlib.suppress(PermissionError):  # a folder of another user existed before
                _sync(folder)


def _local(filesystem: FileSystem, path: str) -> Path | None:
    """Return the path on a local disk; None: the filesystem is not local."""
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
