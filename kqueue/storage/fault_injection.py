"""Storage that runs hooks before each change, so that tests can inject full disks and torn writes.

Embedded brokers wrap every storage in it. Reads pass without a hook. Changes that another process
makes to the files (compaction) are not seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from kqueue.base.errors import StorageFailed, TooManyOpenFiles
from kqueue.storage.contract import File, Storage
from kqueue.storage.delegating import DelegatingFile, DelegatingStorage


class InjectedFailure(NamedTuple):
    """Failure that a hook injects: the first `written` bytes of an append are written, then `error`
    is raised.

    Of every other change nothing is done.
    """

    error: StorageFailed
    written: int = 0


class StorageHook(Protocol):
    """Runs before each change. Thread: called from several threads at once, of the owner and of
    jobs.
    """

    def __call__(self, kind: str, path: str, size: int) -> InjectedFailure | None:
        """Return the failure to inject; None: the change goes ahead.

        Args:
            kind: append, create, make_folder, write_atomic, truncate, rename, remove, sync or
                sync_folder.
            size: bytes to be written, 0 for a change that writes none.
        """
        ...


class StorageHooks:
    """Hooks that all storages of one broker share. They run in order up to the first failure."""

    __slots__ = ("hooks",)

    def __init__(self) -> None:
        self.hooks: tuple[StorageHook, ...] = ()

    def check(self, kind: str, path: str) -> None:
        """Run the hooks for a change that writes no bytes. Raises: StorageFailed: a hook failed
        it.
        """
        failure = self.failure_of(kind, path, 0)
        if failure is not None:
            raise failure.error

    def failure_of(self, kind: str, path: str, size: int) -> InjectedFailure | None:
        """Return the first failure that a hook injects into this change. Args: see
        `StorageHook`.
        """
        for hook in self.hooks:
            failure = hook(kind, path, size)
            if failure is not None:
                return failure
        return None


class FaultInjectingFile(DelegatingFile):
    """A file of a `FaultInjectingStorage`."""

    __slots__ = ("_failure", "_hooks", "_path")

    def __init__(self, inner: File, path: str, hooks: StorageHooks) -> None:
        super().__init__(inner)
        self._path = path
        self._hooks = hooks
        self._failure: StorageFailed | None = None  # of a sync: every later change raises it

    def append(self, data: bytes | bytearray | memoryview) -> int:
        if self._failure is not None:
            raise self._failure
        if self._hooks.hooks:
            self._check_append(data)
        return self._inner.append(data)

    def truncate(self, size: int) -> None:
        if self._hooks.hooks:
            self._hooks.check("truncate", self._path)
        self._inner.truncate(size)

    def sync(self) -> None:
        if self._failure is None and self._hooks.hooks:
            failure = self._hooks.failure_of("sync", self._path, 0)
            if failure is not None and not isinstance(failure.error, TooManyOpenFiles):
                self._failure = failure.error
            elif failure is not None:
                raise failure.error
        if self._failure is not None:
            raise self._failure
        self._inner.sync()

    def _check_append(self, data: bytes | bytearray | memoryview) -> None:
        failure = self._hooks.failure_of("append", self._path, len(data))
        if failure is None:
            return
        if failure.written:
            self._inner.append(bytes(data[: failure.written]))
        raise failure.error


class FaultInjectingStorage(DelegatingStorage):
    """`inner`, with hooks before each change."""

    def __init__(self, inner: Storage, hooks: StorageHooks) -> None:
        super().__init__(inner)
        self._hooks = hooks

    @property
    def opener(self) -> Callable[[], Storage] | None:
        return self._inner.opener

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> FaultInjectingFile:
        if create and self._hooks.hooks and not self._inner.exists(path):
            self._hooks.check("create", path)
        return FaultInjectingFile(self._inner.open(path, create=create, size=size), path, self._hooks)

    def make_folder(self, path: str) -> None:
        if self._hooks.hooks and not self._inner.exists(path):
            self._hooks.check("make_folder", path)
        self._inner.make_folder(path)

    def remove(self, path: str) -> None:
        self._hooks.check("remove", path)
        self._inner.remove(path)

    def rename(self, old: str, new: str) -> None:
        self._hooks.check("rename", old)
        self._inner.rename(old, new)

    def sync_folder(self, folder: str) -> None:
        self._hooks.check("sync_folder", folder)
        self._inner.sync_folder(folder)

    def write_atomic(self, path: str, data: bytes) -> None:
        failure = self._hooks.failure_of("write_atomic", path, len(data))
        if failure is not None:
            raise failure.error
        self._inner.write_atomic(path, data)
