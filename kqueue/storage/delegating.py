"""Storage and file that pass every call to another one: bases for storages that change a part.

    class ReadOnlyStorage(DelegatingStorage):
        def remove(self, path: str) -> None:
            raise StorageFailed(f"{self.location} is read-only")

`DelegatingStorage.open` returns the inner storage's file. A subclass that changes what files do
overrides `open` too, and returns a `DelegatingFile` of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from kqueue.storage.contract import File, FolderEntry, Lock, Region, Storage

P = ParamSpec("P")
R = TypeVar("R")


class DelegatingStorage:
    """Passes every call to `self._inner`; see `contract.Storage`."""

    def __init__(self, inner: Storage) -> None:
        self._inner = inner

    def _delegate(self, name: str, method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a method of the inner storage; a subclass overrides it to check every call."""
        return method(*args, **kwargs)

    @property
    def location(self) -> str:
        return self._inner.location

    @property
    def opener(self) -> Callable[[], Storage] | None:
        """None: a subclass states how another process opens it, or that none can."""
        return None

    @property
    def sealer(self) -> Any:
        """See `sealing.sealer_of`."""
        return getattr(self._inner, "sealer", None)

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> File:
        return self._delegate("open", self._inner.open, path, create=create, size=size)

    def read(self, path: str) -> bytes:
        return self._delegate("read", self._inner.read, path)

    def exists(self, path: str) -> bool:
        return self._delegate("exists", self._inner.exists, path)

    def list(self, folder: str) -> list[FolderEntry]:
        return self._delegate("list", self._inner.list, folder)

    def make_folder(self, path: str) -> None:
        self._delegate("make_folder", self._inner.make_folder, path)

    def remove(self, path: str) -> None:
        self._delegate("remove", self._inner.remove, path)

    def rename(self, old: str, new: str) -> None:
        self._delegate("rename", self._inner.rename, old, new)

    def sync_folder(self, folder: str) -> None:
        self._delegate("sync_folder", self._inner.sync_folder, folder)

    def write_atomic(self, path: str, data: bytes) -> None:
        self._delegate("write_atomic", self._inner.write_atomic, path, data)

    def lock(self, name: str) -> Lock:
        return self._delegate("lock", self._inner.lock, name)

    def free_bytes(self) -> int | None:
        return self._delegate("free_bytes", self._inner.free_bytes)

    def total_bytes(self) -> int | None:
        return self._delegate("total_bytes", self._inner.total_bytes)


class DelegatingFile:
    """Passes every call to `self._inner`; see `contract.File`."""

    __slots__ = ("_inner",)

    def __init__(self, inner: File) -> None:
        self._inner = inner

    @property
    def size(self) -> int:
        return self._inner.size

    def append(self, data: bytes | bytearray | memoryview) -> int:
        return self._inner.append(data)

    def read_at(self, position: int, size: int) -> bytes:
        return self._inner.read_at(position, size)

    def truncate(self, size: int) -> None:
        self._inner.truncate(size)

    def sync(self) -> None:
        self._inner.sync()

    def region(self, position: int, size: int) -> Region:
        return self._inner.region(position, size)

    def age_ms(self) -> int | None:
        return self._inner.age_ms()

    def close(self) -> None:
        self._inner.close()
