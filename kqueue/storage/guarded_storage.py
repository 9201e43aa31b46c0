"""Guard around a plugin's storage: every error or wrong result becomes a StorageFailed that names
it.

Built-in storages are not guarded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from kqueue.base.errors import FolderInUse, PluginError, StorageFailed
from kqueue.base.plugin_call import PluginCall
from kqueue.base.registry import RegistryEntry
from kqueue.storage.contract import File, FolderEntry, Lock, Region, RegionSource, Storage
from kqueue.storage.delegating import DelegatingFile, DelegatingStorage
from kqueue.storage.paths import check_path

P = ParamSpec("P")
R = TypeVar("R")
_NONE = type(None)
_ALLOWED_ERRORS = (StorageFailed, FolderInUse, FileNotFoundError)

RESULT_TYPES: dict[str, type | tuple[type, ...]] = {
    "open": object,
    "read": bytes,
    "exists": bool,
    "list": list,
    "make_folder": _NONE,
    "remove": _NONE,
    "rename": _NONE,
    "sync_folder": _NONE,
    "write_atomic": _NONE,
    "lock": object,
    "free_bytes": (int, _NONE),
    "total_bytes": (int, _NONE),
}
"""The types that each method of a storage may return. A plugin must have all of these methods."""


def guard_storage(
    make: Callable[[str], Storage], entry: RegistryEntry[Callable[[str], Storage]]
) -> Callable[[str], Storage]:
    """Return a callable that makes the same storages, each in a `GuardedStorage`.

    Raises: PluginError: `make` is not callable.
    """
    title = entry.title("storage")
    if not callable(make):
        raise PluginError(f"{title}: expected a callable that takes a data folder's path, found {make!r:.100}")
    return GuardedOpener(make, title)


@dataclass(frozen=True, slots=True)
class GuardedOpener:
    """Makes storages and guards them. It can be pickled where `make` can."""

    make: Callable[..., Storage]
    title: str

    def __call__(self, *args: str) -> Storage:
        """Return a new guarded storage.

        Raises:
            StorageFailed, FolderInUse: the plugin raised it.
            PluginError: the plugin returned an object that lacks a method of `contract.Storage`.
        """
        call = PluginCall(self.title, _ALLOWED_ERRORS)
        storage = call("opening", object, self.make, *args)
        missing = next((name for name in RESULT_TYPES if not callable(getattr(storage, name, None))), None)
        if missing is not None:
            raise PluginError(
                f"{self.title}: expected a Storage, found {type(storage).__name__} without the method {missing}"
            )
        return GuardedStorage(storage, call)


class GuardedStorage(DelegatingStorage):
    """Checks the paths, the errors and the results of every call."""

    def __init__(self, inner: Storage, call: PluginCall) -> None:
        super().__init__(inner)
        self._call = call

    def _delegate(self, name: str, method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        for argument in args:
            if isinstance(argument, str):  # only paths are strings
                check_path(argument)
        result: R = self._call(name, RESULT_TYPES[name], method, *args, **kwargs)
        return result

    @property
    def location(self) -> str:
        return str(self._inner.location)

    @property
    def opener(self) -> Callable[[], Storage] | None:
        make = self._call("opener", object, lambda: self._inner.opener)
        return None if make is None else GuardedOpener(make, self._call.title)

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> File:
        return GuardedFile(super().open(path, create=create, size=size), self._call)

    def list(self, folder: str) -> list[FolderEntry]:
        entries = super().list(folder)
        for entry in entries:
            if not isinstance(entry, FolderEntry):
                raise self._call.contract_violation("list", entry, FolderEntry)
        return entries

    def lock(self, name: str) -> Lock:
        return _GuardedLock(super().lock(name), self._call)


class GuardedFile(DelegatingFile):
    """Checks the errors and the results of every call."""

    __slots__ = ("_call",)

    def __init__(self, inner: File, call: PluginCall) -> None:
        super().__init__(inner)
        self._call = call

    @property
    def size(self) -> int:
        size: int = self._call("size", int, lambda: self._inner.size)
        return size

    def append(self, data: bytes | bytearray | memoryview) -> int:
        position: int = self._call("append", int, self._inner.append, data)
        return position

    def read_at(self, position: int, size: int) -> bytes:
        return _read_at(self._call, self._inner, position, size)

    def truncate(self, size: int) -> None:
        self._call("truncate", _NONE, self._inner.truncate, size)

    def sync(self) -> None:
        self._call("sync", _NONE, self._inner.sync)

    def region(self, position: int, size: int) -> Region:
        region: Region = self._call("region", Region, self._inner.region, position, size)
        return Region(_GuardedSource(region.source, self._call), region.position, region.size)

    def age_ms(self) -> int | None:
        # A plugin that was made before the contract had this method has no ages to report.
        method = getattr(self._inner, "age_ms", None)
        age_ms: int | None = None if method is None else self._call("age_ms", (int, _NONE), method)
        return None if age_ms is None else max(age_ms, 0)

    def close(self) -> None:
        self._call("close", _NONE, self._inner.close)


class _GuardedSource:
    def __init__(self, source: RegionSource, call: PluginCall) -> None:
        self._source = source
        self._call = call

    def read_at(self, position: int, size: int) -> bytes:
        return _read_at(self._call, self._source, position, size)

    def fileno(self) -> int | None:
        descriptor: int | None = self._call("fileno", (int, _NONE), self._source.fileno)
        return descriptor

    def is_cached(self, position: int, size: int) -> bool:
        return bool(self._call("is_cached", object, self._source.is_cached, position, size))


class _GuardedLock:
    def __init__(self, lock: Lock, call: PluginCall) -> None:
        self._lock = lock
        self._call = call

    def check(self) -> str | None:
        repaired: str | None = self._call("checking the lock", (str, _NONE), lambda: self._lock.check())
        return repaired

    def release(self) -> None:
        self._call("releasing the lock", object, lambda: self._lock.release())


def _read_at(call: PluginCall, source: Any, position: int, size: int) -> bytes:
    data: bytes = call("read_at", bytes, source.read_at, position, size)
    if len(data) > size:
        raise StorageFailed(
            f"{call.title} broke its contract: read_at returned {len(data)} bytes where {size} were asked for"
        )
    return data
