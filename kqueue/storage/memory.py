"""Storage in memory, for brokers that keep nothing."""

from __future__ import annotations

from kqueue.base.clock import Clock, SystemClock
from kqueue.base.errors import FolderInUse, StorageFailed
from kqueue.storage.contract import FolderEntry, Region
from kqueue.storage.paths import check_path, parent_of


class MemoryFile:
    """A growing buffer, also the `RegionSource` of its regions. `sync` does nothing: the bytes end
    with the process.
    """

    __slots__ = ("_clock", "_data", "_modified_ms")

    def __init__(self, data: bytes = b"", clock: Clock = SystemClock()) -> None:  # noqa: B008  it has no state
        self._clock = clock
        self._modified_ms = clock.monotonic_ms()
        self._data = bytearray(data)

    @property
    def size(self) -> int:
        return len(self._data)

    def append(self, data: bytes | bytearray | memoryview) -> int:
        position = len(self._data)
        self._data.extend(data)
        self._modified_ms = self._clock.monotonic_ms()
        return position

    def read_at(self, position: int, size: int) -> bytes:
        # One copying step: a memoryview in another thread would make an append raise BufferError.
        return bytes(self._data[position : position + size])

    def truncate(self, size: int) -> None:
        assert size <= len(self._data), "truncate never grows a file"
        del self._data[size:]
        self._modified_ms = self._clock.monotonic_ms()

    def sync(self) -> None:
        pass

    def region(self, position: int, size: int) -> Region:
        return Region(self, position, size)

    def fileno(self) -> int | None:
        return None

    def is_cached(self, position: int, size: int) -> bool:
        return True

    def age_ms(self) -> int | None:
        return int(self._clock.monotonic_ms() - self._modified_ms)

    def close(self) -> None:
        pass


class MemoryLock:
    """Lock on a name of a `MemoryStorage`; see `contract.Lock`."""

    __slots__ = ("_held", "_name")

    def __init__(self, held: set[str], name: str) -> None:
        if name in held:
            raise FolderInUse(f"{name} is locked by another broker of this process")
        held.add(name)
        self._held = held
        self._name = name

    def check(self) -> str | None:
        return None

    def release(self) -> None:
        self._held.discard(self._name)


class MemoryStorage:
    """A `Storage` in memory. An open file stays usable after its name was removed, as on a disk.

    Args: clock: measures the age of files; None: the system's clock.
    """

    location = "memory"
    opener = None

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = SystemClock() if clock is None else clock
        self._files: dict[str, MemoryFile] = {}
        self._folders: dict[str, set[str]] = {"": set()}
        self._locks: set[str] = set()

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> MemoryFile:
        file = self._files.get(check_path(path))
        if file is None:
            if not create:
                raise FileNotFoundError(path)
            file = self._files[path] = MemoryFile(clock=self._clock)
            self._name(path)
        return file

    def read(self, path: str) -> bytes:
        file = self.open(path)
        return file.read_at(0, file.size)

    def exists(self, path: str) -> bool:
        return check_path(path) in self._files or path in self._folders

    def list(self, folder: str) -> list[FolderEntry]:
        names = self._folders.get(check_path(folder))
        if names is None:
            raise FileNotFoundError(folder)
        return [self._entry(f"{folder}/{name}" if folder else name, name) for name in sorted(names)]

    def make_folder(self, path: str) -> None:
        if check_path(path) in self._folders:
            return
        if path in self._files:
            raise StorageFailed(f"{path} is a file, a folder was to be made there")
        self.make_folder(parent_of(path))
        self._folders[path] = set()
        self._name(path)

    def remove(self, path: str) -> None:
        if check_path(path) in self._folders:
            if self._folders[path] or not path:
                raise StorageFailed(f"folder {path!r} is not empty")
            del self._folders[path]
        elif path in self._files:
            del self._files[path]
        else:
            raise FileNotFoundError(path)
        self._unname(path)

    def rename(self, old: str, new: str) -> None:
        if check_path(new) in self._folders:
            raise StorageFailed(f"{new} is a folder")
        if check_path(old) in self._folders:
            if parent_of(new) not in self._folders:
                raise FileNotFoundError(parent_of(new))
            self._rename_folder(old, new)
        elif old in self._files:
            self._files[new] = self._files.pop(old)
        else:
            raise FileNotFoundError(old)
        self._unname(old)
        self._name(new)

    def sync_folder(self, folder: str) -> None:
        if check_path(folder) not in self._folders:
            raise FileNotFoundError(folder)

    def write_atomic(self, path: str, data: bytes) -> None:
        check_path(path)
        self._files[path] = MemoryFile(data, self._clock)
        self._name(path)

    def lock(self, name: str) -> MemoryLock:
        return MemoryLock(self._locks, check_path(name))

    def free_bytes(self) -> int | None:
        return None

    def total_bytes(self) -> int | None:
        return None

    def _entry(self, path: str, name: str) -> FolderEntry:
        file = self._files.get(path)
        return FolderEntry(name, file.size, False) if file is not None else FolderEntry(name, 0, True)

    def _name(self, path: str) -> None:
        folder = parent_of(path)
        if folder not in self._folders:
            self._files.pop(path, None)
            raise FileNotFoundError(folder)
        self._folders[folder].add(path.rpartition("/")[2])

    def _unname(self, path: str) -> None:
        self._folders[parent_of(path)].discard(path.rpartition("/")[2])

    def _rename_folder(self, old: str, new: str) -> None:
        for name in list(self._folders[old]):
            path, moved = f"{old}/{name}", f"{new}/{name}"
            if path in self._folders:
                self._rename_folder(path, moved)
            else:
                self._files[moved] = self._files.pop(path)
        self._folders[new] = self._folders.pop(old)
