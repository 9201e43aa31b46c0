"""In-memory storage with fault injection that models power cuts and failing disks.

After a power cut, changes that were not synced may be lost, kept or torn. `File.sync` makes bytes
durable, `sync_folder` makes names durable, independently of each other: a synced file whose name
was not synced may be lost, and a name may survive without its bytes. The outcome depends only on
the seed.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import os
import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kqueue.base.clock import Clock, SystemClock
from kqueue.base.errors import DiskFull, FolderInUse, StorageFailed, TooManyOpenFiles
from kqueue.storage.contract import FolderEntry, Region
from kqueue.storage.descriptor_cache import NO_ROOM
from kqueue.storage.paths import TEMPORARY_SUFFIX, check_path, parent_of

SECTOR_BYTES = 512


class PowerCut(BaseException):
    """A simulated power cut; no `Exception`, so that code under test does not handle it."""


class Remains(enum.Enum):
    """The unsynced changes that survive a power cut."""

    LOST = "none"
    KEPT = "all"
    TORN = "a random part: bytes per sector, names one by one"


class DiskOperation(NamedTuple):
    """One operation that changes the disk.

    `kind` is create, append, truncate, sync, make_folder, remove, rename or sync_folder.
    """

    kind: str
    path: str


class _Inode:
    """A file's bytes: as readers see them, and as they are durable."""

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.modified_ms = 0.0  # on the monotonic clock of its storage
        self.durable = bytes(data)
        self.pending: list[tuple[int, bytes | None]] = []  # (position, bytes written there), or (new size, None)
        self.dropped: list[tuple[int, int]] = []  # ranges that a failed sync discarded

    def write(self, data: bytes) -> None:
        self.pending.append((len(self.data), data))
        self.data += data

    def truncate(self, size: int) -> None:
        self.pending.append((size, None))
        del self.data[size:]

    def sync(self) -> None:
        durable = bytearray(self.data)
        for start, end in self.dropped:
            durable[start:end] = bytes(len(durable[start:end]))
        self.durable = bytes(durable)
        self.pending.clear()

    def fail_sync(self) -> None:
        # Linux marks the pages clean: the next sync succeeds without writing them
        self.dropped += [(position, position + len(data)) for position, data in self.pending if data is not None]
        self.pending.clear()

    def copy_after_cut(self, remains: Remains, rng: random.Random) -> _Inode:
        copy = _Inode(self.after_cut(remains, rng))
        copy.modified_ms = self.modified_ms
        return copy

    def after_cut(self, remains: Remains, rng: random.Random) -> bytes:
        if remains is Remains.LOST or not self.pending:
            return self.durable
        if remains is Remains.KEPT:
            return bytes(self.data)
        data = bytearray(self.durable)
        for position, written in self.pending[: rng.randint(0, len(self.pending))]:
            if written is None:
                del data[position:]
            else:
                _write_torn(data, position, written, rng)
        return bytes(data)


def _write_torn(data: bytearray, position: int, written: bytes, rng: random.Random) -> None:
    end = position + (len(written) if rng.random() < 0.5 else rng.randint(0, len(written)))
    data.extend(bytes(max(end - len(data), 0)))  # if the size grew before the bytes were written, they read as zeros
    whole = rng.random() < 0.5
    start = position
    while start < end:
        stop = min((start // SECTOR_BYTES + 1) * SECTOR_BYTES, end)
        if whole or rng.random() < 0.5:
            data[start:stop] = written[start - position : stop - position]
        start = stop


class _Folder:
    """A folder's names: as readers see them, and as they are durable."""

    def __init__(self) -> None:
        self.entries: dict[str, _Inode | _Folder] = {}
        self.durable: dict[str, _Inode | _Folder] = {}
        self.pending: list[dict[str, _Inode | _Folder | None]] = []  # each change is atomic

    def change(self, change: dict[str, _Inode | _Folder | None]) -> None:
        self.pending.append(change)
        _apply(self.entries, change)

    def sync(self) -> None:
        self.durable = dict(self.entries)
        self.pending.clear()

    def after_cut(self, remains: Remains, rng: random.Random) -> _Folder:
        left = dict(self.entries if remains is Remains.KEPT else self.durable)
        if remains is Remains.TORN:
            skipped: set[str] = set()
            for change in self.pending:
                if not skipped.isdisjoint(change) or rng.random() < 0.5:
                    skipped.update(change)
                else:
                    _apply(left, change)
        folder = _Folder()
        for name, node in left.items():
            folder.entries[name] = (
                node.after_cut(remains, rng) if isinstance(node, _Folder) else node.copy_after_cut(remains, rng)
            )
        folder.sync()
        return folder


def _apply(entries: dict[str, _Inode | _Folder], change: dict[str, _Inode | _Folder | None]) -> None:
    for name, node in change.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class _Failure(NamedTuple):
    kind: str
    holds: Callable[[str], bool]
    number: int


class FaultyFile:
    """A `File` of `FaultyStorage`, and the `RegionSource` of its regions."""

    def __init__(self, storage: FaultyStorage, path: str, inode: _Inode) -> None:
        self._storage = storage
        self._path = path
        self._inode = inode
        self._failure: str | None = None  # of a sync

    @property
    def size(self) -> int:
        return len(self._inode.data)

    def append(self, data: bytes | bytearray | memoryview) -> int:
        self._check()
        position = len(self._inode.data)
        room = self._storage.room()
        if room is not None and len(data) > room:
            self._inode.write(bytes(data[:room]))
            raise DiskFull(f"can't write to {self._path}: ENOSPC, {os.strerror(errno.ENOSPC)}")
        with self._storage.step("append", self._path):
            self._inode.write(bytes(data))
            self._inode.modified_ms = self._storage.clock.monotonic_ms()
        return position

    def read_at(self, position: int, size: int) -> bytes:
        self._storage.check_power()
        self._storage.check_failures(DiskOperation("read", self._path))
        return bytes(self._inode.data[position : position + size])

    def truncate(self, size: int) -> None:
        assert size <= self.size, "truncate never grows a file"
        self._check()
        with self._storage.step("truncate", self._path):
            self._inode.truncate(size)
            self._inode.modified_ms = self._storage.clock.monotonic_ms()

    def sync(self) -> None:
        self._check()
        try:
            with self._storage.step("sync", self._path, cut_first=True):
                self._inode.sync()
        except TooManyOpenFiles:
            raise
        except StorageFailed as error:
            self._failure = str(error)
            self._inode.fail_sync()
            raise

    def region(self, position: int, size: int) -> Region:
        return Region(self, position, size)

    def fileno(self) -> int | None:
        return None

    def is_cached(self, position: int, size: int) -> bool:
        return True

    def age_ms(self) -> int | None:
        self._storage.check_power()
        return int(self._storage.clock.monotonic_ms() - self._inode.modified_ms)

    def close(self) -> None:
        pass

    def _check(self) -> None:
        if self._failure is not None:
            raise StorageFailed(self._failure)


class _Operation:
    """Wraps one step: counts it, and injects its failure or the power cut."""

    def __init__(self, storage: FaultyStorage, step: DiskOperation, cut_first: bool) -> None:
        self._storage = storage
        self._step = step
        self._cut_first = cut_first

    def __enter__(self) -> None:
        storage = self._storage
        storage.check_power()
        storage.steps.append(self._step)
        storage.check_failures(self._step)
        if self._cut_first and len(storage.steps) == storage.cut_at:
            storage.cut()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None and len(self._storage.steps) == self._storage.cut_at:
            self._storage.cut()


class _FaultyLock:
    def __init__(self, storage: FaultyStorage, name: str) -> None:
        if name in storage.locks:
            raise FolderInUse(f"{name} is locked")
        storage.locks.add(name)
        self._storage = storage
        self._name = name

    def check(self) -> str | None:
        problem, self._storage.lock_problem = self._storage.lock_problem, None
        if isinstance(problem, StorageFailed):
            raise problem
        return problem

    def release(self) -> None:
        self._storage.locks.discard(self._name)


class FaultyStorage:
    """A `Storage` in memory that can lose power, run full and fail.

    `steps` lists the executed operations. `lock_problem` is what the next `Lock.check` returns or
    raises; None: no problem.

    Args:
        cut_at: number of the step (from 1) at which the power is cut. A sync is not executed then;
            other steps are executed but not synced.
        capacity_bytes: total size of all files; None: no limit.
        clock: determines the age of files; None: the system clock.
    """

    location = "faulty storage"
    opener = None

    def __init__(
        self, *, cut_at: int | None = None, capacity_bytes: int | None = None, clock: Clock | None = None
    ) -> None:
        self.clock = SystemClock() if clock is None else clock
        self.cut_at = cut_at
        self.capacity_bytes = capacity_bytes
        self.steps: list[DiskOperation] = []
        self.is_cut = False
        self._root = _Folder()
        self._failures: list[_Failure] = []
        self.locks: set[str] = set()
        self.lock_problem: str | StorageFailed | None = None

    # --- faults

    def cut(self) -> None:
        """Cut the power: this and every later operation raises PowerCut.

        Raises: PowerCut.
        """
        self.is_cut = True
        raise PowerCut

    def after_cut(self, remains: Remains, rng: random.Random, *, cut_at: int | None = None) -> FaultyStorage:
        """Return a storage with the durable state after a power cut; this one is not changed.

        Args:
            remains: which unsynced changes survive.
            cut_at: the step of the next power cut; None: no cut.
        """
        storage = FaultyStorage(cut_at=cut_at, capacity_bytes=self.capacity_bytes, clock=self.clock)
        storage._root = self._root.after_cut(remains, rng)
        return storage

    def fail(self, kind: str, holds: Callable[[str], bool] = lambda path: True, *, number: int = errno.EIO) -> None:
        """Make every later operation of this kind fail, until `mend`.

        A failed sync also loses the bytes to be synced. EMFILE and ENFILE raise TooManyOpenFiles
        and change nothing.

        Args:
            kind: the kind of a `DiskOperation`, or "read", which is not counted as a step.
            holds: selects the paths that fail.
            number: the errno.
        """
        self._failures.append(_Failure(kind, holds, number))

    def mend(self) -> None:
        """Remove all failures that `fail` added."""
        self._failures.clear()

    def check_power(self) -> None:
        """Raise PowerCut if the power is cut."""
        if self.is_cut:
            raise PowerCut

    def check_failures(self, step: DiskOperation) -> None:
        """Raise the failure that `fail` added for this operation, if any.

        Raises: StorageFailed, DiskFull or TooManyOpenFiles, depending on the errno.
        """
        for failure in self._failures:
            if failure.kind == step.kind and failure.holds(step.path):
                name = errno.errorcode[failure.number]
                kind: type[StorageFailed] = (
                    TooManyOpenFiles if failure.number in (errno.EMFILE, errno.ENFILE) else StorageFailed
                )
                if failure.number in NO_ROOM and not step.kind.startswith("sync"):
                    kind = DiskFull
                raise kind(f"can't {step.kind} {step.path}: {name}, {os.strerror(failure.number)}")

    def step(self, kind: str, path: str, *, cut_first: bool = False) -> _Operation:
        """Return a context manager around one step, which injects its failure or the power cut.

        Args:
            cut_first: cut the power before the step instead of after it.
        """
        return _Operation(self, DiskOperation(kind, path), cut_first)

    def room(self) -> int | None:
        """Return the free bytes; None: no limit."""
        if self.capacity_bytes is None:
            return None
        return max(self.capacity_bytes - sum(len(inode.data) for inode in self._inodes(self._root)), 0)

    def _inodes(self, folder: _Folder) -> Iterator[_Inode]:
        for node in folder.entries.values():
            if isinstance(node, _Folder):
                yield from self._inodes(node)
            else:
                yield node

    # --- Storage

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> FaultyFile:
        self.check_power()
        node = self._node(path)
        if node is None and create:
            folder, name = self._parent_and_name(path)
            node = _Inode()
            node.modified_ms = self.clock.monotonic_ms()
            with self.step("create", path):
                folder.change({name: node})
        if not isinstance(node, _Inode):
            raise FileNotFoundError(path)
        return FaultyFile(self, path, node)

    def read(self, path: str) -> bytes:
        file = self.open(path)
        return file.read_at(0, file.size)

    def exists(self, path: str) -> bool:
        self.check_power()
        return self._node(path) is not None

    def list(self, folder: str) -> list[FolderEntry]:
        self.check_power()
        entries = sorted(self._folder(folder).entries.items())
        return [
            FolderEntry(name, 0, True) if isinstance(node, _Folder) else FolderEntry(name, len(node.data), False)
            for name, node in entries
        ]

    def make_folder(self, path: str) -> None:
        self.check_power()
        node = self._node(path)
        if isinstance(node, _Inode):
            raise StorageFailed(f"{path} is a file, expected a folder or a free name")
        if node is None:
            self.make_folder(parent_of(path))
            folder, name = self._parent_and_name(path)
            with self.step("make_folder", path):
                folder.change({name: _Folder()})

    def remove(self, path: str) -> None:
        self.check_power()
        node = self._node(path)
        if node is None:
            raise FileNotFoundError(path)
        if isinstance(node, _Folder) and (node.entries or not path):
            raise StorageFailed(f"folder {path!r} is not empty")
        folder, name = self._parent_and_name(path)
        with self.step("remove", path):
            folder.change({name: None})

    def rename(self, old: str, new: str) -> None:
        self.check_power()
        node = self._node(old)
        if node is None:
            raise FileNotFoundError(old)
        if isinstance(self._node(new), _Folder):
            raise StorageFailed(f"{new} is a folder")
        (from_folder, from_name), (to_folder, to_name) = self._parent_and_name(old), self._parent_and_name(new)
        with self.step("rename", old):
            if from_folder is to_folder:
                to_folder.change({from_name: None, to_name: node})
            else:
                to_folder.change({to_name: node})
                from_folder.change({from_name: None})

    def sync_folder(self, folder: str) -> None:
        self.check_power()
        node = self._folder(folder)
        with self.step("sync_folder", folder, cut_first=True):
            node.sync()

    def write_atomic(self, path: str, data: bytes) -> None:
        temporary = check_path(path) + TEMPORARY_SUFFIX
        try:
            file = self.open(temporary, create=True)
            file.truncate(0)
            file.append(data)
            file.sync()
            self.rename(temporary, path)
        except StorageFailed:
            with contextlib.suppress(StorageFailed, FileNotFoundError):
                self.remove(temporary)
            raise
        self.sync_folder(parent_of(path))

    def lock(self, name: str) -> _FaultyLock:
        self.check_power()
        return _FaultyLock(self, check_path(name))

    def free_bytes(self) -> int | None:
        return self.room()

    def total_bytes(self) -> int | None:
        return self.capacity_bytes

    def _node(self, path: str) -> _Inode | _Folder | None:
        node: _Inode | _Folder | None = self._root
        for name in check_path(path).split("/") if path else ():
            node = node.entries.get(name) if isinstance(node, _Folder) else None
        return node

    def _folder(self, path: str) -> _Folder:
        node = self._node(path)
        if not isinstance(node, _Folder):
            raise FileNotFoundError(path)
        return node

    def _parent_and_name(self, path: str) -> tuple[_Folder, str]:
        return self._folder(parent_of(path)), path.rpartition("/")[2]
