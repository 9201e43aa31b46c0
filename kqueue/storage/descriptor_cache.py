"""Cache of file descriptors, and the process-wide bound on open log files.

`OpenFiles` counts every open descriptor of log files against a bound that leaves descriptors for
connections. Descriptors that only unsent regions hold count too. `DescriptorCache` is the cache of
one or more storages:

    clean files      at most `limit` keep their descriptor; second-chance eviction closes the
                     longest unused first
    unsynced files   always keep theirs, because the kernel reports a write-back error only to
                     descriptors that are open then; above `limit`, with half of the bound in use,
                     the oldest are synced in jobs
    regions          a region and its file share one descriptor; at three quarters of the bound no
                     descriptor is opened for a region, so readers can't block writers

At half of the bound `OpenFiles.on_scarce` is called, and the server closes connections that hold
unsent regions. At the bound an open raises TooManyOpenFiles, as it does where the system refuses. A
sync error is raised only by the file that it concerns.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NoReturn, Protocol, TypeVar

from kqueue.base import events
from kqueue.base.clock import monotonic_s
from kqueue.base.errors import DiskFull, StorageFailed, TooManyOpenFiles

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

T = TypeVar("T")
logger = logging.getLogger("kqueue.storage")
_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)
_FLAGS = getattr(os, "O_NOFOLLOW", 0)  # Python adds O_CLOEXEC
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE})
"""The process or the system has too many open files. The disk is not at fault."""
LIMIT_MIN = 32
LIMIT_DEFAULT = 512
BOUND_MAX = 65_536
"""Most log files open at once, whatever the system allows: each costs about 1 KB in the kernel."""
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""No room on the disk, in the user's quota, or within the process's limit on file sizes."""
RESERVED_MIN, RESERVED_MAX = 32, 256
"""Descriptors reserved for everything else: listeners, jobs, the metadata store, and the program
that embeds a broker.
"""
UNSYNCED_MAX = 16_384
"""Most unsynced files of one cache; above it the oldest are always synced."""
WRITE_BACK_FILES = 32
"""Files synced in one job."""
EXAMINED_MAX = 64
"""Cached files that one open examines for eviction."""
WARNING_INTERVAL_S = 10.0


def open_files_allowed() -> int | None:
    """Return the process's limit on open files; None: there is no limit."""
    if resource is None:
        return None
    allowed: int = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if allowed == resource.RLIM_INFINITY else allowed


def default_limit() -> int:
    """Return how many clean files one cache keeps open by default: an eighth of the process's
    limit.

    The rest is for sockets.
    """
    allowed = open_files_allowed() if resource is not None else LIMIT_MIN * 8
    return LIMIT_DEFAULT if allowed is None else min(max(allowed // 8, LIMIT_MIN), LIMIT_DEFAULT)


def fail(what: str, path: str, error: OSError) -> NoReturn:
    """Raise the storage contract's exception for `error`, with path and reason.

    Raises: FileNotFoundError, TooManyOpenFiles, DiskFull, StorageFailed.
    """
    if isinstance(error, FileNotFoundError):
        raise error
    if error.errno == errno.ELOOP:
        raise StorageFailed(
            f"can't {what} {path}: it is a symbolic link, and those in a data folder are not followed"
        ) from error
    name = errno.errorcode.get(error.errno or 0, "OSError")
    kind: type[StorageFailed] = TooManyOpenFiles if error.errno in EXHAUSTED else StorageFailed
    if error.errno in NO_ROOM and not what.startswith("sync"):
        kind = DiskFull
    raise kind(f"can't {what} {path}: {name}, {error.strerror}") from error


class CachedFile(Protocol):
    """The part of a file that the cache uses."""

    kept: bool
    unsynced: bool

    def evict(self) -> bool:
        """Release the descriptor if the file was not used since the last call; False: still in
        use.
        """
        ...

    def write_back(self) -> None:
        """Sync without raising: the file's next append or sync raises the error."""
        ...

    def close_failed(self, error: OSError) -> None:
        """Record that closing the descriptor failed: bytes written through it may be lost."""
        ...


class OpenFiles:
    """Counts open descriptors against a bound. The process has one, `PROCESS`; tests use their own.

    Attributes:
        claims: callables that return how many descriptors other users have (connections).
        on_scarce: called when a file is opened while half of the bound is in use. Thread: any, so
            each must return at once.
    """

    def __init__(self, bound: int | None = None, clock: Callable[[], float] = monotonic_s) -> None:
        """Args: bound: a fixed bound; None: computed from the process's limit."""
        self.live: set[int] = set()
        self.claims: list[Callable[[], int]] = []
        self.on_scarce: list[Callable[[], None]] = []
        self._fixed = bound
        self._clock = clock
        self._logged_at: float | None = None

    @property
    def bound(self) -> int:
        """Most log files that may be open now."""
        if self._fixed is not None:
            return self._fixed
        allowed = open_files_allowed()
        if allowed is None:
            return BOUND_MAX
        reserved = min(max(allowed // 8, RESERVED_MIN), RESERVED_MAX)
        claimed = sum(claim() for claim in self.claims)
        return min(max(allowed - reserved - claimed, allowed // 8, 8), BOUND_MAX)

    def scarce(self) -> None:
        """Run the `on_scarce` callbacks."""
        for call in self.on_scarce:
            call()

    def refuse(self, path: str, bound: int) -> NoReturn:
        """Raise TooManyOpenFiles and log an error, at most once per `WARNING_INTERVAL_S`."""
        usage = (
            f"{len(self.live)} files of logs are open, {bound} may be; "
            f"the limit of the process is {open_files_allowed()}"
        )
        self.log_error(usage)
        raise TooManyOpenFiles(f"can't open {path}: {usage}")

    def log_error(self, usage: str) -> None:
        """Log that files can't be opened, at most once per `WARNING_INTERVAL_S`."""
        now = self._clock()
        if self._logged_at is None or now - self._logged_at >= WARNING_INTERVAL_S:
            self._logged_at = now
            events.OPEN_FILES_EXHAUSTED.log(
                logger,
                "too many open files: %s. Requests are refused with KAFKA_STORAGE_ERROR and may be repeated; "
                "no log is offline. Raise the limit on open files (ulimit -n, LimitNOFILE of systemd)",
                usage=usage,
            )


PROCESS = OpenFiles()


class Descriptor:
    """One open descriptor, also the `RegionSource` of a local file's regions.

    It is closed when the last reference to the object goes.
    """

    __slots__ = ("__weakref__", "_close", "_file", "_live", "_path", "fd")

    def __init__(self, fd: int, path: str, file: weakref.ref[CachedFile] | None, live: set[int]) -> None:
        self.fd = fd
        self._path = path
        self._file = file
        self._live = live
        self._close = os.close
        live.add(fd)

    def __del__(self) -> None:
        self._live.discard(self.fd)
        try:
            self._close(self.fd)
        except OSError as error:  # network file systems and quotas report some write errors at close
            file = self._file() if self._file is not None else None
            if file is not None:
                file.close_failed(error)

    @property
    def location(self) -> str:
        """The data folder of a partition's file: the queue of a job that reads it."""
        return os.path.dirname(os.path.dirname(self._path))  # noqa: PTH120

    def read_at(self, position: int, size: int) -> bytes:
        try:
            data = os.pread(self.fd, size, position)
            if len(data) < size:
                data = self._read_rest(data, position, size)
            return data
        except OSError as error:
            fail("read", self._path, error)

    def fileno(self) -> int | None:
        return self.fd

    def is_cached(self, position: int, size: int) -> bool:
        """Read the first and the last byte without blocking."""
        if _NOWAIT is None or size == 0:
            return True
        probe = bytearray(1)
        try:
            for probed in (position, position + size - 1):
                os.preadv(self.fd, [probe], probed, _NOWAIT)
        except BlockingIOError:
            return False
        except OSError:  # the file system does not support the flag
            return True
        return True

    def read_cached(self, position: int, size: int) -> bytes | bytearray | None:
        """Read without blocking; None: not all of it is in the page cache, or in the file."""
        if _NOWAIT is None:
            return self.read_at(position, size)
        data = bytearray(size)
        try:
            return data if os.preadv(self.fd, [data], position, _NOWAIT) == size else None
        except BlockingIOError:
            return None
        except OSError:  # the file system does not support the flag, or the disk failed
            return self.read_at(position, size)

    def _read_rest(self, data: bytes, position: int, size: int) -> bytes:
        # One pread returns at most 2 GiB, and may always return less than the file has.
        parts = [data]
        read_bytes = len(data)
        while read_bytes < size and parts[-1]:
            parts.append(os.pread(self.fd, size - read_bytes, position + read_bytes))
            read_bytes += len(parts[-1])
        return b"".join(parts)


class DescriptorCache:
    """Descriptors that the files of one or more storages keep open; see the module.

    Args: limit: clean files that stay open; None: `default_limit()`.
    Thread: `lock` protects the cache only. Each file has one writer, and any thread may sync it.
    """

    def __init__(self, limit: int | None = None, open_files: OpenFiles = PROCESS) -> None:
        self.limit = default_limit() if limit is None else limit
        assert self.limit >= 4
        self.open_files = open_files
        self._submit: Callable[[Callable[[], None]], None] | None = None
        self._submitter = 0
        self._clean: deque[CachedFile] = deque()  # also unsynced ones, until `_examine` removes them
        self._unsynced: dict[CachedFile, None] = {}  # in the order of their first write
        self.lock = threading.Lock()

    def __len__(self) -> int:
        """Files in the cache."""
        return len(self._clean)

    def sync_with(self, submit: Callable[[Callable[[], None]], None]) -> None:
        """Sync files through `submit(run)` from now on. Without it files are synced at once.

        Thread: only the calling thread calls `submit`; `run` may run in any thread.
        """
        self._submitter = threading.get_ident()
        self._submit = submit

    def open(self, path: str, file: weakref.ref[CachedFile] | None = None, *, for_region: bool = False) -> Descriptor:
        """Return a new descriptor of an existing file, for reading and (where allowed) writing.

        Raises: TooManyOpenFiles, StorageFailed, FileNotFoundError.
        """
        live = self.open_files.live
        if len(live) >= self.limit:
            self._make_room(path, for_region)
        try:
            return Descriptor(self._open(path), path, file, live)
        except OSError as error:
            fail("open", path, error)

    def call(self, run: Callable[[], T]) -> T:
        """Return the result of `run`, which opens a file. If the system refuses, close idle files
        and retry once.

        Raises: OSError.
        """
        try:
            return run()
        except OSError as error:
            if error.errno not in EXHAUSTED:
                raise
            self._evict(lambda: False)
            self.open_files.scarce()
            try:
                return run()
            except OSError as again:
                self.open_files.log_error(f"{again.strerror}; {len(self.open_files.live)} files of logs are open")
                raise

    def keep(self, file: CachedFile) -> None:
        """Add an opened file to the cache; evict others if there are too many."""
        if file.kept:
            return
        with self.lock:
            for _ in range(min(EXAMINED_MAX, 2 * len(self._clean))):
                if len(self._clean) < self.limit:
                    break
                self._examine()
            self._add(file)

    def synced(self, file: CachedFile) -> None:
        """Add a clean, open file to the cache."""
        if not file.kept:
            with self.lock:
                self._add(file)

    def _add(self, file: CachedFile) -> None:
        if not file.kept:
            file.kept = True
            self._clean.append(file)

    def wrote(self, file: CachedFile) -> None:
        """Record the first write to a clean file."""
        with self.lock:
            self._unsynced[file] = None
        if len(self._unsynced) > self.limit and (
            len(self._unsynced) > UNSYNCED_MAX or len(self.open_files.live) > self.open_files.bound // 2
        ):
            self._write_back()

    def syncing(self, file: CachedFile) -> None:
        """Record that all bytes written to `file` are being synced."""
        with self.lock:
            self._unsynced.pop(file, None)

    # --- making room

    def _open(self, path: str) -> int:
        try:
            return self.call(lambda: os.open(path, os.O_RDWR | _FLAGS))
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            return self.call(lambda: os.open(path, os.O_RDONLY | _FLAGS))

    def _make_room(self, path: str, for_region: bool) -> None:
        """Close files until one more may be opened. Raises: TooManyOpenFiles: none can be
        closed.
        """
        live = self.open_files.live
        bound = self.open_files.bound
        if len(live) < bound // 2:
            return
        self.open_files.scarce()
        most = bound * 3 // 4 if for_region else bound
        if len(live) >= most:
            self._evict(lambda: len(live) < most)
            if len(live) >= most:
                self.open_files.refuse(path, most)

    def _evict(self, is_enough: Callable[[], bool]) -> None:
        """Close clean files, recently used ones too, until `is_enough()`."""
        with self.lock:
            for _ in range(2 * len(self._clean)):
                if not self._clean or is_enough():
                    break
                self._examine()

    def _examine(self) -> None:
        """Close the oldest cached file, unless it was used since its last examination. An unsynced
        file leaves the cache and stays open.
        """
        oldest = self._clean.popleft()
        oldest.kept = not (oldest.unsynced or oldest.evict())
        if oldest.kept:
            self._clean.append(oldest)

    def _write_back(self) -> None:
        with self.lock:
            batch = list(islice(self._unsynced, WRITE_BACK_FILES))
            for file in batch:
                self._unsynced.pop(file, None)
        if self._submit is not None and threading.get_ident() == self._submitter:
            self._submit(lambda: _sync_all(batch))
        else:
            _sync_all(batch)


def _sync_all(files: Sequence[CachedFile]) -> None:
    for file in files:
        file.write_back()
