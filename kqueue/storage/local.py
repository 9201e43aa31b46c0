"""Storage on a local disk.

Symbolic links below the root are not followed, because a link could redirect writes and deletions
out of the data folder. The root itself may be a link. Folders and files are created with modes 0700
and 0600, unless the storage is not private.

A file opens its descriptor on first use. `descriptor_cache` closes it again when many files are
open. Platforms without fdatasync or F_FULLFSYNC use fsync.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path

from kqueue.base.clock import wall_ns
from kqueue.base.errors import StorageFailed
from kqueue.storage.contract import FolderEntry, Region
from kqueue.storage.descriptor_cache import Descriptor, DescriptorCache, fail
from kqueue.storage.locks import LocalLock
from kqueue.storage.paths import TEMPORARY_SUFFIX, check_path, parent_of

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


def _sync_descriptor(fd: int) -> None:
    if _FULL_SYNC is not None and fcntl is not None:  # macOS: fsync leaves the data in the drive's cache
        fcntl.fcntl(fd, _FULL_SYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)


class LocalFile:
    """A file on disk; see `contract.File`. It has one writer: the object tracks the end of the
    file.

    Attributes:
        unsynced: bytes were written since the last sync began.
        used: the file was used since `DescriptorCache` last examined it.
        kept: the file is in the cache.
    """

    __slots__ = (
        "__weakref__", "_descriptor", "_descriptors", "_failure", "_path", "_shared", "_size", "_sync_lock",
        "kept", "unsynced", "used",
    )  # fmt: skip

    def __init__(self, path: str, descriptors: DescriptorCache, size: int | None) -> None:
        self._path = path
        self._descriptors = descriptors
        self._size = size
        self._descriptor: Descriptor | None = None
        self._shared: weakref.ref[Descriptor] | None = None  # the last descriptor, while a region holds it
        self._failure: str | None = None  # of a sync or close; every later change raises it
        self._sync_lock: threading.Lock | None = None
        self.unsynced = False
        self.used = False
        self.kept = False

    @property
    def size(self) -> int:
        if self._size is None:
            try:
                self._size = os.stat(self._path).st_size  # noqa: PTH116  cheaper than a Path
            except OSError as error:
                fail("look at", self._path, error)
        return self._size

    def append(self, data: bytes | bytearray | memoryview) -> int:
        descriptor = self._descriptor or self._open()
        self.used = True
        position = self._size if self._size is not None else self.size
        if not self.unsynced:
            self._begin_change()
        try:
            written = os.pwrite(descriptor.fd, data, position)
            while written < len(data):  # a full disk may write a part first
                with memoryview(data) as view:
                    written += os.pwrite(descriptor.fd, view[written:], position + written)
        except OSError as error:
            fail("write to", self._path, error)
        self._size = position + written
        if self._descriptor is not descriptor:  # another thread evicted it before it was unsynced
            self._descriptor = descriptor
        return position

    def read_at(self, position: int, size: int) -> bytes:
        descriptor = self._descriptor or self._open()
        self.used = True
        return descriptor.read_at(position, size)

    def truncate(self, size: int) -> None:
        assert size <= self.size, "truncate never grows a file"
        descriptor = self._descriptor or self._open()
        if not self.unsynced:
            self._begin_change()
        try:
            os.ftruncate(descriptor.fd, size)
        except OSError as error:
            fail("truncate", self._path, error)
        self._size = size
        self._descriptor = descriptor

    def sync(self) -> None:
        # Runs beside the owner's appends and beside other syncs. The lock serializes syncs, because
        # the kernel reports a write-back error to only one of two concurrent calls.
        with self._sync_lock or self._lock_of_syncs():
            self._check()
            descriptor = (
                self._descriptor or self._shared_descriptor() or self._descriptors.open(self._path, weakref.ref(self))
            )
            self.unsynced = False
            self._descriptors.syncing(self)
            try:
                _sync_descriptor(descriptor.fd)
            except OSError as error:
                self.close_failed(error)
                self.unsynced = False  # the next append then checks the failure
                self._check()
        if self._descriptor is not None and not self.kept:
            self._descriptors.synced(self)

    def write_back(self) -> None:
        """Sync unsynced bytes. It never raises: the file's next change or sync raises the error."""
        if self.unsynced and self._descriptor is not None:
            with contextlib.suppress(StorageFailed):
                self.sync()

    def region(self, position: int, size: int) -> Region:
        descriptor = self._descriptor or self._open(for_region=True)
        self.used = True
        return Region(descriptor, position, size)

    def age_ms(self) -> int | None:
        try:
            modified_ns = os.stat(self._path).st_mtime_ns  # noqa: PTH116  cheaper than a Path
        except OSError as error:
            fail("look at", self._path, error)
        return max((wall_ns() - modified_ns) // 1_000_000, 0)

    def close(self) -> None:
        self._descriptor = self._shared = None

    def evict(self) -> bool:
        """Release the descriptor if the file was not used since the last call; False: still in
        use.
        """
        if self.used or (self.unsynced and self._descriptor is not None):
            self.used = False
            return False
        self._descriptor = None
        return True

    def close_failed(self, error: OSError) -> None:
        """Record that a sync or close failed: written bytes may be lost, even if a later sync
        succeeds.
        """
        if self._failure is None:
            name = errno.errorcode.get(error.errno or 0, "OSError")
            self._failure = f"can't sync {self._path}: {name}, {error.strerror}"

    def _open(self, *, for_region: bool = False) -> Descriptor:
        descriptor = self._shared_descriptor()
        if descriptor is None:
            descriptor = self._descriptors.open(self._path, weakref.ref(self), for_region=for_region)
            self._shared = weakref.ref(descriptor)
        self._descriptor = descriptor
        self._descriptors.keep(self)
        return descriptor

    def _shared_descriptor(self) -> Descriptor | None:
        return self._shared() if self._shared is not None else None

    def _begin_change(self) -> None:
        """Raises StorageFailed: an earlier sync failed."""
        if self._failure is not None:
            self._check()
        self.unsynced = True
        self._descriptors.wrote(self)

    def _check(self) -> None:
        if self._failure is not None:
            raise StorageFailed(self._failure)

    def _lock_of_syncs(self) -> threading.Lock:
        if self._sync_lock is None:
            with self._descriptors.lock:
                self._sync_lock = self._sync_lock or threading.Lock()
        return self._sync_lock


class LocalStorage:
    """A folder of a local disk, created if it is missing.

    Args:
        descriptors: the descriptor cache; several storages may share one. None: a new cache.
        private: create files and folders for this user only; False: as the umask allows.
    Raises: StorageFailed: the folder can't be created.
    """

    def __init__(self, root: str | Path, descriptors: DescriptorCache | None = None, *, private: bool = True) -> None:
        self._root = os.path.abspath(root)  # noqa: PTH100  a string, for speed and for short paths
        self._descriptors = DescriptorCache() if descriptors is None else descriptors
        self._folder_mode, self._file_mode = (0o700, 0o600) if private else (0o777, 0o666)
        try:
            os.makedirs(self._root, self._folder_mode, exist_ok=True)  # noqa: PTH103
        except OSError as error:
            raise StorageFailed(f"can't make data folder {self._root}: {error.strerror}") from error

    @property
    def location(self) -> str:
        return self._root

    @property
    def opener(self) -> Callable[[], LocalStorage]:
        return partial(LocalStorage, self._root, private=self._folder_mode == 0o700)

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> LocalFile:
        full = self._full(path)
        self._check_folder(parent_of(path))
        if create:
            size = self._create(full)
        file = LocalFile(full, self._descriptors, size)
        if size is None:
            file.size  # noqa: B018  raises FileNotFoundError
        return file

    def read(self, path: str) -> bytes:
        full = self._full(path)
        try:
            self._check_folder(parent_of(path))
            fd = self._descriptors.call(lambda: os.open(full, os.O_RDONLY | _FLAGS))
            with open(fd, "rb") as file:
                return file.read()
        except OSError as error:
            fail("read", full, error)

    def exists(self, path: str) -> bool:
        return os.path.lexists(self._full(path))

    def list(self, folder: str) -> list[FolderEntry]:
        full = self._full(folder)
        self._check_folder(folder)
        try:
            with self._descriptors.call(lambda: os.scandir(full)) as items:
                entries = [self._entry(item) for item in items]
        except OSError as error:
            fail("list", full, error)
        return sorted(entries)

    def make_folder(self, path: str) -> None:
        full = self._full(path)
        if parent_of(path):
            self.make_folder(parent_of(path))
        try:
            os.mkdir(full, self._folder_mode)  # noqa: PTH102
        except FileExistsError:
            self._check_folder(path)
        except OSError as error:
            fail("make folder", full, error)

    def remove(self, path: str) -> None:
        full = self._full(path)
        self._check_folder(parent_of(path))
        try:
            try:
                os.unlink(full)  # noqa: PTH108
            except (IsADirectoryError, PermissionError):  # macOS raises PermissionError
                os.rmdir(full)  # noqa: PTH106
        except OSError as error:
            fail("remove", full, error)

    def rename(self, old: str, new: str) -> None:
        full_old, full_new = self._full(old), self._full(new)
        self._check_folder(parent_of(old))
        self._check_folder(parent_of(new))
        try:
            os.replace(full_old, full_new)  # noqa: PTH105
        except OSError as error:
            fail(f"rename to {new}", full_old, error)

    def sync_folder(self, folder: str) -> None:
        full = self._full(folder)
        if os.name == "nt":  # Windows can't open folders
            return
        self._check_folder(folder)
        try:
            fd = self._descriptors.call(lambda: os.open(full, os.O_RDONLY))
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            fail("sync folder", full, error)

    def write_atomic(self, path: str, data: bytes) -> None:
        full = self._full(path)
        temporary = full + TEMPORARY_SUFFIX
        self._check_folder(parent_of(path))
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)  # noqa: PTH108  left by an interrupted write; or a link
            fd = self._descriptors.call(
                lambda: os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, self._file_mode)
            )
            with open(fd, "wb") as file:
                file.write(data)
                file.flush()
                _sync_descriptor(file.fileno())
            os.replace(temporary, full)  # noqa: PTH105
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # noqa: PTH108  it would use room on a full disk
            fail("write", full, error)
        self.sync_folder(parent_of(path))

    def lock(self, name: str) -> LocalLock:
        full = self._full(name)
        try:
            return self._descriptors.call(lambda: LocalLock(full, self._file_mode))
        except OSError as error:
            fail("lock", full, error)

    def free_bytes(self) -> int | None:
        with contextlib.suppress(OSError, AttributeError):
            status = os.statvfs(self._root)
            return status.f_bavail * status.f_frsize
        return None

    def total_bytes(self) -> int | None:
        with contextlib.suppress(OSError, AttributeError):
            status = os.statvfs(self._root)
            return status.f_blocks * status.f_frsize
        return None

    def _full(self, path: str) -> str:
        return f"{self._root}/{check_path(path)}" if path else self._root

    def _check_folder(self, folder: str) -> None:
        """Check a folder below the root and its parents. Raises: StorageFailed: one of them is a
        symbolic link or a file.
        """
        while folder:
            full = self._full(folder)
            try:
                mode = os.lstat(full).st_mode
            except OSError as error:
                fail("look at", full, error)
            if not stat.S_ISDIR(mode):
                raise StorageFailed(f"{full}: expected a folder, found {_kind_of(mode)}")
            folder = parent_of(folder)

    def _create(self, full: str) -> int:
        try:
            fd = self._descriptors.call(lambda: os.open(full, os.O_RDWR | os.O_CREAT | _FLAGS, self._file_mode))
            try:
                return os.fstat(fd).st_size
            finally:
                os.close(fd)
        except OSError as error:
            fail("create", full, error)

    @staticmethod
    def _entry(item: os.DirEntry[str]) -> FolderEntry:
        if item.is_dir(follow_symlinks=False):
            return FolderEntry(item.name, 0, True)
        if not item.is_file(follow_symlinks=False):
            return FolderEntry(item.name, 0, False)
        try:
            return FolderEntry(item.name, item.stat(follow_symlinks=False).st_size, False)
        except FileNotFoundError:  # removed during the listing
            return FolderEntry(item.name, 0, False)


def _kind_of(mode: int) -> str:
    return (
        "a symbolic link, which is not followed"
        if stat.S_ISLNK(mode)
        else "a file"
        if stat.S_ISREG(mode)
        else stat.filemode(mode)
    )
