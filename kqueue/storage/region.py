"""A stretch of a file on its way to somebody: what a fetch hands up instead of bytes."""

from __future__ import annotations

from typing import Protocol


class RegionSource(Protocol):
    """An open file as a region holds it; stays usable as long as somebody refers to it, whatever
    happens to the name.
    """

    def read_at(self, position: int, size: int) -> bytes:
        """The bytes from `position` on; fewer than `size` only where the file ends."""
        ...

    def fileno(self) -> int | None:
        """The descriptor for zero-copy sends; None where there is none."""
        ...

    def is_cached(self, position: int, size: int) -> bool:
        """Whether reading would not wait for a disk; True where nobody can tell."""
        ...


class Region:
    """A stretch of a file, to be sent later: `size` bytes from `position` on. Holds the open file,
    so its descriptor stays its own.
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
        """The bytes; fewer than `len` only if the file was cut meanwhile. Raises StorageFailed."""
        return self.source.read_at(self.position, self.size)

    def fileno(self) -> int | None:
        """The descriptor for sendfile, from `position` on; None: use `read`."""
        return self.source.fileno()

    @property
    def location(self) -> str:
        """The `Storage.location` of the file, for the queue of a job that reads it; "" where the
        source does not say.
        """
        return getattr(self.source, "location", "")

    def is_cached(self) -> bool:
        """Whether a send would not wait for the disk; only a guess, True where nobody can tell."""
        return self.source.is_cached(self.position, self.size)
