"""Tracks what of a log is not on disk yet, and builds the jobs that flush it.

Order of a flush: sealed segments with their indexes, producer snapshots, the active log file; then
leader epochs; then names. Only after all of them does `flushed_offset` move. So everything below it
is complete on disk: batches, indexes of sealed segments, their leader epochs, and file names.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from kqueue.base.errors import StorageUnavailable
from kqueue.base.jobs import IoJob
from kqueue.log.formats.filenames import EPOCHS
from kqueue.log.formats.leader_epochs import LeaderEpochCache, encode_epochs
from kqueue.log.segment import Segment
from kqueue.storage import File, Storage
from kqueue.storage.paths import parent_of


class Flusher:
    """The flush state of one log. One job runs at a time; later writes belong to the next job.

    Attributes: flushed_offset: everything below survives a power cut.
    """

    __slots__ = (
        "_files",
        "_folder",
        "_in_flight",
        "_location",
        "_names",
        "_names_in_flight",
        "_parent",
        "_storage",
        "_target",
        "flushed_offset",
    )

    def __init__(self, storage: Storage, folder: str, flushed_offset: int) -> None:
        self._storage = storage
        self._location = storage.location
        self._folder = folder
        self._files: list[File] = []  # besides the active segment's log
        self._in_flight: list[File] = []  # those that the running job syncs
        self._names = False
        self._names_in_flight = False
        self._parent = False
        self._target = -1  # end offset of the running job; -1: none runs
        self.flushed_offset = flushed_offset

    def add(self, *files: File) -> None:
        """Sync these files with the next flush; they are not written any more."""
        self._files += files

    @property
    def has_files(self) -> bool:
        """Whether files other than the active one, or names, wait for a flush."""
        return bool(self._files) or self._names

    @property
    def can_roll(self) -> bool:
        """Whether all but the active segment is durable, names too: only then may another one begin
        (see `sync_sealed`).
        """
        return not (self._files or self._in_flight or self._names or self._names_in_flight)

    def has_flushed_roll(self, offset: int) -> bool:
        """Whether what a roll at `offset` wrote is durable: sealed files, snapshot and names."""
        # a flush up to a later offset began after the roll, one up to this offset maybe before
        return self.flushed_offset > offset or (self.flushed_offset == offset and self.can_roll)

    def folder_changed(self, *, parent: bool = False) -> None:
        """Note that the names in the folder changed; `parent`: the folder itself was made."""
        self._names = True
        self._parent |= parent

    def sync_sealed(self) -> None:
        """Make everything but the active segment durable, before a new segment is created.

        So only the last two segments of a log can be torn. Does nothing if `can_roll`, else blocks.
        Raises: StorageFailed.
        """
        for file in [*self._in_flight, *self._files]:  # the running job may sync these after the new name is on disk
            file.sync()
        self._in_flight, self._files = [], []
        if self._names or self._names_in_flight:
            self._storage.sync_folder(self._folder)
            self._names = False

    def truncated(self, offset: int) -> None:
        """Note that the log was truncated to `offset`, durably."""
        self.flushed_offset = min(self.flushed_offset, offset)
        if self._target >= 0:
            # The running job confirms its own end. Above the cut there may be other batches by
            # then, which it has not synced.
            self._target = min(self._target, offset)

    def job(
        self, end_offset: int, active: File, epochs: LeaderEpochCache, done: Callable[[BaseException | None], None]
    ) -> IoJob[None] | None:
        """Return a job that flushes up to `end_offset`; None: nothing to do, or a job is running.

        `done(error or None)` is called at the end of its `finish`. After StorageUnavailable all its
        work is due again.
        """
        if self._target >= 0 or (self.flushed_offset >= end_offset and not self.has_files):
            return None
        self._target = end_offset
        run, put_back = self._collect(active, epochs)

        def finish(_: None, error: BaseException | None) -> None:
            target, self._target = self._target, -1
            if error is None or isinstance(error, StorageUnavailable):  # else they never become durable
                self._names_in_flight = False
                self._in_flight = []
            if error is None:
                self.flushed_offset = max(self.flushed_offset, target)
            elif isinstance(error, StorageUnavailable):
                put_back()
            done(error)

        return IoJob(f"flush {self._folder}", run, finish, self._location)

    def run_now(self, end_offset: int, active: Segment, epochs: LeaderEpochCache) -> None:
        """Flush everything, the active segment's indexes too. Blocks. Raises: StorageFailed."""
        if self.flushed_offset < end_offset or self._files or self._names or epochs.changed:
            # The active segment's indexes too: after a clean stop no start rebuilds them.
            self.add(*active.files.all()[1:])
            run, put_back = self._collect(active.log, epochs)
            try:
                run()
            except StorageUnavailable:
                put_back()
                raise
            self.flushed_offset = end_offset

    def _collect(self, active: File, epochs: LeaderEpochCache) -> tuple[Callable[[], None], Callable[[], None]]:
        """Collect what is due. Return (do the work, make it all due again)."""
        storage, folder = self._storage, self._folder
        # All marks are taken off now, in the owner's thread, not when the job ends: what changes
        # while it runs in another thread belongs to the next job.
        due = self._in_flight = self._files
        names, parent = self._names, self._parent
        files, self._files = [*self._files, active], []
        folders = [folder] if names else []
        if parent:
            folders.append(parent_of(folder))
        self._names_in_flight |= self._names
        self._names = self._parent = False
        epochs_data = encode_epochs(epochs) if epochs.changed else None
        epochs.changed = False

        def run() -> None:
            # files that were deleted while the job waited need no flush
            for file in files:
                try:  # nearly each job does just this: `contextlib.suppress` would be three calls
                    file.sync()
                except FileNotFoundError:
                    continue
            if epochs_data is not None:
                with contextlib.suppress(FileNotFoundError):
                    storage.write_atomic(f"{folder}/{EPOCHS}", epochs_data)
            for name in folders:
                with contextlib.suppress(FileNotFoundError):
                    storage.sync_folder(name)

        def put_back() -> None:
            self._files = [*due, *self._files]
            self._names |= names
            self._parent |= parent
            epochs.changed |= epochs_data is not None

        return run, put_back
