"""Finds the files that names and patterns match, and recognises the names that a rotation gives."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".zip", ".Z")
FileId = tuple[int, int]  # device and inode


class DiscoveredFile(NamedTuple):
    """A regular file, under the first matching name."""

    path: str
    id: FileId
    modified_ns: int


def find_files(patterns: Iterable[str], ignored: Collection[str] = ()) -> list[DiscoveredFile]:
    """Return the matching regular files, each once, the least recently modified first.

    A file with a compressed file's suffix matches by its exact name only, not by a pattern.

    Args:
        ignored: absolute paths to leave out.
    """
    files: dict[FileId, DiscoveredFile] = {}
    for path in _paths(patterns):
        status = _status(path)
        if status is not None and path not in ignored:
            files.setdefault(id_of(status), DiscoveredFile(path, id_of(status), status.st_mtime_ns))
    return sorted(files.values(), key=lambda file: (file.modified_ns, file.path))


def siblings(path: str) -> list[DiscoveredFile]:
    """Return the other regular files in the folder of `path`, the most recently modified first."""
    folder = Path(path).parent
    try:
        paths = [str(other) for other in folder.iterdir() if other.name != Path(path).name]
    except OSError:
        return []
    return sorted(find_files(paths), key=lambda file: -file.modified_ns)


def is_rotated_name(name: str, original: str) -> bool:
    """Return whether a rotation may have renamed `original` to this name.

    ``app.log`` becomes ``app.log.1``, ``app.log-20260131`` or ``app-1.log``.
    """
    if name.endswith(COMPRESSED):
        return False
    stem, dot, suffix = original.rpartition(".")
    if re.fullmatch(re.escape(original) + r"[._-]\d[\w.:-]*", name):
        return True
    return bool(dot and stem and re.fullmatch(re.escape(stem) + r"[._-]\d[\w:-]*" + re.escape(dot + suffix), name))


def id_of(status: os.stat_result) -> FileId:
    """Return device and inode."""
    return status.st_dev, status.st_ino


def _paths(patterns: Iterable[str]) -> Iterator[str]:
    for pattern in patterns:
        if not glob.has_magic(pattern) or os.path.lexists(pattern):
            yield str(Path(pattern).absolute())
            continue
        for path in glob.iglob(pattern, recursive=True):  # noqa: PTH207 - patterns may be absolute
            if not path.endswith(COMPRESSED):
                yield str(Path(path).absolute())


def _status(path: str) -> os.stat_result | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None
