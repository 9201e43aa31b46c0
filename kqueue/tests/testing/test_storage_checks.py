"""`check_storage` reports each violation of the storage contract."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.storage import FolderEntry, LocalStorage, MemoryStorage, Region
from kqueue.storage.memory import MemoryFile, MemoryLock
from kqueue.testing import check_storage
from kqueue.tests.tables import for_each


class File:
    """Delegates to a file of `MemoryStorage`."""

    def __init__(self, file: MemoryFile) -> None:
        self.file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


class Storage(MemoryStorage):
    """A `MemoryStorage` with files of another class."""

    kind: type[File] = File

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> Any:
        return self.kind(super().open(path, create=create, size=size))


def with_files(**members: Any) -> type[Storage]:
    return type("Broken", (Storage,), {"kind": type("BrokenFile", (File,), members)})


def broken(**members: Any) -> type[MemoryStorage]:
    return type("Broken", (MemoryStorage,), members)


class Blocks(File):
    """Loses the last partial block of 16 bytes of an append, like a faulty cipher."""

    def append(self, data: Any) -> int:
        return self.file.append(data if len(data) != 61 else bytes(data[:48]) + bytes(13))


class Flushing(File):
    """Loses buffered bytes on close."""

    def close(self) -> None:
        if self.file.size > 4096:
            self.file.truncate(self.file.size - 1)


class Wandering(File):
    """Returns different bytes on each read."""

    count = 0

    def read_at(self, position: int, size: int) -> bytes:
        Wandering.count += size > 4096
        data = self.file.read_at(position, size)
        return data if Wandering.count % 2 == 0 else bytes(len(data))


class OneAtATime(Storage):
    """Its files do not support several threads."""

    class kind(File):
        busy = threading.Lock()

        def sync(self) -> None:
            with self.busy:
                threading.Event().wait(0.002)

        def region(self, position: int, size: int) -> Any:
            return _Busy(self.file.region(position, size), self.busy)


class _Busy:
    is_region = True

    def __init__(self, region: Any, busy: threading.Lock) -> None:
        self._region, self._lock = region, busy

    def __len__(self) -> int:
        return len(self._region)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._region, name)

    def read(self) -> bytes:
        if self._lock.locked():
            raise StorageFailed("a sync is under way")
        return bytes(self._region.read())


class ByName(Storage):
    """Its regions open the file by name."""

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> Any:
        file = super().open(path, create=create, size=size)
        file.region = lambda position, size: _Named(self, path, position, size)
        return file


class _Named(Region):
    def __init__(self, storage: Storage, path: str, position: int, size: int) -> None:
        super().__init__(storage.open(path).file, position, size)
        self.storage = storage
        self.path = path

    def read(self) -> bytes:
        return self.storage.read(self.path)[self.position :][: self.size]


class Elsewhere(MemoryStorage):
    """Its opener opens another storage."""

    opener = MemoryStorage


def rename_slowly(self: MemoryStorage, old: str, new: str) -> None:
    if new in self._files:
        raise StorageFailed(f"{new} is there")
    MemoryStorage.rename(self, old, new)


def write_in_place(self: MemoryStorage, path: str, data: bytes) -> None:
    MemoryStorage.write_atomic(self, path, data)
    MemoryStorage.write_atomic(self, path + ".new", data)


def any_path(self: MemoryStorage, path: str) -> bool:
    return path in self._files or path in self._folders


def remove_all(self: MemoryStorage, path: str) -> None:
    for name in [name for name in self._files if name.startswith(f"{path}/")]:
        MemoryStorage.remove(self, name)
    MemoryStorage.remove(self, path)


BROKEN: list[tuple[Any, str, str]] = [
    (
        with_files(append=lambda self, data: len(data)),
        "appends go to the end",
        r"append\(b'abc'\) to an empty file gave 3, expected 0",
    ),
    (
        with_files(append=lambda self, data: str(self.file.append(data))),
        "appends go to the end",
        "gave '0', expected 0",
    ),
    (with_files(size=True), "appends go to the end", "size of a new file gave True"),
    (
        with_files(read_at=lambda self, at, size: self.file.read_at(at, size) or None),
        "reads stop at the end",
        r"read_at\(10, 1\).* gave None",
    ),
    (
        broken(read=lambda self, path: bytearray(MemoryStorage.read(self, path))),
        "appends go to the end",
        "gave bytearray .*expected bytes",
    ),
    (
        with_files(append=lambda self, data: self.file.append(data[: 1 << 20])),
        "large appends are written completely",
        "other bytes than were appended",
    ),
    (
        with_files(close=lambda self: self.file.truncate(0)),
        "files keep their bytes after close",
        "size of a closed file of 3 bytes gave 0",
    ),
    (with_files(truncate=lambda self, size: None), "truncation cuts the end", r"size after truncate\(4\) gave 10"),
    (
        type("Broken", (Storage,), {"kind": Blocks}),
        "no byte is lost",
        r"step \d+, after append at \d+ bytes: read_at\(.* gave other bytes",
    ),
    (
        type("Broken", (Storage,), {"kind": Flushing}),
        "no byte is lost",
        r"step \d+, after (close|reopen) at \d+ bytes: size gave",
    ),
    (type("Broken", (Storage,), {"kind": Wandering}), "large appends|no byte is lost", "gave other bytes"),
    (
        with_files(sync=lambda self: 1 / 0),
        "truncation cuts the end",
        r"open\('a.log', create=True\).sync\(\) raised ZeroDivisionError",
    ),
    (
        with_files(region=lambda self, at, size: self.file.region(0, size)),
        "no byte is lost",
        r"region\(.* gave other bytes",
    ),
    (ByName, "regions outlive their file", "raised FileNotFoundError: a.log"),
    (
        broken(remove=lambda self, path: None),
        "regions outlive|missing files",
        r"remove\('none'\) gave None, expected FileNotFoundError",
    ),
    (broken(exists=lambda self, path: 0), "missing files", r"exists\('none'\) gave int 0, expected bool"),
    (
        broken(list=lambda self, path: [tuple(one) for one in MemoryStorage.list(self, path)]),
        "folders hold names",
        "expected FolderEntry",
    ),
    (
        broken(list=lambda self, path: MemoryStorage.list(self, path)[::-1]),
        "folders hold names",
        r"list\('b'\) .*sorted, gave",
    ),
    (
        broken(remove=remove_all),
        "folders hold names",
        "remove of a folder that is not empty gave None, expected StorageFailed",
    ),
    (broken(rename=rename_slowly), "renaming replaces", r"storage.rename\('f/a', 'f/b'\) raised StorageFailed"),
    (broken(write_atomic=write_in_place), "atomic writes replace", r"gave \['checkpoint', 'checkpoint.new'\]"),
    (broken(lock=lambda self, name: MemoryLock(set(), name)), "locks exclude", "lock of a name that is locked gave"),
    (broken(exists=any_path), "paths stay inside", r"exists\('\.\./a'\) gave False, expected ValueError"),
    (broken(free_bytes=lambda self: -1), "free bytes", "free_bytes gave -1"),
    (broken(total_bytes=lambda self: 1.5), "free bytes", r"total_bytes gave 1\.5, expected an int or None"),
    (broken(location=""), "free bytes", "location is empty"),
    (Elsewhere, "its opener finds the same files", r"raised FileNotFoundError|FileNotFoundError"),
    (broken(opener=lambda self: None), "its opener finds", "its opener cannot be pickled"),
    (OneAtATime, "threads may sync", "StorageFailed: a sync is under way"),
]


@for_each("kind, sentence, words", BROKEN)
def test_violations_are_reported(kind: Any, sentence: str, words: str) -> None:
    with pytest.raises(AssertionError, match=f'(?s)^storage .* fails the check ".*({sentence}).*": .*({words})'):
        check_storage(lambda folder: kind(), isolated=False)


def test_each_check_gets_a_new_storage_and_folder() -> None:
    folders: list[str] = []

    def make(folder: str) -> LocalStorage:
        folders.append(folder)
        storage = LocalStorage(folder)
        assert storage.list("") == []
        storage.open("left behind", create=True).append(b"x")
        assert storage.list("") == [FolderEntry("left behind", 1, False)]
        storage.remove("left behind")
        return storage

    check_storage(make, isolated=False)
    assert len(folders) == len(set(folders)) > 10


def test_an_opener_that_raises_is_reported() -> None:
    def make(folder: str) -> LocalStorage:
        raise StorageFailed("no disk")

    with pytest.raises(
        AssertionError,
        match=r'"appends go to the end": opening a storage in the folder .* raised StorageFailed: no disk',
    ):
        check_storage(make, isolated=False)
