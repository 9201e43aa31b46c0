"""Locks that exclude other threads and processes from changing the same objects of a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol
from zlib import crc32

from kqueue.tier.errors import TierError, TierUnavailable

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

STRIPES = 64
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


class KeyLocks(Protocol):
    """Locks on keys. Several keys may share a lock, so nobody holds two at a time."""

    def held(self, key: str) -> AbstractContextManager[object]:
        """Return a context manager in which no other thread or process holds the lock of `key`."""
        ...


class FolderLocks:
    """Locks by flock on one of some files in a folder, which is made when it is missing.

    flock belongs to an open file: it excludes other threads of the process as well, ends with the
    process, and works on NFS between machines. The files are never removed: a process that waits
    for the lock of a removed file would get it beside the process that made a new one.

    Raises: TierError: the platform has no flock.
    """

    def __init__(self, folder: str) -> None:
        if fcntl is None:
            raise TierError(f"file://{folder}: this platform has no flock: use an object store")
        self._folder = folder

    @contextmanager
    def held(self, key: str) -> Iterator[None]:
        """See `KeyLocks`. Blocks. Raises: TierUnavailable: the lock can't be taken."""
        path = os.path.join(self._folder, f"{crc32(key.encode()) % STRIPES}.lock")  # noqa: PTH118  a string, as below
        try:
            fd = self._open(path)
        except OSError as error:
            raise TierUnavailable(f"can't open the lock {path}: {error.strerror}") from error
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
            except OSError as error:
                raise TierUnavailable(f"can't lock {path}: {error.strerror}") from error
            yield
        finally:
            os.close(fd)  # unlocks it: no other descriptor is of this open file

    def _open(self, path: str) -> int:
        try:
            return os.open(path, _FLAGS, 0o600)
        except FileNotFoundError:
            os.makedirs(self._folder, 0o700, exist_ok=True)  # noqa: PTH103
            return os.open(path, _FLAGS, 0o600)
