"""DescriptorCache of local files: how many may be open, which are kept, and what happens when there are
too many.

`OpenFiles` counts every open descriptor of the process's log files, those that only unsent regions
still hold included, against a bound that leaves room for connections. `DescriptorCache` is the cache of
one or more storages:

    clean files      at most `limit` keep their descriptor; the longest unused are closed first (second chance)
    unsynced files   always keep theirs, because the kernel reports an error of write-back to a descriptor that was open then;
                     where more than `limit` are, and half of the bound is in use, the oldest are synced in jobs
    regions          a region and its file share one descriptor; at three quarters of the bound no more are opened for regions,
                     so that readers can't keep writers from their files

At half of the bound `OpenFiles.on_scarce` is called, for the server to close connections that hold
unsent regions. At the bound an open raises TooManyOpenFiles, as it does where the system itself
refuses. An error of a sync never reaches another file than its own.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NoReturn, Protocol, TypeVar

from kqueue.base.errors import DiskFull, StorageFailed, TooManyOpenFiles

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

T = TypeVar("T")
logger = logging.getLogger("kqueue.storage")
_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)
_FLAGS = getattr(os, "O_FLAGS", 0) | getattr(os, "O_NOFOLLOW", 0)
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE})
"""The process, or the system, has too many open files: no fault of a disk."""
LIMIT_MIN = 32
LIMIT_DEFAULT = 512
BOUND_MAX = 65_536
"""More than this many log files are never open at once, however many the system allows: each costs
it about a kilobyte.
"""
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""There is no room: on the disk, in the user's quota, within the process's limit on file sizes."""
RESERVED_MIN, RESERVED_MAX = 32, 256
"""DescriptorCache that are left to everything else: listeners, jobs, the metadata store, the program
around an embedded broker.
"""
UNSYNCED_MAX = 16_384
"""Of one cache; beyond it the oldest are synced in any case."""
WRITE_BACK_FILES = 32
"""Files that are synced in one job."""
EXAMINED_MAX = 64
"""Cached files that one open looks at, to find some to close."""
COMPLAINT_INTERVAL_S = 10.0


def open_files_allowed() -> int | None:
    """How many files this process may have open; None where the system sets no limit."""
    if resource is None:
        return None
    allowed: int = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if allowed == resource.RLIM_INFINITY else allowed


def default_limit() -> int:
    """How many clean files one storage keeps open by default: an eighth of what the process may
    have, since sockets need theirs.
    """
    allowed = open_files_allowed() if resource is not None else LIMIT_MIN * 8
    return LIMIT_DEFAULT if allowed is None else min(max(allowed // 8, LIMIT_MIN), LIMIT_DEFAULT)


def fail(what: str, path: str, error: OSError) -> NoReturn:
    """Raise what the storage contract has for `error`: FileNotFoundError, or the kind of
    StorageFailed that it is, with path and reason.
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
    """A file as the cache sees it."""

    kept: bool
    unsynced: bool

    def evict(self) -> bool:
        """Give up the descriptor if it was not used since the last call; False: still in use."""
        ...

    def write_back(self) -> None:
        """Sync, without raising: what fails is raised by the file's own next append or sync."""
        ...

    def close_failed(self, error: OSError) -> None:
        """Closing the descriptor reported an error: what was written through it may be lost."""
        ...


class OpenFiles:
    """Counts open descriptors against a bound; one for the process, `PROCESS`, unless a test brings
    its own.

    `claims`: callables that return how many descriptors others use (connections). `on_scarce`:
    called by whoever opens a file while half of the bound is in use, from any thread, so each must
    return at once.
    """

    def __init__(self, bound: int | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`bound`: fixed; None: what the process's limit leaves."""
        self.live: set[int] = set()
        self.claims: list[Callable[[], int]] = []
        self.on_scarce: list[Callable[[], None]] = []
        self._fixed = bound
        self._clock = clock
        self._complained: float | None = None

    @property
    def bound(self) -> int:
        """How many log files may be open at this moment."""
        if self._fixed is not None:
            return self._fixed
        allowed = open_files_allowed()
        if allowed is None:
            return BOUND_MAX
        reserved = min(max(allowed // 8, RESERVED_MIN), RESERVED_MAX)
        claimed = sum(claim() for claim in self.claims)
        return min(max(allowed - reserved - claimed, allowed // 8, 8), BOUND_MAX)

    def scarce(self) -> None:
        for call in self.on_scarce:
            call()

    def refuse(self, path: str, bound: int) -> NoReturn:
        """Raises TooManyOpenFiles; one line in the log, then none for a while."""
        found = f"{len(self.live)} files of logs are open, {bound} may be; the limit of the process is {open_files_allowed()}"
        self.complain(found)
        raise TooManyOpenFiles(f"can't open {path}: {found}")

    def complain(self, found: str) -> None:
        now = self._clock()
        if self._complained is None or now - self._complained >= COMPLAINT_INTERVAL_S:
            self._complained = now
            logger.error(
                "too many open files: %s. Requests are refused with KAFKA_STORAGE_ERROR and may be repeated; no log is offline. "
                "Raise the limit on open files (ulimit -n, LimitNOFILE of systemd)",
                found,
            )


PROCESS = OpenFiles()


class Descriptor:
    """One open descriptor, closed when nothing refers to it any more; the `RegionSource` of a local
    file's regions.
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
        except OSError as error:  # network file systems and quotas report some errors of writing here
            file = self._file() if self._file is not None else None
            if file is not None:
                file.close_failed(error)

    @property
    def location(self) -> str:
        """The data folder of a partition's file: what a job waits for that reads it."""
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
        """Asks for the first and the last byte, without waiting for them."""
        if _NOWAIT is None or size == 0:
            return True
        probe = bytearray(1)
        try:
            for location in (position, position + size - 1):
                os.preadv(self.fd, [probe], location, _NOWAIT)
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


class DescriptorCache:
    """The descriptors that the files of one or more storages keep; see the module. `limit` None:
    see `default_limit`.

    `submit(run)` (if set, from the thread that then sets it) takes work that syncs files; without
    it such work is done at once. `lock` serves the cache alone: files have one writer each, and are
    synced from any thread.
    """

    def __init__(self, limit: int | None = None, open_files: OpenFiles = PROCESS) -> None:
        self.limit = default_limit() if limit is None else limit
        assert self.limit >= 4
        self.open_files = open_files
        self._submit: Callable[[Callable[[], None]], None] | None = None
        self._submitter = 0
        self._clean: deque[CachedFile] = deque()  # unsynced ones too, until they are met
        self._unsynced: dict[CachedFile, None] = {}  # the longest unsynced first
        self.lock = threading.Lock()

    def __len__(self) -> int:
        """Files in the cache."""
        return len(self._clean)

    def sync_with(self, submit: Callable[[Callable[[], None]], None]) -> None:
        """Have files synced by `submit(run)`, which is called by this thread alone; `run` may be
        called in any.
        """
        self._submitter = threading.get_ident()
        self._submit = submit

    def open(self, path: str, file: weakref.ref[CachedFile] | None = None, *, for_region: bool = False) -> Descriptor:
        """A new descriptor of an existing file, for reading and (where allowed) writing.

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
        """`run()`, which opens a file; where the system refuses, idle files are closed and it is
        called again. Raises OSError.
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
                self.open_files.complain(f"{again.strerror}; {len(self.open_files.live)} files of logs are open")
                raise

    def keep(self, file: CachedFile) -> None:
        """Remember that `file` was opened and may be closed when it is not used; closes some others
        when there are too many.
        """
        if file.kept:
            return
        with self.lock:
            for _ in range(min(EXAMINED_MAX, 2 * len(self._clean))):
                if len(self._clean) < self.limit:
                    break
                self._examine()
            self._add(file)

    def synced(self, file: CachedFile) -> None:
        """`file` is clean, and open."""
        if not file.kept:
            with self.lock:
                self._add(file)

    def _add(self, file: CachedFile) -> None:
        if not file.kept:
            file.kept = True
            self._clean.append(file)

    def wrote(self, file: CachedFile) -> None:
        """`file` was clean, and is written to."""
        with self.lock:
            self._unsynced[file] = None
        if len(self._unsynced) > self.limit and (
            len(self._unsynced) > UNSYNCED_MAX or len(self.open_files.live) > self.open_files.bound // 2
        ):
            self._write_back()

    def syncing(self, file: CachedFile) -> None:
        """All that was written to `file` is being synced."""
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
        """Raises TooManyOpenFiles: nothing can be closed."""
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
        """Close clean files, used or not."""
        with self.lock:
            for _ in range(2 * len(self._clean)):
                if not self._clean or is_enough():
                    break
                self._examine()

    def _examine(self) -> None:
        """Close the file that was kept for longest, unless it was used since the last look; forget
        one that is unsynced.
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
