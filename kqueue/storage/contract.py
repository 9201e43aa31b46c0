"""What a backend of files must do: bytes in named files in folders, nothing of topics, groups or
records.

Paths are relative to the storage's root, with "/" between folders ("" is the root itself); a path
that would leave the root raises ValueError. FileNotFoundError where a name is needed and not there;
TooManyOpenFiles where no more files can be opened: nothing was changed, and nobody's disk is at
fault. Every other trouble is StorageFailed. Plugins bring theirs under the entry-point group
`kqueue.storage`: a callable that takes a data folder's path, which `kqueue.testing.check_storage`
tests. Whatever else one of them raises, or returns, is made a StorageFailed with its name
(`guard`). One thread writes; `File.sync`, `Storage.sync_folder`, `Storage.write_atomic` and regions
may be used from others beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from kqueue.storage.region import Region, RegionSource

__all__ = ["File", "FolderEntry", "Lock", "Region", "RegionSource", "Storage"]


class FolderEntry(NamedTuple):
    """One name in a folder; `size` in bytes, 0 for folders."""

    name: str
    size: int
    is_folder: bool


class Lock(Protocol):
    """Held until `release`, or until the process ends."""

    def check(self) -> str | None:
        """Verify that the lock still excludes others; take it again where it was lost and is free.
        Blocks. None after `release`.

        Returns: None if nothing was wrong, else what was wrong and is right again (a sentence for
        the log). Raises: FolderLost: another process holds the lock now, or the path names another
        folder. StorageFailed: it can't be verified.
        """
        ...

    def release(self) -> None:
        """Give the lock up. Twice is harmless."""
        ...


class File(Protocol):
    """One file. It may close its descriptor when idle and open it again by name: close the file
    before renaming it.
    """

    @property
    def size(self) -> int:
        """Bytes in the file, those not yet synced included."""
        ...

    def append(self, data: bytes | bytearray | memoryview) -> int:
        """Write at the end; returns the position where `data` begins.

        Durability: none before `sync`; a power cut may lose all or any part. After a StorageFailed
        the end may hold a part of `data`. Raises StorageFailed: also where an earlier `sync`
        failed. TooManyOpenFiles: nothing was written. DiskFull: there was no room, and `truncate`
        to the size before takes back the part that was written.
        """
        ...

    def read_at(self, position: int, size: int) -> bytes:
        """The bytes from `position` on; fewer than `size` only where the file ends."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, no more than it has. Durability: none before `sync`."""
        ...

    def sync(self) -> None:
        """Make all that was written so far survive a power cut; the name of a new file needs
        `sync_folder` besides.

        Raises StorageFailed: what was written may be lost. The kernel reports that once, so this
        object raises it again from every later `sync` and append; opened again by name, the file
        would report success. TooManyOpenFiles: nothing was done, and it may be repeated.
        """
        ...

    def region(self, position: int, size: int) -> Region:
        """A stretch of the file to send later."""
        ...

    def age_ms(self) -> int | None:
        """Milliseconds since its bytes last changed, by the storage's own clock, never negative;
        None: the storage can't say.

        Retention counts the age of segments from it whose records have no time. Raises
        StorageFailed, FileNotFoundError.
        """
        ...

    def close(self) -> None:
        """Let go of the descriptor; regions live on. Twice is harmless, and a later use opens it
        again.
        """
        ...


class Storage(Protocol):
    """A tree of folders and files under one root, e.g. a log dir."""

    @property
    def location(self) -> str:
        """Where this is, for people (a path, or "memory")."""
        ...

    @property
    def opener(self) -> Callable[[], Storage] | None:
        """What opens the same files in another process: picklable, takes nothing; None: they are in
        this process alone.

        It is sent through a pipe, so it carries no secrets: what they are found by, at most.
        """
        ...

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> File:
        """The file of this name. Its descriptor is opened on first use.

        Args: create: make it, empty, if it is not there; its folder must be. size: its size where
        the caller just listed the folder, which saves asking again. Raises FileNotFoundError: not
        there, or (at first use) gone. Durability: a new name needs `sync_folder` of its folder.
        """
        ...

    def read(self, path: str) -> bytes:
        """All bytes of a file. Raises FileNotFoundError."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder of this name."""
        ...

    def list(self, folder: str) -> list[FolderEntry]:
        """What is in the folder, sorted by name. Raises FileNotFoundError."""
        ...

    def make_folder(self, path: str) -> None:
        """Make a folder, and those above it; harmless if it is there. Durability: needs
        `sync_folder` of the one above.
        """
        ...

    def remove(self, path: str) -> None:
        """Remove a file or an empty folder. Durability: needs `sync_folder`; until then it may come
        back. Raises FileNotFoundError.
        """
        ...

    def rename(self, old: str, new: str) -> None:
        """Give a file or folder another name, at once and whole; a file of the new name is
        replaced.

        Durability: needs `sync_folder` of both folders; until then a power cut may show the old
        name. Raises FileNotFoundError.
        """
        ...

    def sync_folder(self, folder: str) -> None:
        """Make the names made, changed and removed in this folder survive a power cut."""
        ...

    def write_atomic(self, path: str, data: bytes) -> None:
        """Replace the file's content: old or new, never a mixture. Blocks. Durability: on return it
        survives a power cut.
        """
        ...

    def lock(self, name: str) -> Lock:
        """Lock the folder that holds the lock file `name`. Raises FolderInUse: it is locked, in
        this process or another.

        One lock per folder: a lock file of another name in the same folder may be refused too.
        """
        ...

    def free_bytes(self) -> int | None:
        """Bytes that can still be written; None: no bound known."""
        ...

    def total_bytes(self) -> int | None:
        """Bytes of the whole volume, used ones too; None: no bound known."""
        ...
