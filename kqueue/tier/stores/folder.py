"""Objects as files in a folder that all brokers reach: one machine's disk, or NFS.

    ROOT/topics/orders/...         an object for each key
    ROOT/~temporary/<uuid>/lock    held by a store that is open for writing
    ROOT/~temporary/<uuid>/<n>     an object that is being written
    ROOT/~locks/<n>.lock           locks on keys

A put writes a temporary file, syncs it, renames it to its key and syncs the folders above. A crash
before the rename leaves a file below `~temporary`. The next store that writes removes it, because
nobody holds the lock beside it. No key has a "~".

What a crash costs: before the rename nothing; after it the object may be the old or the new one, as
`put` has not returned.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn

from kqueue.base.clock import wall_ms
from kqueue.base.errors import FolderInUse, StorageFailed
from kqueue.storage import FolderEntry, LocalStorage, Lock, Storage
from kqueue.storage.paths import parent_of
from kqueue.tier.errors import ObjectChanged, ObjectNotFound, TierCorrupt, TierDenied, TierError, TierUnavailable
from kqueue.tier.stores.contract import (
    Buffer,
    Object,
    ObjectEntry,
    Version,
    check_key,
    check_prefix,
    check_range,
    counted_parts,
    is_key,
)
from kqueue.tier.stores.folder_locks import FolderLocks, KeyLocks

TEMPORARY = "~temporary"
LOCKS = "~locks"
LOCK_FILE = "lock"
READ_SIZE = 1 << 20
ATTEMPTS_MAX = 20
"""How often a folder is made again that a delete in another process removed meanwhile."""


class TemporaryFiles:
    """The temporary files of one store: their folder is locked while they are somebody's.

    Thread: `path` and `close` may be called from several threads.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._mutex = threading.Lock()
        self._folder: str | None = None
        self._lock: Lock | None = None
        self._numbers = itertools.count()

    def path(self) -> str:
        """Return the path of a new temporary file. The first call removes those of crashes."""
        with self._mutex:
            if self._folder is None:
                self._remove_abandoned()
                self._folder = self._locked_folder()
        return f"{self._folder}/{next(self._numbers)}"

    def close(self) -> None:
        """Remove the folder, if there is one."""
        with self._mutex:
            if self._lock is not None and self._folder is not None:
                self._remove(self._folder)
                self._lock.release()
            self._folder = self._lock = None

    def _locked_folder(self) -> str:
        for _ in range(ATTEMPTS_MAX):
            folder = f"{TEMPORARY}/{uuid.uuid4()}"
            self._storage.make_folder(folder)
            # Until the lock is held, another store may take the folder for one of a crash and
            # remove it.
            with contextlib.suppress(FolderInUse, FileNotFoundError):
                self._lock = self._storage.lock(f"{folder}/{LOCK_FILE}")
                return folder
        raise TierUnavailable(f"{self._storage.location}/{TEMPORARY}: no folder of its own could be locked")

    def _remove_abandoned(self) -> None:
        try:
            folders = self._storage.list(TEMPORARY)
        except FileNotFoundError:
            return
        for entry in folders:
            folder = f"{TEMPORARY}/{entry.name}"
            with contextlib.suppress(FolderInUse, FileNotFoundError, StorageFailed):
                lock = self._storage.lock(f"{folder}/{LOCK_FILE}")
                try:
                    self._remove(folder)
                finally:
                    lock.release()

    def _remove(self, folder: str) -> None:
        with contextlib.suppress(FileNotFoundError, StorageFailed):  # the next store removes what is left
            # The lock file last: without it the folder could not be told from one that is in use.
            for entry in sorted(self._storage.list(folder), key=lambda entry: entry.name == LOCK_FILE):
                self._storage.remove(f"{folder}/{entry.name}")
            self._storage.remove(folder)


class FolderTierStore:
    """See `contract.TierStore`.

    Symbolic links in the folder are not followed. Versions are SHA-256 sums of the contents.

    Args:
        storage: of the folder, as of a data folder.
        locks: on keys; they exclude all stores of the folder.
    """

    def __init__(self, storage: Storage, locks: KeyLocks) -> None:
        self._storage = storage
        self._locks = locks
        self._temporary = TemporaryFiles(storage)
        self._is_closed = False
        self.location = f"file://{storage.location}"

    @classmethod
    def of_path(cls, path: str) -> FolderTierStore:
        """Return the store of a folder, which is made if it is missing; its parent must exist.

        Raises: TierError.
        """
        parent = os.path.dirname(os.path.abspath(path))  # noqa: PTH100, PTH120  strings, as in `LocalStorage`
        if not os.path.isdir(parent):  # noqa: PTH112
            raise TierError(f"file://{path}: there is no folder {parent}: create it, or mount it")
        locks = FolderLocks(os.path.join(path, LOCKS))  # noqa: PTH118
        try:
            return cls(LocalStorage(path), locks)
        except StorageFailed as error:
            raise TierError(f"file://{path} can't be used: {error}") from error

    def put(self, key: str, parts: Iterable[Buffer], size: int) -> None:
        check_key(key)
        with self._written(key, parts, size) as temporary, self._errors(key), self._locks.held(key):
            self._place(temporary, key)

    def put_if(self, key: str, body: bytes, expected: Version | None) -> Version:
        check_key(key)
        with self._written(key, [body], len(body)) as temporary, self._errors(key), self._locks.held(key):
            version = self._version(key)
            if version != expected:
                raise ObjectChanged(f"{self._name(key)}: expected {_named(expected)}, found {_named(version)}")
            self._place(temporary, key)
        return hashlib.sha256(body).hexdigest()

    def get(self, key: str, *, max_bytes: int) -> Object:
        check_key(key)
        with self._errors(key):
            for _ in range(ATTEMPTS_MAX):
                body = self._read(key, max_bytes)
                if body is not None:
                    return Object(body, hashlib.sha256(body).hexdigest())
        raise TierUnavailable(f"{self._name(key)} was replaced {ATTEMPTS_MAX} times while it was read")

    def get_range(self, key: str, start: int, length: int) -> bytes:
        check_key(key)
        check_range(start, length)
        with self._errors(key):
            file = self._storage.open(key)
            try:
                if start + length <= file.size:
                    data = file.read_at(start, length)
                    if len(data) == length:
                        return data
                raise TierCorrupt(f"{self._name(key)} has {file.size} bytes, expected {length} from {start} on")
            finally:
                file.close()

    def list(self, prefix: str) -> Iterator[ObjectEntry]:
        folder = check_prefix(prefix).removesuffix("/")
        self._check_open()
        return self._objects(folder)

    def list_folders(self, prefix: str) -> Sequence[str]:
        folder = check_prefix(prefix).removesuffix("/")
        with self._errors(prefix):
            return sorted(
                entry.name
                for entry in self._entries(folder)
                if entry.is_folder and self._has_objects(_path(folder, entry.name))
            )

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            check_key(key)
        folders = set()
        for key in keys:
            folders.add(parent_of(key))  # of a missing one too: an earlier delete may have failed to sync it
            with self._errors(key), self._locks.held(key), contextlib.suppress(FileNotFoundError):
                self._storage.remove(key)
        for folder in sorted(folders):
            with self._errors(folder):
                self._sync_or_remove(folder)

    def close(self) -> None:
        self._is_closed = True
        with contextlib.suppress(StorageFailed):
            self._temporary.close()

    # --- writing

    @contextlib.contextmanager
    def _written(self, key: str, parts: Iterable[Buffer], size: int) -> Iterator[str]:
        """Write and sync a temporary file; its path is for the `with` block, which renames it.

        Raises: the errors of the contract; what `parts` raises, as it is.
        """
        content = counted_parts(parts, size)
        with self._errors(key):
            path = self._temporary.path()
        try:
            with self._errors(key):
                file = self._storage.open(path, create=True)
            try:
                for part in content:
                    with self._errors(key):
                        file.append(part)
                with self._errors(key):
                    file.sync()
            finally:
                file.close()
            yield path
        except BaseException:
            with contextlib.suppress(FileNotFoundError, StorageFailed):
                self._storage.remove(path)
            raise

    def _place(self, temporary: str, key: str) -> None:
        """Give a temporary file its name, durably. The caller holds the lock of the key."""
        folder = parent_of(key)
        for attempt in itertools.count(1):
            try:
                self._storage.make_folder(folder)
                self._storage.rename(temporary, key)
                # Up to the root, each time: another process may have made a folder, and not synced
                # it yet.
                for path in _with_parents(folder):
                    self._storage.sync_folder(path)
                return
            except FileNotFoundError:  # a delete in another process has removed the empty folder
                if attempt == ATTEMPTS_MAX or not self._storage.exists(temporary):
                    raise

    def _sync_or_remove(self, folder: str) -> None:
        """Make deletions in a folder durable, and remove it and its parents if they are empty."""
        for path in _with_parents(folder):
            try:
                self._storage.sync_folder(path)
                if not path or self._storage.list(path):
                    return
                self._storage.remove(path)
            except FileNotFoundError:  # another process has removed it
                continue
            except StorageFailed:
                if self._storage.exists(path) and not self._storage.list(path):
                    raise
                return  # another process has put an object there meanwhile

    # --- reading

    def _read(self, key: str, max_bytes: int) -> bytes | None:
        """Return a whole object; None: it was replaced by a larger one meanwhile."""
        file = self._storage.open(key)
        try:
            size = file.size
            if size > max_bytes:
                raise TierCorrupt(f"{self._name(key)} has {size} bytes, at most {max_bytes} were expected")
            # The size is of what had the name then, the bytes are of what has it at the first read.
            body = file.read_at(0, size + 1)
            return body if len(body) <= size else None
        finally:
            file.close()

    def _version(self, key: str) -> Version | None:
        """Return the version of an object; None: there is none."""
        try:
            file = self._storage.open(key)
        except FileNotFoundError:
            return None
        try:
            content = hashlib.sha256()
            position = 0
            while data := file.read_at(position, READ_SIZE):
                content.update(data)
                position += len(data)
            return content.hexdigest()
        finally:
            file.close()

    def _objects(self, folder: str) -> Iterator[ObjectEntry]:
        with self._errors(folder):
            entries = self._entries(folder)
        for entry in entries:
            path = _path(folder, entry.name)
            if entry.is_folder:
                yield from self._objects(path)
            elif is_key(path):
                with self._errors(path):
                    modified_ms = self._modified_ms(path, entry.size)
                if modified_ms is not None:
                    yield ObjectEntry(path, entry.size, modified_ms)

    def _entries(self, folder: str) -> Sequence[FolderEntry]:
        """Return the objects and folders in a folder, in the order of the keys in them."""
        try:
            entries = self._storage.list(folder)
        except FileNotFoundError:
            return []
        except StorageFailed:
            if self._is_object(folder):  # which has no objects below it
                return []
            raise
        # "a-b" comes before "a/b": the keys of a folder are compared with its "/".
        return sorted(
            (entry for entry in entries if is_key(entry.name)),
            key=lambda entry: entry.name + "/" if entry.is_folder else entry.name,
        )

    def _modified_ms(self, path: str, size: int) -> int | None:
        """Return when an object was put; None: it was deleted since it was listed."""
        try:
            file = self._storage.open(path, size=size)
            age_ms = file.age_ms()
        except FileNotFoundError:
            return None
        file.close()
        return wall_ms() - (age_ms or 0)

    def _is_object(self, path: str) -> bool:
        """Return whether the path, or a folder above it, is an object's."""
        for upper in _with_parents(path)[:-1]:
            with contextlib.suppress(FileNotFoundError, StorageFailed):
                entries = self._storage.list(parent_of(upper))
                if any(not entry.is_folder and _path(parent_of(upper), entry.name) == upper for entry in entries):
                    return True
        return False

    def _has_objects(self, folder: str) -> bool:
        return any(
            self._has_objects(_path(folder, entry.name)) if entry.is_folder else True for entry in self._entries(folder)
        )

    # --- errors

    def _name(self, key: str) -> str:
        return f"{self.location}/{key}"

    def _check_open(self) -> None:
        if self._is_closed:
            raise TierError(f"{self.location} is closed")

    @contextlib.contextmanager
    def _errors(self, key: str) -> Iterator[None]:
        """Raise the errors of the contract in place of the storage's."""
        self._check_open()
        try:
            yield
        except FileNotFoundError as error:
            raise ObjectNotFound(f"{self._name(key)} does not exist") from error
        except StorageFailed as error:
            self._fail(key, error)

    def _fail(self, key: str, error: StorageFailed) -> NoReturn:
        kind = TierDenied if isinstance(error.__cause__, PermissionError) else TierUnavailable
        raise kind(f"{self._name(key)}: {error}") from error


def _path(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _with_parents(folder: str) -> list[str]:
    """Return a folder, and those above it up to the root."""
    paths = [folder]
    while folder:
        folder = parent_of(folder)
        paths.append(folder)
    return paths


def _named(version: Version | None) -> str:
    return "no object" if version is None else f"version {version[:12]}"
