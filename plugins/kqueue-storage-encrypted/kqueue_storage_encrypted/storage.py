"""The storage: folders and names of an inner storage, with every file encrypted."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from kqueue.storage import DelegatingStorage, FolderEntry, LocalStorage, Lock, Storage
from kqueue_storage_encrypted.file import EncryptedFile, State, pack
from kqueue_storage_encrypted.format import HEADER, FileKey
from kqueue_storage_encrypted.keys import KEY_CHECK, KeySource, key_source, open_folder
from kqueue_storage_encrypted.sealing import SettingSealer


def open_encrypted(path: str) -> EncryptedStorage:
    """Return the encrypted storage in the folder `path`, which is created if it is missing.

    `kqueue.storage=encrypted` names this function. The key comes from the environment:
    `KQUEUE_ENCRYPTION_KEY_FILE` or `KQUEUE_ENCRYPTION_KEY`; see `keys`.
    Raises:
        KeyRefused: there is no key, it is malformed, or it is not the key of this folder.
        StorageFailed.
    """
    return EncryptedStorage(LocalStorage(path), key_source(os.environ))


def _reopen(open_inner: Callable[[], Storage], source: KeySource) -> EncryptedStorage:
    return EncryptedStorage(open_inner(), source)


class EncryptedStorage(DelegatingStorage):
    """Encrypts the files of `inner`.

    Args: source: where the key is.
    Raises:
        KeyRefused: there is no key, it is malformed, or it is not the key of this folder. Also
            raised where the folder holds files that are not encrypted.
        StorageFailed.
    """

    def __init__(self, inner: Storage, source: KeySource) -> None:
        super().__init__(inner)
        self._source = source
        self._folder = open_folder(inner, source)

    @property
    def opener(self) -> Callable[[], Storage] | None:
        """States where the key is, without the key itself: the other process needs the same key
        file or environment.
        """
        open_inner = self._inner.opener
        return None if open_inner is None else partial(_reopen, open_inner, self._source)

    @property
    def sealer(self) -> SettingSealer:
        """Encrypts sensitive settings with the same master key."""
        return SettingSealer(self._source)

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> EncryptedFile:
        name = f"{self._inner.location}/{path}"
        inner = self._inner.open(_checked(path), create=create)
        return EncryptedFile(inner, self._folder, name, None if create else size)

    def read(self, path: str) -> bytes:
        """Return all bytes of a file. Raises: FileNotFoundError. StorageFailed: also for damage."""
        file = self.open(path)
        try:
            return file.read_all()
        finally:
            file.close()

    def exists(self, path: str) -> bool:
        return super().exists(_checked(path))

    def list(self, folder: str) -> list[FolderEntry]:
        return [
            entry if entry.is_folder or not entry.size else entry._replace(size=self._plain_size(folder, entry))
            for entry in super().list(folder)
            if folder or entry.name != KEY_CHECK
        ]

    def make_folder(self, path: str) -> None:
        super().make_folder(_checked(path))

    def remove(self, path: str) -> None:
        super().remove(_checked(path))

    def rename(self, old: str, new: str) -> None:
        super().rename(_checked(old), _checked(new))

    def write_atomic(self, path: str, data: bytes) -> None:
        if data:
            key = FileKey.new(self._folder)
            data = key.header() + pack(key, HEADER.size, 0, 0, data)[0]
        super().write_atomic(_checked(path), data)

    def lock(self, name: str) -> Lock:
        return super().lock(_checked(name))

    def _plain_size(self, folder: str, entry: FolderEntry) -> int:
        path = f"{folder}/{entry.name}" if folder else entry.name
        try:
            file = self._inner.open(path, size=entry.size)
            try:
                return State.load(file, self._folder, f"{self._inner.location}/{path}").size
            finally:
                file.close()
        except FileNotFoundError:  # removed after it was listed
            return 0


def _checked(path: str) -> str:
    if path == KEY_CHECK:
        raise ValueError(f"{path!r} belongs to the encryption")
    return path
