"""What stands between kqueue and a storage that is not its own: whatever that does wrong is a
StorageFailed with its name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kqueue.base.errors import FolderInUse, PluginError, StorageFailed
from kqueue.base.plugin_call import PluginCall
from kqueue.base.registry import RegistryEntry
from kqueue.storage.contract import File, FolderEntry, Lock, Region, RegionSource, Storage
from kqueue.storage.paths import check_path

_PASSING = (StorageFailed, FolderInUse, FileNotFoundError)
_NONE = type(None)
_METHODS = (
    "open", "read", "exists", "list", "make_folder", "remove", "rename", "sync_folder", "write_atomic", "lock", "free_bytes", "total_bytes",
)  # fmt: skip


def guard_maker(
    make: Callable[[str], Storage], entry: RegistryEntry[Callable[[str], Storage]]
) -> Callable[[str], Storage]:
    """What makes the same storages, guarded. Raises PluginError: it can't be called."""
    title = entry.title("storage")
    if not callable(make):
        raise PluginError(f"{title}: expected a callable that takes a data folder's path, found {make!r:.100}")
    return Opener(make, title)


@dataclass(frozen=True, slots=True)
class Opener:
    """Makes storages and guards them; can be pickled where `make` can."""

    make: Callable[..., Storage]
    title: str

    def __call__(self, *args: str) -> Storage:
        """Raises: StorageFailed, FolderInUse: as the plugin says. PluginError: what it made is no
        storage.
        """
        call = PluginCall(self.title, _PASSING)
        storage = call("opening", object, self.make, *args)
        missing = next((name for name in _METHODS if not callable(getattr(storage, name, None))), None)
        if missing is not None:
            raise PluginError(
                f"{self.title}: expected a Storage, found {type(storage).__name__} without the method {missing}"
            )
        return GuardedStorage(storage, call)


class GuardedStorage:
    """See `contract.Storage`."""

    def __init__(self, storage: Storage, call: PluginCall) -> None:
        self._storage = storage
        self._call = call

    @property
    def location(self) -> str:
        return str(self._storage.location)

    @property
    def opener(self) -> Callable[[], Storage] | None:
        make = self._call("opener", object, lambda: self._storage.opener)
        return None if make is None else Opener(make, self._call.title)

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> File:
        check_path(path)
        return GuardedFile(self._call("open", object, self._storage.open, path, create=create, size=size), self._call)

    def read(self, path: str) -> bytes:
        check_path(path)
        found: bytes = self._call("read", bytes, self._storage.read, path)
        return found

    def exists(self, path: str) -> bool:
        check_path(path)
        found: bool = self._call("exists", bool, self._storage.exists, path)
        return found

    def list(self, folder: str) -> list[FolderEntry]:
        check_path(folder)
        found: list[FolderEntry] = self._call("list", list, self._storage.list, folder)
        for entry in found:
            if not isinstance(entry, FolderEntry):
                raise self._call.broken("list", entry, FolderEntry)
        return found

    def make_folder(self, path: str) -> None:
        check_path(path)
        self._call("make_folder", _NONE, self._storage.make_folder, path)

    def remove(self, path: str) -> None:
        check_path(path)
        self._call("remove", _NONE, self._storage.remove, path)

    def rename(self, old: str, new: str) -> None:
        check_path(old)
        check_path(new)
        self._call("rename", _NONE, self._storage.rename, old, new)

    def sync_folder(self, folder: str) -> None:
        check_path(folder)
        self._call("sync_folder", _NONE, self._storage.sync_folder, folder)

    def write_atomic(self, path: str, data: bytes) -> None:
        check_path(path)
        self._call("write_atomic", _NONE, self._storage.write_atomic, path, data)

    def lock(self, name: str) -> Lock:
        check_path(name)
        return _GuardedLock(self._call("lock", object, self._storage.lock, name), self._call)

    def free_bytes(self) -> int | None:
        found: int | None = self._call("free_bytes", (int, _NONE), self._storage.free_bytes)
        return found

    def total_bytes(self) -> int | None:
        found: int | None = self._call("total_bytes", (int, _NONE), self._storage.total_bytes)
        return found


class GuardedFile:
    """See `contract.File`."""

    __slots__ = ("_call", "_file")

    def __init__(self, file: File, call: PluginCall) -> None:
        self._file = file
        self._call = call

    @property
    def size(self) -> int:
        found: int = self._call("size", int, lambda: self._file.size)
        return found

    def append(self, data: bytes | bytearray | memoryview) -> int:
        found: int = self._call("append", int, self._file.append, data)
        return found

    def read_at(self, position: int, size: int) -> bytes:
        return _read_at(self._call, self._file, position, size)

    def truncate(self, size: int) -> None:
        self._call("truncate", _NONE, self._file.truncate, size)

    def sync(self) -> None:
        self._call("sync", _NONE, self._file.sync)

    def region(self, position: int, size: int) -> Region:
        found: Region = self._call("region", Region, self._file.region, position, size)
        return Region(_GuardedSource(found.source, self._call), found.position, found.size)

    def age_ms(self) -> int | None:
        ask = getattr(
            self._file, "age_ms", None
        )  # a plugin made before the contract had it: nothing is known of its ages
        found: int | None = None if ask is None else self._call("age_ms", (int, _NONE), ask)
        return None if found is None else max(found, 0)

    def close(self) -> None:
        self._call("close", _NONE, self._file.close)


class _GuardedSource:
    def __init__(self, source: RegionSource, call: PluginCall) -> None:
        self._source = source
        self._call = call

    def read_at(self, position: int, size: int) -> bytes:
        return _read_at(self._call, self._source, position, size)

    def fileno(self) -> int | None:
        found: int | None = self._call("fileno", (int, _NONE), self._source.fileno)
        return found

    def is_cached(self, position: int, size: int) -> bool:
        return bool(self._call("is_cached", object, self._source.is_cached, position, size))


class _GuardedLock:
    def __init__(self, lock: Lock, call: PluginCall) -> None:
        self._lock = lock
        self._call = call

    def check(self) -> str | None:
        found: str | None = self._call("checking the lock", (str, _NONE), lambda: self._lock.check())
        return found

    def release(self) -> None:
        self._call("releasing the lock", object, lambda: self._lock.release())


def _read_at(call: PluginCall, source: Any, position: int, size: int) -> bytes:
    found: bytes = call("read_at", bytes, source.read_at, position, size)
    if len(found) > size:
        raise StorageFailed(
            f"{call.title} broke its contract: read_at returned {len(found)} bytes where {size} were asked for"
        )
    return found
