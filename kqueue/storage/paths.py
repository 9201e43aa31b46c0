"""Which relative paths a storage takes."""

from __future__ import annotations

TEMPORARY_SUFFIX = ".tmp"


def check_path(path: str) -> str:
    """Return `path` if it names something under the root ("" is the root), else raise ValueError."""
    if not path:
        return path
    for part in path.split("/"):
        if part in ("", ".", "..") or "\\" in part or "\0" in part:
            raise ValueError(f"{path!r} is no path under the storage's root")
    return path


def parent_of(path: str) -> str:
    """The folder that holds `path`."""
    return path.rpartition("/")[0]
