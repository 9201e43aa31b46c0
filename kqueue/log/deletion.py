"""What is left to do on the disk once segments were taken out of a log.

The order, each step durable before the next: the log start checkpoint says that they are gone;
their files are renamed to `.deleted`, the oldest first, as Kafka names them; after
`file.delete.delay.ms` the files are removed. Crash: before the checkpoint, the segments are back,
and dropped again; after it they are no part of the log any more, whatever names are left, and the
next start removes what is called `.deleted`. Readers are undisturbed: they hold what they read
open.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence

from kqueue.base.clock import Clock
from kqueue.base.errors import TooManyOpenFiles
from kqueue.base.jobs import IoJob, Jobs
from kqueue.base.timers import Timers
from kqueue.log.formats.filenames import DELETED
from kqueue.storage import Storage
from kqueue.storage.paths import parent_of

logger = logging.getLogger("kqueue.log")
TopicPartition = tuple[str, int]
HELD_MS = 1000  # until files of a folder that is held are looked at again
Done = Callable[[BaseException | None], None]


class DeletedSegments:
    """Segments that a log let go of, oldest first: their offsets from `base_offset` to `end_offset`
    (exclusive), their bytes, and why.

    `rename` and `remove` block, and may run in any thread. `files`: names in `folder`, in the order
    in which they go.
    """

    __slots__ = ("base_offset", "count", "end_offset", "files", "folder", "size", "storage", "why")

    def __init__(
        self,
        storage: Storage,
        folder: str,
        files: Sequence[str],
        *,
        base_offset: int,
        end_offset: int,
        count: int,
        size: int,
        why: str,
    ) -> None:
        self.storage = storage
        self.folder = folder
        self.files = tuple(files)
        self.base_offset = base_offset
        self.end_offset = end_offset
        self.count = count
        self.size = size
        self.why = why

    def __repr__(self) -> str:
        return f"DeletedSegments({self.folder}: {self.base_offset} to {self.end_offset}, {self.why})"

    def rename(self) -> None:
        """Call the files `.deleted`, durably. Crash: some still have their names. Raises
        StorageFailed.
        """
        for name in self.files:
            with contextlib.suppress(FileNotFoundError):  # the partition was deleted meanwhile
                self.storage.rename(f"{self.folder}/{name}", f"{self.folder}/{name}{DELETED}")
        self.sync_names()

    def sync_names(self) -> None:
        """The last step of `rename`, which is to be repeated after TooManyOpenFiles. Raises
        StorageFailed.
        """
        with contextlib.suppress(FileNotFoundError):
            self.storage.sync_folder(self.folder)

    def remove(self) -> None:
        """Remove the files that are called `.deleted`. Crash: the next start removes the rest.
        Raises StorageFailed.
        """
        remove_files(self.storage, self.deleted_paths())

    def deleted_paths(self) -> Iterator[str]:
        """Where the files are after `rename`."""
        return (f"{self.folder}/{name}{DELETED}" for name in self.files)


def remove_files(storage: Storage, paths: Iterator[str] | Sequence[str]) -> None:
    """Remove files; those that are gone are fine. Blocks. Crash: some may stay or come back. Raises
    StorageFailed.
    """
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            storage.remove(path)


def remove_folder(storage: Storage, folder: str) -> None:
    """Remove a folder and the files in it; one that is not there is fine. Raises StorageFailed."""
    if not storage.exists(folder):
        return
    for entry in storage.list(folder):
        if entry.is_folder:
            remove_folder(storage, f"{folder}/{entry.name}")
        else:
            storage.remove(f"{folder}/{entry.name}")
    storage.remove(folder)


class AsyncDeleter:
    """Does for all logs of a broker what `DeletedSegments` leaves to be done. Belongs to the owner thread.

    `save_start(key, done)` makes the log start of a partition durable (see
    `LogManager.save_log_starts`).
    """

    def __init__(
        self, jobs: Jobs, timers: Timers, clock: Clock, save_start: Callable[[TopicPartition, Done], None]
    ) -> None:
        self._jobs = jobs
        self._timers = timers
        self._clock = clock
        self._save_start = save_start
        self._held: set[str] = set()

    def hold(self, folder: str) -> None:
        """Remove nothing from this folder until `release`.

        While a compaction renames files there, a start after a crash needs every `.deleted` name to
        tell how far it came.
        """
        self._held.add(folder)

    def release(self, folder: str) -> None:
        """What is due may be removed again, the next time that it is looked at."""
        self._held.discard(folder)

    def delete_segments(self, key: TopicPartition, dropped: DeletedSegments, delay_ms: int) -> None:
        """Go through the steps. What fails is logged, and left to the next start: the log itself is
        not harmed.
        """

        def submit(run: Callable[[], None]) -> None:
            self._jobs.submit(IoJob(f"drop segments of {dropped.folder}", run, renamed, dropped.storage.location))

        def renamed(_: None, error: BaseException | None) -> None:
            if isinstance(error, TooManyOpenFiles):  # to sync the folder: renaming opens nothing
                self._timers.at(self._clock.monotonic_ms() + HELD_MS, lambda: submit(dropped.sync_names))
            elif error is not None:
                logger.error(
                    "%s: %r: the files keep their names until the next start: %s",
                    dropped.storage.location,
                    dropped,
                    error,
                )
            else:
                self.remove_files_later(dropped.storage, tuple(dropped.deleted_paths()), delay_ms)

        def saved(error: BaseException | None) -> None:
            if error is None:  # else it was logged where it failed
                submit(dropped.rename)

        self._save_start(key, saved)

    def remove_files_later(self, storage: Storage, paths: Sequence[str], delay_ms: int) -> None:
        """Remove files that are called `.deleted` in `delay_ms`, in a job. A stop before that
        leaves them to the next start.
        """

        def finish(_: None, error: BaseException | None) -> None:
            if error is not None:
                logger.error(
                    "%s: %s could not be removed, the next start tries again: %s", storage.location, paths[0], error
                )

        def due() -> None:
            if not self._held.isdisjoint(parent_of(path) for path in paths):
                self._timers.at(self._clock.monotonic_ms() + HELD_MS, due)
                return
            self._jobs.submit(
                IoJob(f"remove {len(paths)} files", lambda: remove_files(storage, paths), finish, storage.location)
            )

        if paths:
            self._timers.at(self._clock.monotonic_ms() + delay_ms, due)
