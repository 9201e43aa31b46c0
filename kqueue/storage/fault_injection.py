"""A storage that asks hooks before it changes anything: where a test lets a disk be full, or tears
a write.

It stands around any other storage, in embedded brokers alone; reading goes straight through. What
another process does with the files (compaction) is not asked about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from kqueue.base.errors import StorageFailed, TooManyOpenFiles
from kqueue.storage.contract import File, FolderEntry, Lock, Region, Storage


class InjectedFailure(NamedTuple):
    """What a hook has happen instead: the first `written` bytes of an append reach the file (of
    other changes nothing), then `error`.
    """

    error: StorageFailed
    written: int = 0


class StorageHook(Protocol):
    """Asked before each change; may be called from several threads at once, the owner's and those
    of jobs.
    """

    def __call__(self, kind: str, path: str, size: int) -> InjectedFailure | None:
        """`kind` is append, create, make_folder, write_atomic, truncate, rename, remove, sync or
        sync_folder; `size` in bytes, of what is to be written, 0 where nothing is. Returns: what
        goes wrong; None: nothing does.
        """
        ...


class StorageHooks:
    """The hooks of all storages of one broker, asked in order until one says what goes wrong."""

    __slots__ = ("each",)

    def __init__(self) -> None:
        self.each: tuple[StorageHook, ...] = ()

    def check(self, kind: str, path: str) -> None:
        """Raises StorageFailed: a hook says so."""
        failure = self.ask(kind, path, 0)
        if failure is not None:
            raise failure.error

    def ask(self, kind: str, path: str, size: int) -> InjectedFailure | None:
        for hook in self.each:
            failure = hook(kind, path, size)
            if failure is not None:
                return failure
        return None


class FaultInjectingFile:
    """A `File` of a `FaultInjectingStorage`."""

    __slots__ = ("_failure", "_file", "_hooks", "_path", "age_ms", "close", "read_at", "region")

    def __init__(self, file: File, path: str, hooks: StorageHooks) -> None:
        self._file = file
        self._path = path
        self._hooks = hooks
        self._failure: StorageFailed | None = None  # of a sync that a hook let fail
        self.read_at: Callable[[int, int], bytes] = file.read_at
        self.region: Callable[[int, int], Region] = file.region
        self.close: Callable[[], None] = file.close
        self.age_ms: Callable[[], int | None] = file.age_ms

    @property
    def size(self) -> int:
        return self._file.size

    def append(self, data: bytes | bytearray | memoryview) -> int:
        if self._failure is not None:
            raise self._failure
        if self._hooks.each:
            self._may_fail(data)
        return self._file.append(data)

    def truncate(self, size: int) -> None:
        if self._hooks.each:
            self._hooks.check("truncate", self._path)
        self._file.truncate(size)

    def sync(self) -> None:
        if self._failure is None and self._hooks.each:
            failure = self._hooks.ask("sync", self._path, 0)
            if failure is not None and not isinstance(failure.error, TooManyOpenFiles):
                self._failure = failure.error
            elif failure is not None:
                raise failure.error
        if self._failure is not None:
            raise self._failure
        self._file.sync()

    def _may_fail(self, data: bytes | bytearray | memoryview) -> None:
        failure = self._hooks.ask("append", self._path, len(data))
        if failure is None:
            return
        if failure.written:
            self._file.append(bytes(data[: failure.written]))
        raise failure.error


class FaultInjectingStorage:
    """`storage` with hooks; see `contract.Storage`."""

    def __init__(self, storage: Storage, hooks: StorageHooks) -> None:
        self._storage = storage
        self._hooks = hooks

    @property
    def location(self) -> str:
        return self._storage.location

    @property
    def opener(self) -> Callable[[], Storage] | None:
        return self._storage.opener

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> FaultInjectingFile:
        if create and self._hooks.each and not self._storage.exists(path):
            self._hooks.check("create", path)
        return FaultInjectingFile(self._storage.open(path, create=create, size=size), path, self._hooks)

    def read(self, path: str) -> bytes:
        return self._storage.read(path)

    def exists(self, path: str) -> bool:
        return self._storage.exists(path)

    def list(self, folder: str) -> list[FolderEntry]:
        return self._storage.list(folder)

    def make_folder(self, path: str) -> None:
        if self._hooks.each and not self._storage.exists(path):
            self._hooks.check("make_folder", path)
        self._storage.make_folder(path)

    def remove(self, path: str) -> None:
        self._hooks.check("remove", path)
        self._storage.remove(path)

    def rename(self, old: str, new: str) -> None:
        self._hooks.check("rename", old)
        self._storage.rename(old, new)

    def sync_folder(self, folder: str) -> None:
        self._hooks.check("sync_folder", folder)
        self._storage.sync_folder(folder)

    def write_atomic(self, path: str, data: bytes) -> None:
        failure = self._hooks.ask("write_atomic", path, len(data))
        if failure is not None:
            raise failure.error
        self._storage.write_atomic(path, data)

    def lock(self, name: str) -> Lock:
        return self._storage.lock(name)

    def free_bytes(self) -> int | None:
        return self._storage.free_bytes()

    def total_bytes(self) -> int | None:
        return self._storage.total_bytes()
