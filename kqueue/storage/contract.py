"""Contract of a storage: bytes in named files in folders, without topics, groups or records.

Paths are relative to the storage's root, with "/" between folders; "" is the root itself.

Errors:
    ValueError          a path would leave the root
    FileNotFoundError   a name that must exist does not
    TooManyOpenFiles    no more files can be opened; nothing was changed, and the disk is not at
    fault StorageFailed       every other failure

Plugins register under the entry-point group `kqueue.storage`: a callable that takes a data folder's
path. `kqueue.testing.check_storage` tests one. Any other error or result of a plugin becomes a
StorageFailed with the plugin's name (`guarded_storage`). `delegating` has bases for storages that
wrap another one.

Thread: one thread writes. `File.sync`, `Storage.sync_folder`, `Storage.write_atomic` and regions
may be used from other threads beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from kqueue.storage.region import Region, RegionSource

__all__ = ["File", "FolderEntry", "Lock", "Region", "RegionSource", "Storage"]


class FolderEntry(NamedTuple):
    """One name in a folder. `size`: bytes, 0 for folders."""

    name: str
    size: int
    is_folder: bool


class Lock(Protocol):
    """Lock on a folder, held until `release` or until the process ends."""

    def check(self) -> str | None:
        """Verify that the lock still excludes others, and lock again if it was lost and is free.

        Blocks. After `release` it returns None.
        Returns: None: the lock was held. Otherwise a sentence for the log about what was repaired.
        Raises:
            FolderLost: another process holds the lock, or the path names another folder.
            StorageFailed: the lock can't be verified.
        """
        ...

    def release(self) -> None:
        """Release the lock. A second call does nothing."""
        ...


class File(Protocol):
    """One file. It may close its descriptor when idle and open it again by name, so close the file
    before you rename it.
    """

    @property
    def size(self) -> int:
        """Bytes in the file, unsynced ones included."""
        ...

    def append(self, data: bytes | bytearray | memoryview) -> int:
        """Write at the end; return the position where `data` begins.

        Durability: none before `sync`; a power cut may lose all or any part.
        Raises:
            StorageFailed: the end may hold a part of `data`. Also raised after a failed `sync`.
            TooManyOpenFiles: nothing was written.
            DiskFull: there was no room; `truncate` to the size before removes the written part.
        """
        ...

    def read_at(self, position: int, size: int) -> bytes:
        """Return the bytes from `position` on; fewer than `size` only at the end of the file."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, at most its size. Durability: none before `sync`."""
        ...

    def sync(self) -> None:
        """Make all bytes written so far durable. The name of a new file also needs `sync_folder`.

        Raises:
            StorageFailed: written bytes may be lost. The kernel reports the error only once, so
                this object raises it again from every later `sync` and append. A file opened again
                by name would report success.
            TooManyOpenFiles: nothing was done; the call may be repeated.
        """
        ...

    def region(self, position: int, size: int) -> Region:
        """Return a range of the file to send later."""
        ...

    def age_ms(self) -> int | None:
        """Return the milliseconds since the last change, by the storage's clock; never negative.

        Retention uses it for segments whose records have no time.
        Returns: None: the storage does not know.
        Raises: StorageFailed, FileNotFoundError.
        """
        ...

    def close(self) -> None:
        """Close the descriptor; regions stay readable. A second call does nothing, and a later use
        opens the file again.
        """
        ...


class Storage(Protocol):
    """A tree of folders and files below one root, for example a log dir."""

    @property
    def location(self) -> str:
        """The place of the files, for log messages: a path, or "memory"."""
        ...

    @property
    def opener(self) -> Callable[[], Storage] | None:
        """Callable that opens the same files in another process; None: only this process has them.

        It takes no arguments and can be pickled. It is sent through a pipe, so it must hold no
        secrets, only where to find them.
        """
        ...

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> File:
        """Return the file of this name. Its descriptor is opened on first use.

        Args:
            create: create an empty file if there is none; its folder must exist.
            size: bytes, where the caller just listed the folder; saves a stat.
        Raises: FileNotFoundError: there is no such file, or (at first use) it was removed.
        Durability: a new name needs `sync_folder` of its folder.
        """
        ...

    def read(self, path: str) -> bytes:
        """Return all bytes of a file. Raises: FileNotFoundError."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether there is a file or folder of this name."""
        ...

    def list(self, folder: str) -> list[FolderEntry]:
        """Return the entries of the folder, sorted by name. Raises: FileNotFoundError."""
        ...

    def make_folder(self, path: str) -> None:
        """Create a folder and its parents; an existing folder is left as it is.

        Durability: needs `sync_folder` of the parent.
        """
        ...

    def remove(self, path: str) -> None:
        """Remove a file or an empty folder.

        Raises: FileNotFoundError.
        Durability: needs `sync_folder`; until then a power cut may bring the name back.
        """
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file or folder atomically; a file of the new name is replaced.

        Raises: FileNotFoundError.
        Durability: needs `sync_folder` of both folders; until then a power cut may restore the old
            name.
        """
        ...

    def sync_folder(self, folder: str) -> None:
        """Make the names created, changed and removed in this folder durable."""
        ...

    def write_atomic(self, path: str, data: bytes) -> None:
        """Replace the content of a file: readers see the old or the new bytes, never a mixture.

        Blocks. Durability: durable on return.
        """
        ...

    def lock(self, name: str) -> Lock:
        """Lock the folder that holds the lock file `name`.

        There is one lock per folder: a second lock file in the same folder may be refused too.
        Raises: FolderInUse: this process or another one holds the lock.
        """
        ...

    def free_bytes(self) -> int | None:
        """Return how many bytes can still be written; None: no known bound."""
        ...

    def total_bytes(self) -> int | None:
        """Return the bytes of the whole volume, used ones included; None: no known bound."""
        ...
