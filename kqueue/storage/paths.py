"""Relative paths: which of them a storage accepts."""

from __future__ import annotations

TEMPORARY_SUFFIX = ".tmp"


def check_path(path: str) -> str:
    """Return `path` if it names something below the root ("" is the root itself).

    Raises: ValueError: it has an empty part, ".", "..", a backslash or a NUL.
    """
    if not path:
        return path
    for part in path.split("/"):
        if part in ("", ".", "..") or "\\" in part or "\0" in part:
            raise ValueError(f"{path!r} is no path under the storage's root")
    return path


def parent_of(path: str) -> str:
    """Return the folder that holds `path`; "" for a path directly below the root."""
    return path.rpartition("/")[0]
