"""Deletes the files of segments that were removed from a log.

The steps, each durable before the next:

1. The log start checkpoint says that the segments are gone.
2. Their files are renamed to `.deleted`, the oldest first, as Kafka names them. Where the remote
   tier has the records, the log start stays below: then each segment's new names are durable
   before the next segment's change, so that a crash leaves no gap.
3. After `file.delete.delay.ms` the files are removed.

A crash before step 1 brings the segments back, and they are deleted again. After it they are not
part of the log, whatever names are left (of segments in the tier: those without `.deleted` are);
the next start removes `.deleted` files. Readers are not disturbed: they hold the files open.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.errors import StorageUnavailable, TooManyOpenFiles
from kqueue.base.jobs import IoJob, Jobs
from kqueue.base.timers import Timers
from kqueue.log.formats.filenames import DELETED, LOG
from kqueue.storage import Storage
from kqueue.storage.paths import parent_of

logger = logging.getLogger("kqueue.log")
TopicPartition = tuple[str, int]
PAUSE_MS = 1000  # between two looks at the files of a paused folder
RETRY_MS = 10_000  # after a checkpoint found no room
Done = Callable[[BaseException | None], None]


class DeletedSegments:
    """Segments that a log removed from its list, oldest first, and whose files are still there.

    Attributes:
        base_offset, end_offset: their offsets, end exclusive.
        count, size: number of segments, bytes of batches.
        files: names in `folder`, in deletion order.
        why: the reason, for log lines.
        in_order: `rename` goes from segment to segment with a sync between, because they lie above
            the log start: without one in the middle, later ones would be out of reach.
        is_renamed: `rename` has ended.
    Thread: `rename` and `remove` block and may run in any thread.
    """

    __slots__ = (
        "_lock", "base_offset", "count", "end_offset", "files", "folder", "in_order", "is_renamed", "size", "storage",
        "why",
    )  # fmt: skip

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
        self._lock = threading.Lock()
        self.in_order = False
        self.is_renamed = False
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
        """Rename the files to `.deleted`; no effect once it has ended. Repeat it after
        TooManyOpenFiles.

        Durability: durable on return; a crash before leaves some with their old names.
        Raises: StorageFailed.
        """
        # A new segment may take one of these names later: two callers must not rename twice.
        with self._lock:
            if not self.is_renamed:
                self._rename()
                self.is_renamed = True

    def _rename(self) -> None:
        # A partition that was deleted meanwhile has no such files.
        for name in self.files:
            if self.in_order and name.endswith(LOG) and name != self.files[0]:
                self._sync_names()
            with contextlib.suppress(FileNotFoundError):
                self.storage.rename(f"{self.folder}/{name}", f"{self.folder}/{name}{DELETED}")
        self._sync_names()

    def _sync_names(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.storage.sync_folder(self.folder)

    def remove(self) -> None:
        """Remove the `.deleted` files. After a crash the next start removes the rest.

        Raises: StorageFailed.
        """
        remove_files(self.storage, self.deleted_paths())

    def deleted_paths(self) -> Iterator[str]:
        """Return the paths of the files after `rename`."""
        return (f"{self.folder}/{name}{DELETED}" for name in self.files)


def remove_files(storage: Storage, paths: Iterator[str] | Sequence[str]) -> None:
    """Remove files; missing ones are ignored. Blocks.

    Durability: none; a crash may bring some back. Raises: StorageFailed.
    """
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            storage.remove(path)


def remove_folder(storage: Storage, folder: str) -> None:
    """Remove a folder with its contents; a missing one is ignored. Raises: StorageFailed."""
    if not storage.exists(folder):
        return
    for entry in storage.list(folder):
        if entry.is_folder:
            remove_folder(storage, f"{folder}/{entry.name}")
        else:
            storage.remove(f"{folder}/{entry.name}")
    storage.remove(folder)


class AsyncDeleter:
    """Deletes removed segments of all logs of a broker, in jobs.

    Args: save_start: `save_start(topic_partition, done)` makes a log start durable; see
        `LogCheckpoints.save_log_starts`.
    Thread: owner thread.
    """

    def __init__(
        self, jobs: Jobs, timers: Timers, clock: Clock, save_start: Callable[[TopicPartition, Done], None]
    ) -> None:
        self._jobs = jobs
        self._timers = timers
        self._clock = clock
        self._save_start = save_start
        self._paused: set[str] = set()

    def pause(self, folder: str) -> None:
        """Remove nothing from this folder until `resume`.

        While a compaction renames files there, a start after a crash needs every `.deleted` name to
        find out how far it came.
        """
        self._paused.add(folder)

    def resume(self, folder: str) -> None:
        """Allow removals again; they continue within `PAUSE_MS`."""
        self._paused.discard(folder)

    def delete_segments(
        self,
        key: TopicPartition,
        dropped: DeletedSegments,
        delay_ms: int,
        is_current: Callable[[], bool] = lambda: True,
    ) -> None:
        """Run the steps. A full disk is tried again: the deletion makes room. Another failure is
        logged and left to the next start; the log stays usable.

        Args: delay_ms: between the rename and the removal. is_current: whether the log is still in
            use; else its folder is deleted, and another log may have the names of its files.
        """

        def submit(run: Callable[[], None]) -> None:
            self._jobs.submit(IoJob(f"drop segments of {dropped.folder}", run, renamed, dropped.storage.location))

        def renamed(_: None, error: BaseException | None) -> None:
            if isinstance(error, TooManyOpenFiles):  # to sync the folder: renaming opens nothing
                self._timers.at(self._clock.monotonic_ms() + PAUSE_MS, lambda: submit(dropped.rename))
            elif error is not None:
                events.FILES_NOT_RENAMED.log(
                    logger,
                    "%s: %r: the files keep their names until the next start: %s",
                    location=dropped.storage.location,
                    path=dropped,
                    error=error,
                )
            else:
                self.remove_files_later(dropped.storage, tuple(dropped.deleted_paths()), delay_ms)

        def saved(error: BaseException | None) -> None:
            # A failure was logged where it came.
            if error is None:
                submit(dropped.rename)
            elif isinstance(error, StorageUnavailable):
                self._timers.at(self._clock.monotonic_ms() + RETRY_MS, save)

        def save() -> None:
            if is_current():
                self._save_start(key, saved)

        save()

    def remove_files_later(self, storage: Storage, paths: Sequence[str], delay_ms: int) -> None:
        """Remove `.deleted` files after `delay_ms`, in a job; a stop before leaves them to the next
        start.
        """

        def finish(_: None, error: BaseException | None) -> None:
            if error is not None:
                events.FILES_NOT_REMOVED.log(
                    logger,
                    "%s: %s could not be removed, the next start tries again: %s",
                    location=storage.location,
                    path=paths[0],
                    error=error,
                )

        def due() -> None:
            if not self._paused.isdisjoint(parent_of(path) for path in paths):
                self._timers.at(self._clock.monotonic_ms() + PAUSE_MS, due)
                return
            self._jobs.submit(
                IoJob(f"remove {len(paths)} files", lambda: remove_files(storage, paths), finish, storage.location)
            )

        if paths:
            self._timers.at(self._clock.monotonic_ms() + delay_ms, due)
