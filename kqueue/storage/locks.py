"""Locks on data folders. They exclude other processes, other brokers of this process, and Kafka.

A `LocalLock` holds two kernel locks, because each covers a case that the other does not:

- flock on a descriptor of the folder. It belongs to that descriptor: it excludes a second holder in
  the same process, survives the closing of other descriptors, and can't be removed by deleting a
  file. Kafka does not check it.
- A POSIX record lock on the lock file, which Kafka's JVM takes too. It belongs to the process,
so it
  does not exclude a second holder in the same process. The kernel drops it when the process closes
  *any* descriptor of that file.

Therefore a process-wide table of held locks prevents a second open of a held lock file. On file
systems without flock on folders (NFS) the POSIX lock and the table remain. On Windows only the
table remains.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading

from kqueue.base.errors import FolderInUse, FolderLost, StorageFailed

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FileId = tuple[int, int]
"""Device and inode: equal for every path of a file, through symbolic links and bind mounts too."""

OPEN_ATTEMPTS_MAX = 10
_CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0)
_held: set[LocalLock] = set()
_held_guard = threading.Lock()


class LocalLock:
    """Lock on the folder of the lock file `path`, which is created if it is missing; see
    `contract.Lock`.

    Args: mode: of a created lock file.
    Raises:
        FolderInUse: this process or another one holds the lock.
        StorageFailed: the lock file is not a regular file.
        OSError.
    Thread: `check` and `release` may be called from different threads.
    """

    def __init__(self, path: str, mode: int = 0o600) -> None:
        self._path = path
        self._mode = mode
        self._folder = os.path.dirname(path)  # noqa: PTH120  a string, as in `local`
        self._mutex = threading.Lock()
        self._folder_fd: int | None = None
        self._file_fd: int | None = None
        with _held_guard:
            self._folder_id = _id_of(os.stat(self._folder))  # noqa: PTH116
            if any(lock._folder_id == self._folder_id for lock in _held):
                raise FolderInUse(f"{path} is locked by another broker of this process")
            try:
                self._folder_fd = _lock_folder(self._folder, path)
                self._file_fd, self._file_id = _lock_file(path, mode)
            except BaseException:
                self._close()
                raise
            _held.add(self)

    def check(self) -> str | None:
        """See `contract.Lock.check`."""
        with self._mutex:
            if self._file_fd is None:
                return None
            try:
                return self._check()
            except OSError as error:
                raise StorageFailed(f"can't check the lock {self._path}: {error.strerror}") from error

    def _check(self) -> str | None:
        self._check_folder()
        file_id = _lock_file_id(self._path)
        if file_id == self._file_id:
            if not _take_record_lock(self._file_fd):
                raise FolderLost(f"{self._path} was unlocked, and is locked by another process now")
            return None
        with _held_guard:
            try:
                file_fd, self._file_id = _lock_file(self._path, self._mode)
            except FolderInUse:
                raise FolderLost(
                    f"{self._path} was replaced while it was locked, and the new file is locked by another process"
                ) from None
            old, self._file_fd = self._file_fd, file_fd
        assert old is not None
        os.close(old)
        return (
            f"{self._path} was {'removed' if file_id is None else 'replaced'} while it was locked; it is locked again"
        )

    def _check_folder(self) -> None:
        try:
            folder_id = _id_of(os.stat(self._folder))  # noqa: PTH116
        except FileNotFoundError:
            raise FolderLost(f"{self._folder} was removed or renamed while it was locked") from None
        if folder_id != self._folder_id:
            raise FolderLost(f"{self._folder} was replaced by another folder while it was locked")
        if self._folder_fd is not None and not _take_folder_lock(self._folder_fd):
            raise FolderLost(f"{self._folder} was unlocked, and is locked by another process now")

    def release(self) -> None:
        with self._mutex, _held_guard:
            _held.discard(self)
            if fcntl is not None and self._folder_fd is not None:
                with contextlib.suppress(
                    OSError
                ):  # a forked process may share the open file, and then close does not unlock it
                    fcntl.flock(self._folder_fd, fcntl.LOCK_UN)
            self._close()

    def _close(self) -> None:
        for fd in (self._folder_fd, self._file_fd):
            if fd is not None:
                os.close(fd)
        self._folder_fd = self._file_fd = None

    def _leave_to_parent(self) -> None:
        """Close the inherited descriptors in a forked process: the parent keeps both locks."""
        self._mutex = threading.Lock()
        with contextlib.suppress(OSError):
            self._close()


def _id_of(status: os.stat_result) -> FileId:
    return status.st_dev, status.st_ino


def _lock_file_id(path: str) -> FileId | None:
    """Return the id of the lock file; None: there is no file.

    Raises: StorageFailed: it is not a regular file.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        kind = stat.filemode(status.st_mode)
        raise StorageFailed(f"{path}: expected a regular file, found {kind}; remove it if no broker uses the folder")
    return _id_of(status)


def _lock_file(path: str, mode: int) -> tuple[int, FileId]:
    """Open and lock the lock file, created if it is missing; return its descriptor and id.

    Thread: the caller holds `_held_guard`.
    """
    for _ in range(OPEN_ATTEMPTS_MAX):
        present_id = _lock_file_id(path)
        if present_id is not None and any(lock._file_id == present_id for lock in _held):
            raise FolderInUse(f"{path} is locked by another broker of this process")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | _CLOSE_ON_EXEC | getattr(os, "O_NOFOLLOW", 0), mode)
        try:
            if not _take_record_lock(fd):
                raise FolderInUse(f"{path} is locked by another process")
            file_id = _id_of(os.fstat(fd))
            if _lock_file_id(path) == file_id:
                return fd, file_id
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)  # it was removed between open and lock: retry with the file that has the name now
    raise StorageFailed(f"{path} is removed or replaced again and again")


def _take_record_lock(fd: int | None) -> bool:
    """Take or keep the POSIX lock; False: another process holds it."""
    if fcntl is None:
        return True
    assert fd is not None
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise
        return False
    return True


def _lock_folder(folder: str, path: str) -> int | None:
    """Open and flock the folder; return its descriptor.

    Returns: None: the file system or platform has no flock on folders.
    """
    if fcntl is None:
        return None
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _CLOSE_ON_EXEC)
    try:
        if not _take_folder_lock(fd):
            raise FolderInUse(f"{path} is locked by another process")
    except OSError:
        os.close(fd)
        return None
    except BaseException:
        os.close(fd)
        raise
    return fd


def _take_folder_lock(fd: int) -> bool:
    """Take or keep the flock; False: another descriptor holds it. Raises: OSError: not
    supported.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _leave_all_to_parent() -> None:
    global _held_guard
    _held_guard = threading.Lock()
    for lock in _held:
        lock._leave_to_parent()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all_to_parent)
