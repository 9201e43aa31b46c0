"""Files on a local disk.

A file costs no descriptor until it is used, and loses it again when many others are: `Descriptors` keeps the ones in use,
maps included (a map holds a descriptor of its own). What a platform lacks has its plain fallback here: fdatasync, F_FULLFSYNC,
RWF_NOWAIT.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NoReturn

from kqueue.base.errors import StorageFailed
from kqueue.storage.contract import Entry, Region
from kqueue.storage.locks import LocalLock
from kqueue.storage.paths import TEMPORARY_SUFFIX, check_path, parent_of

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
try:
    import resource
except ImportError:
    resource = None  # type: ignore[assignment]

_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
_EMPTY = memoryview(b"")
DESCRIPTORS_MIN = 32
DESCRIPTORS_DEFAULT = 512


def default_limit() -> int:
    """How many descriptors one storage keeps by default: an eighth of what the process may have, since sockets need theirs."""
    if resource is None:
        return DESCRIPTORS_MIN
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed == resource.RLIM_INFINITY:
        return DESCRIPTORS_DEFAULT
    return min(max(allowed // 8, DESCRIPTORS_MIN), DESCRIPTORS_DEFAULT)


def _sync_descriptor(fd: int) -> None:
    if _FULL_SYNC is not None and fcntl is not None:  # macOS: fsync leaves the data in the drive's cache
        fcntl.fcntl(fd, _FULL_SYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def _fail(what: str, path: str, error: OSError) -> NoReturn:
    if isinstance(error, FileNotFoundError):
        raise error
    name = errno.errorcode.get(error.errno or 0, "OSError")
    raise StorageFailed(f"can't {what} {path}: {name}, {error.strerror}") from error


class Descriptor:
    """One open descriptor, closed when nobody refers to it any more; the `Source` of a local file's regions."""

    __slots__ = ("_close", "_path", "fd")

    def __init__(self, fd: int, path: str) -> None:
        self.fd = fd
        self._path = path
        self._close = os.close

    def __del__(self) -> None:
        self._close(self.fd)

    def read_at(self, position: int, size: int) -> bytes:
        try:
            data = os.pread(self.fd, size, position)
            if len(data) < size:
                data = self._read_rest(data, position, size)
            return data
        except OSError as error:
            _fail("read", self._path, error)

    def fileno(self) -> int | None:
        return self.fd

    def is_cached(self, position: int, size: int) -> bool:
        """Asks for the first and the last byte, without waiting for them."""
        if _NOWAIT is None or size == 0:
            return True
        probe = bytearray(1)
        try:
            for place in (position, position + size - 1):
                os.preadv(self.fd, [probe], place, _NOWAIT)
        except BlockingIOError:
            return False
        except OSError:  # a file system that doesn't know the flag
            return True
        return True

    def _read_rest(self, data: bytes, position: int, size: int) -> bytes:
        # one read gives at most 2 GiB, and may always give less than is there
        parts = [data]
        found = len(data)
        while found < size and parts[-1]:
            parts.append(os.pread(self.fd, size - found, position + found))
            found += len(parts[-1])
        return b"".join(parts)


class LocalFile:
    """A file on disk; see `contract.File`. Appends go to the end that this object knows: one writer per file."""

    __slots__ = ("_descriptor", "_descriptors", "_map", "_path", "_size", "kept", "unsynced", "used")

    def __init__(self, path: str, descriptors: Descriptors, size: int | None) -> None:
        self._path = path
        self._descriptors = descriptors
        self._size = size
        self._descriptor: Descriptor | None = None
        self._map: memoryview | None = None
        self.unsynced = False
        self.used = False  # since the last look of `Descriptors`
        self.kept = False  # `Descriptors` has it in its list

    @property
    def size(self) -> int:
        if self._size is None:
            try:
                self._size = os.stat(self._path).st_size  # noqa: PTH116  cheaper than a Path
            except OSError as error:
                _fail("look at", self._path, error)
        return self._size

    def append(self, data: bytes | bytearray | memoryview) -> int:
        descriptor = self._descriptor or self._open()
        self.used = True
        position = self._size if self._size is not None else self.size
        self.unsynced = True
        self._map = None
        try:
            written = os.pwrite(descriptor.fd, data, position)
            while written < len(data):  # a full disk takes a part first
                with memoryview(data) as view:
                    written += os.pwrite(descriptor.fd, view[written:], position + written)
        except OSError as error:
            _fail("write to", self._path, error)
        self._size = position + written
        return position

    def read_at(self, position: int, size: int) -> bytes:
        descriptor = self._descriptor or self._open()
        self.used = True
        return descriptor.read_at(position, size)

    def truncate(self, size: int) -> None:
        assert size <= self.size, "truncate never grows a file"
        descriptor = self._descriptor or self._open()
        self.unsynced = True
        self._map = None
        try:
            os.ftruncate(descriptor.fd, size)
        except OSError as error:
            _fail("truncate", self._path, error)
        self._size = size

    def sync(self) -> None:
        # May run beside the owner's appends. Unsynced files keep their descriptor (see Descriptors), so that an error which
        # the kernel met while writing back is reported to this very descriptor.
        descriptor = self._descriptor
        if descriptor is None:
            descriptor = self._descriptors.open(self._path)
        self.unsynced = False
        try:
            _sync_descriptor(descriptor.fd)
        except OSError as error:
            _fail("sync", self._path, error)

    def map(self) -> memoryview:
        if self._map is None:
            if self.size == 0:
                return _EMPTY
            descriptor = self._descriptor or self._open()
            try:
                self._map = memoryview(mmap.mmap(descriptor.fd, self.size, access=mmap.ACCESS_READ))
            except (OSError, ValueError) as error:
                raise StorageFailed(f"can't map {self._path}: {error}") from error
            if not self.unsynced:
                self._descriptor = None  # the map has a descriptor of its own, and stands in its place
        self.used = True
        return self._map

    def region(self, position: int, size: int) -> Region:
        descriptor = self._descriptor or self._open()
        self.used = True
        return Region(descriptor, position, size)

    def age_ms(self) -> int | None:
        try:
            modified_ns = os.stat(self._path).st_mtime_ns  # noqa: PTH116  cheaper than a Path
        except OSError as error:
            _fail("look at", self._path, error)
        return max((time.time_ns() - modified_ns) // 1_000_000, 0)

    def close(self) -> None:
        self._descriptor = None
        self._map = None

    def evict(self) -> bool:
        """Give up descriptor and map if they were not used since the last call; False: still in use."""
        if self.used or (self.unsynced and self._descriptor is not None):
            self.used = False
            return False
        self.close()
        return True

    def _open(self) -> Descriptor:
        descriptor = self._descriptors.open(self._path)
        self._descriptor = descriptor
        self._descriptors.keep(self)
        return descriptor


class Descriptors:
    """Bounds how many files of a storage are open at once; the ones not used for longest are closed first (second chance).

    Files with unsynced bytes are spared as long as there are fewer than twice `limit` open; then the oldest is synced first,
    on the spot. `limit` None: see `default_limit`. The lock serves opening alone.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = default_limit() if limit is None else limit
        assert self.limit >= 4
        self._open_files: deque[LocalFile] = deque()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._open_files)

    def open(self, path: str) -> Descriptor:
        """A new descriptor of an existing file, for reading and (where allowed) writing."""
        try:
            try:
                return Descriptor(os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0)), path)
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                    raise
                return Descriptor(os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)), path)
        except OSError as error:
            _fail("open", path, error)

    def keep(self, file: LocalFile) -> None:
        """Remember that `file` is open; closes others when there are too many."""
        if file.kept:
            return
        with self._lock:
            for _ in range(2 * len(self._open_files)):
                if len(self._open_files) < self.limit:
                    break
                oldest = self._open_files.popleft()
                oldest.kept = not oldest.evict()
                if oldest.kept:
                    self._open_files.append(oldest)
            if len(self._open_files) >= 2 * self.limit:
                oldest = self._open_files.popleft()
                oldest.kept = False
                oldest.sync()
                oldest.close()
            file.kept = True
            self._open_files.append(file)


class LocalStorage:
    """A folder of a local disk; made if it is not there. `descriptors` may be shared among several."""

    def __init__(self, root: str | Path, descriptors: Descriptors | None = None) -> None:
        self._root = os.path.abspath(root)  # noqa: PTH100  a string, for speed and for short paths
        self._descriptors = Descriptors() if descriptors is None else descriptors
        try:
            os.makedirs(self._root, exist_ok=True)  # noqa: PTH103
        except OSError as error:
            raise StorageFailed(f"can't make data folder {self._root}: {error.strerror}") from error

    @property
    def place(self) -> str:
        return self._root

    @property
    def opener(self) -> Callable[[], LocalStorage]:
        return partial(LocalStorage, self._root)

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> LocalFile:
        full = self._full(path)
        if create:
            size = self._create(full)
        file = LocalFile(full, self._descriptors, size)
        if size is None:
            file.size  # noqa: B018  raises where there is no such file
        return file

    def read(self, path: str) -> bytes:
        full = self._full(path)
        try:
            return Path(full).read_bytes()
        except OSError as error:
            _fail("read", full, error)

    def exists(self, path: str) -> bool:
        return os.path.lexists(self._full(path))

    def list(self, folder: str) -> list[Entry]:
        full = self._full(folder)
        try:
            with os.scandir(full) as found:
                entries = [self._entry(item) for item in found]
        except OSError as error:
            _fail("list", full, error)
        return sorted(entries)

    def make_folder(self, path: str) -> None:
        full = self._full(path)
        try:
            os.makedirs(full, exist_ok=True)  # noqa: PTH103
        except OSError as error:
            _fail("make folder", full, error)

    def remove(self, path: str) -> None:
        full = self._full(path)
        try:
            try:
                os.unlink(full)  # noqa: PTH108
            except (IsADirectoryError, PermissionError):  # macOS says the latter
                os.rmdir(full)  # noqa: PTH106
        except OSError as error:
            _fail("remove", full, error)

    def rename(self, old: str, new: str) -> None:
        full_old, full_new = self._full(old), self._full(new)
        try:
            os.replace(full_old, full_new)  # noqa: PTH105
        except OSError as error:
            _fail(f"rename to {new}", full_old, error)

    def sync_folder(self, folder: str) -> None:
        full = self._full(folder)
        if os.name == "nt":  # Windows has no descriptors of folders
            return
        try:
            fd = os.open(full, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            _fail("sync folder", full, error)

    def write_atomic(self, path: str, data: bytes) -> None:
        full = self._full(path)
        temporary = full + TEMPORARY_SUFFIX
        try:
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                _sync_descriptor(file.fileno())
            os.replace(temporary, full)  # noqa: PTH105
        except OSError as error:
            _fail("write", full, error)
        self.sync_folder(parent_of(path))

    def lock(self, name: str) -> LocalLock:
        full = self._full(name)
        try:
            return LocalLock(full)
        except OSError as error:
            _fail("lock", full, error)

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

    def _create(self, full: str) -> int:
        try:
            fd = os.open(full, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
            try:
                return os.fstat(fd).st_size
            finally:
                os.close(fd)
        except OSError as error:
            _fail("create", full, error)

    @staticmethod
    def _entry(item: os.DirEntry[str]) -> Entry:
        if item.is_dir():
            return Entry(item.name, 0, True)
        try:
            return Entry(item.name, item.stat().st_size, False)
        except FileNotFoundError:  # removed while we looked
            return Entry(item.name, 0, False)
