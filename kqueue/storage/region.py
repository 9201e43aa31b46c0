"""File region: a range of an open file that is sent later. Fetch returns regions instead of
bytes.
"""

from __future__ import annotations

from typing import Protocol


class RegionSource(Protocol):
    """An open file that a region holds. It stays readable while a region refers to it, also after
    its name was removed.

    It may have `location` and `read_cached` besides, as those of `Region`; the latter does in one
    step what `is_cached` and `read_at` do in two.
    """

    def read_at(self, position: int, size: int) -> bytes:
        """Return the bytes from `position` on; fewer than `size` only at the end of the file."""
        ...

    def fileno(self) -> int | None:
        """Return the descriptor for zero-copy sends; None: there is none, use `read_at`."""
        ...

    def is_cached(self, position: int, size: int) -> bool:
        """Return whether a read would not wait for a disk; True where that is not known."""
        ...


class BytesSource:
    """Bytes in memory, as the source of a region."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read_at(self, position: int, size: int) -> bytes:
        """See `RegionSource`."""
        return self._data[position : position + size]

    def fileno(self) -> int | None:
        """See `RegionSource`."""
        return None

    def is_cached(self, position: int, size: int) -> bool:
        """See `RegionSource`."""
        return True


class Region:
    """`size` bytes of a file from `position` on. It holds the open file, which keeps the descriptor
    open.
    """

    __slots__ = ("position", "size", "source")
    is_region = True

    def __init__(self, source: RegionSource, position: int, size: int) -> None:
        self.source = source
        self.position = position
        self.size = size

    def __len__(self) -> int:
        return self.size

    def read(self) -> bytes:
        """Return the bytes; fewer than `len` only if the file was truncated. Raises:
        StorageFailed.
        """
        return self.source.read_at(self.position, self.size)

    def read_cached(self) -> bytes | bytearray | None:
        """Return the bytes as `read` does, unless that would probably wait for the disk: None.

        Raises: StorageFailed.
        """
        read_cached = getattr(self.source, "read_cached", None)
        if read_cached is None:
            return self.read() if self.is_cached() else None
        data: bytes | bytearray | None = read_cached(self.position, self.size)
        return data

    def fileno(self) -> int | None:
        """Return the descriptor for sendfile from `position` on; None: use `read`."""
        return self.source.fileno()

    @property
    def location(self) -> str:
        """The `Storage.location` of the file: the queue of a job that reads it. "": not known."""
        return getattr(self.source, "location", "")

    def is_cached(self) -> bool:
        """Return whether a send would probably not wait for the disk; True where that is not
        known.
        """
        return self.source.is_cached(self.position, self.size)
