"""Locks that the kernel releases when a process dies, however it dies: one byte of a file each.

Open file description locks (Linux 3.15): unlike POSIX record locks they exclude other stores of
this process too, survive the closing of other descriptors, and are probed without being taken. A
process that forks without exec shares its locks with the child. Where the system or file system has
none, `acquire` returns False.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
import threading
from collections.abc import Iterable

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_FLOCK = struct.Struct("@hhqqi")
"""struct flock of 64-bit Linux: type, whence, start, length, pid."""


def _command(name: str) -> int | None:
    if fcntl is None or not sys.platform.startswith("linux") or sys.maxsize < 2**32:
        return None
    return getattr(fcntl, name, None)


_SET, _GET = _command("F_OFD_SETLK"), _command("F_OFD_GETLK")


class SessionLocks:
    """Locks on bytes of the file at `path`, which is created, with mode 0600, by the first call.

    Args:
        path: None: there are no locks, as on a system without them.
        fd: the open file of another process's object, whose locks this one shares.
    Thread: any.
    """

    def __init__(self, path: str | None, fd: int | None = None) -> None:
        self._path = path
        self._fd = fd
        self._mutex = threading.Lock()

    def fileno(self) -> int | None:
        """Return the open file, for another process to share; None: there are no locks."""
        with self._mutex:
            try:
                return self._open() if _SET is not None else None
            except OSError:
                return None

    def acquire(self, number: int) -> bool:
        """Lock byte `number`; whether it is locked now by this object."""
        with self._mutex:
            if _SET is None or fcntl is None:
                return False
            try:
                fcntl.fcntl(self._open(), _SET, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0))
            except OSError:
                return False
            return True

    def release(self, number: int) -> None:
        """Unlock byte `number`, if it is locked by this object."""
        with self._mutex:
            if self._fd is not None and _SET is not None and fcntl is not None:
                with contextlib.suppress(OSError):
                    fcntl.fcntl(self._fd, _SET, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, number, 1, 0))

    def release_others(self, numbers: Iterable[int]) -> None:
        """Unlock all bytes but `numbers`."""
        start = 0
        with self._mutex:
            if self._fd is None or _SET is None or fcntl is None:
                return
            for number in (*sorted(numbers), None):
                length = 0 if number is None else number - start  # 0: up to the end
                if number is None or length:
                    with contextlib.suppress(OSError):
                        fcntl.fcntl(self._fd, _SET, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, start, length, 0))
                if number is not None:
                    start = number + 1

    def is_held(self, number: int) -> bool:
        """Whether byte `number` may be locked, by another object than this; True: unknown, too."""
        with self._mutex:
            if _GET is None or fcntl is None:
                return True
            try:
                answer = fcntl.fcntl(self._open(), _GET, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0))
            except OSError:
                return True
            return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)

    def close(self) -> None:
        """Release all locks. A second call has no effect."""
        with self._mutex:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None

    def _open(self) -> int:
        if self._path is None:
            raise OSError("no file")
        if self._fd is None:
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
            self._fd = os.open(self._path, flags, 0o600)
        return self._fd
