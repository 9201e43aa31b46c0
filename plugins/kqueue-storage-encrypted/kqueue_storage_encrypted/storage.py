"""The storage: an inner one's folders and names, with all files encrypted."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from kqueue.storage import FolderEntry, LocalStorage, Lock, Storage
from kqueue_storage_encrypted.file import EncryptedFile, State, pack
from kqueue_storage_encrypted.format import HEADER, FileKey
from kqueue_storage_encrypted.keys import KEY_CHECK, KeySource, key_source, open_folder


def open_encrypted(path: str) -> EncryptedStorage:
    """The encrypted storage in the folder at `path`, made if it is not there: what
    `kqueue.storage=encrypted` means.

    The key comes from the environment: `KQUEUE_ENCRYPTION_KEY_FILE` or `KQUEUE_ENCRYPTION_KEY`; see
    `keys`. Raises KeyRefused: no key, no good one, or not this folder's. StorageFailed.
    """
    return EncryptedStorage(LocalStorage(path), key_source(os.environ))


def _open_again(inner: Callable[[], Storage], source: KeySource) -> EncryptedStorage:
    return EncryptedStorage(inner(), source)


class EncryptedStorage:
    """Encrypts what `inner` keeps. `source`: where the key is.

    Raises KeyRefused: no key, no good one, or not this folder's; the folder holds what was not
    encrypted. StorageFailed.
    """

    def __init__(self, inner: Storage, source: KeySource) -> None:
        self._inner = inner
        self._source = source
        self._folder = open_folder(inner, source)

    @property
    def location(self) -> str:
        return self._inner.location

    @property
    def opener(self) -> Callable[[], Storage] | None:
        """Names where the key is, and does not hold it: the other process needs the same file or
        environment.
        """
        inner = self._inner.opener
        return None if inner is None else partial(_open_again, inner, self._source)

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> EncryptedFile:
        name = f"{self._inner.location}/{path}"
        inner = self._inner.open(_ours(path), create=create)
        return EncryptedFile(inner, self._folder, name, None if create else size)

    def read(self, path: str) -> bytes:
        """All bytes of a file. Raises FileNotFoundError. StorageFailed: also where some are
        damaged.
        """
        file = self.open(path)
        try:
            return file.read_all()
        finally:
            file.close()

    def exists(self, path: str) -> bool:
        return self._inner.exists(_ours(path))

    def list(self, folder: str) -> list[FolderEntry]:
        return [
            entry if entry.is_folder or not entry.size else entry._replace(size=self._plain_size(folder, entry))
            for entry in self._inner.list(folder)
            if folder or entry.name != KEY_CHECK
        ]

    def make_folder(self, path: str) -> None:
        self._inner.make_folder(_ours(path))

    def remove(self, path: str) -> None:
        self._inner.remove(_ours(path))

    def rename(self, old: str, new: str) -> None:
        self._inner.rename(_ours(old), _ours(new))

    def sync_folder(self, folder: str) -> None:
        self._inner.sync_folder(folder)

    def write_atomic(self, path: str, data: bytes) -> None:
        if data:
            key = FileKey.new(self._folder)
            data = key.header() + pack(key, HEADER.size, 0, 0, data)[0]
        self._inner.write_atomic(_ours(path), data)

    def lock(self, name: str) -> Lock:
        return self._inner.lock(_ours(name))

    def free_bytes(self) -> int | None:
        return self._inner.free_bytes()

    def total_bytes(self) -> int | None:
        return self._inner.total_bytes()

    def _plain_size(self, folder: str, entry: FolderEntry) -> int:
        path = f"{folder}/{entry.name}" if folder else entry.name
        try:
            file = self._inner.open(path, size=entry.size)
            try:
                return State.load(file, self._folder, f"{self._inner.location}/{path}").size
            finally:
                file.close()
        except FileNotFoundError:  # removed meanwhile
            return 0


def _ours(path: str) -> str:
    if path == KEY_CHECK:
        raise ValueError(f"{path!r} belongs to the encryption")
    return path
