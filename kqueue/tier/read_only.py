"""Files and storages that can't be written: segments in the tier never change."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from kqueue.base.errors import StorageFailed
from kqueue.storage import Lock, Region


class ReadOnlyFile:
    """A `File`, and the source of regions, whose bytes `read_at` returns.

    Args: name: for messages. is_cached: whether a read of these bytes would not wait.
    """

    def __init__(
        self, name: str, size: int, read_at: Callable[[int, int], bytes], is_cached: Callable[[int, int], bool]
    ) -> None:
        self.size = size
        self.read_at = read_at
        self.is_cached = is_cached
        self._name = name

    def region(self, position: int, size: int) -> Region:
        return Region(self, position, size)

    def fileno(self) -> int | None:
        return None

    def age_ms(self) -> int | None:
        return None

    def close(self) -> None:
        pass

    def append(self, data: bytes | bytearray | memoryview) -> NoReturn:
        raise read_only(self._name)

    def truncate(self, size: int) -> NoReturn:
        raise read_only(self._name)

    def sync(self) -> NoReturn:
        raise read_only(self._name)


class RefusedWrites:
    """The half of a `Storage` that writes. Raises: StorageFailed, in each method."""

    opener = None

    def make_folder(self, path: str) -> NoReturn:
        raise read_only(path)

    def remove(self, path: str) -> NoReturn:
        raise read_only(path)

    def rename(self, old: str, new: str) -> NoReturn:
        raise read_only(old)

    def sync_folder(self, folder: str) -> NoReturn:
        raise read_only(folder)

    def write_atomic(self, path: str, data: bytes) -> NoReturn:
        raise read_only(path)

    def lock(self, name: str) -> Lock:
        raise read_only(name)

    def free_bytes(self) -> int | None:
        return 0

    def total_bytes(self) -> int | None:
        return None


def read_only(path: str) -> StorageFailed:
    """Return the error of an attempt to write."""
    return StorageFailed(f"{path} is in the tier, where segments never change")
