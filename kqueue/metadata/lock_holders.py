"""Finds and kills a committer process that holds the write lock of an SQLite file and does not run.

SQLite's locks are POSIX record locks. A process that is stopped (SIGSTOP, a debugger, a frozen
container) keeps them until it goes on or dies. A committer (`sqlite_committer`) has no state but
its transaction, so killing it costs a transaction, which SQLite rolls back. No other process is
ever killed.

The kernel names the holder of a lock (F_GETLK). A pidfd is opened first and the lock is looked at
again through it, so a process that got the number of a dead one is not killed in its place.

Linux only: elsewhere nothing is found, and a lock is waited for.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import sys

from kqueue.base.clock import monotonic_s

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

COMMITTER_MARK = "kqueue.metadata.committer_main"
"""An argument of each committer's command line."""
LOOK_INTERVAL_S = 0.05
STOPPED_S = 0.5
"""A process that is stopped for so long is stuck."""
IDLE_S = 5.0
"""A process that is frozen: for so long it neither ran, nor could, nor waited for a disk."""
# Bytes of the file `-shm` (SQLite's walformat.html): write lock, recovery, and the opening of it.
_LOCK_BYTES = (120, 122, 128)
_FLOCK = struct.Struct("@hhqqi")  # struct flock of 64-bit Linux: type, whence, start, length, pid
_RUNNING, _DISK_SLEEP, _STOPPED = "R", "D", "Tt"


class StuckWatch:
    """Tells whether a process does not run, from several looks at it."""

    def __init__(self) -> None:
        self._seen: tuple[int, str, bytes] | None = None
        self._since_s = 0.0

    def is_stuck(self, pid: int) -> bool:
        """Look at the process. True: it has not run since a look `STOPPED_S`, or `IDLE_S`, ago."""
        state, runtime = _activity(pid)
        now_s = monotonic_s()
        if state in ("", _RUNNING, _DISK_SLEEP):
            self._seen = None
            return False
        if self._seen != (pid, state, runtime):
            self._seen, self._since_s = (pid, state, runtime), now_s
        return now_s - self._since_s >= (STOPPED_S if state in _STOPPED else IDLE_S)


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped by a signal or a debugger; False where that is not known."""
    return _activity(pid)[0] in tuple(_STOPPED)


class LockHolders:
    """The processes that hold the locks of the file at `path`, seen by one that waits for them.

    It opens `-shm` and never closes it, as that would release the locks of its own process. So it
    is for a process that ends with its connection, and has used that before.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd: int | None = None
        self._watch = StuckWatch()
        self._looked_s = 0.0

    def look(self) -> None:
        """Kill a committer that holds a lock and is stuck. To be called again and again."""
        now_s = monotonic_s()
        if now_s - self._looked_s < LOOK_INTERVAL_S or fcntl is None or not hasattr(os, "pidfd_open"):
            return
        self._looked_s = now_s
        holder = self._holder()
        if holder is None or not self._watch.is_stuck(holder) or not _is_committer(holder):
            return
        with contextlib.suppress(OSError):  # it has ended, or belongs to another user
            pidfd = os.pidfd_open(holder)
            try:
                if self._holder() == holder and _is_committer(holder):
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            finally:
                os.close(pidfd)

    def _holder(self) -> int | None:
        """Return the process that keeps writers out; None: none does, or it can't be seen."""
        if sys.maxsize < 2**32 or not sys.platform.startswith("linux"):
            return None
        try:
            if self._fd is None:
                self._fd = os.open(self._path + "-shm", os.O_RDONLY | os.O_CLOEXEC)
            for start in _LOCK_BYTES:
                asked = _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, start, 1, 0)
                kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(self._fd, fcntl.F_GETLK, asked))
                if kind != fcntl.F_UNLCK and pid > 0:
                    return int(pid)
        except OSError:
            pass
        return None


def _activity(pid: int) -> tuple[str, bytes]:
    """Return a process's state, as a letter of `proc(5)`, and its run time; empty: unknown."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return fields[0].decode(), b" ".join(fields[11:13] + fields[19:20])  # utime, stime, start time
    except (OSError, IndexError):
        return "", b""


def _is_committer(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return COMMITTER_MARK.encode() in file.read().split(b"\0")
    except OSError:
        return False
