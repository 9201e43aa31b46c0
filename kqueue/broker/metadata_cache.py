"""The metadata cache: the metadata store in memory, changed by guarded commits.

A commit is guarded by the version of each key, so that of two writers the second one fails instead
of overwriting. Commits run in jobs; memory changes after the store. Crash: a commit is stored
completely or not at all, and no client sees it before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from kqueue.base.errors import DiskFull, KqueueError, StorageFailed
from kqueue.base.jobs import IoJob, Jobs
from kqueue.base.promise import Promise
from kqueue.broker.purgatory import Purgatory
from kqueue.metadata.store import MetadataStore

T = TypeVar("T")


class MetadataCache:
    """Keys and values of one store as of the last load or commit."""

    def __init__(
        self, store: MetadataStore, jobs: Jobs, purgatory: Purgatory, make_room: Callable[[], bool] = lambda: False
    ) -> None:
        """Take the store; `load` reads it.

        Args:
            make_room: called in the job if the disk is full; True: space was freed, commit again.
        """
        self._store = store
        self._make_room = make_room
        self._jobs = jobs
        self._purgatory = purgatory
        self._values: dict[str, bytes] = {}
        self._versions: dict[str, int] = {}
        self._last_version = 0

    def load(self) -> None:
        """Read all entries. Blocks; call it once, before serving. Raises StorageFailed."""
        snapshot = self._store.read("/")
        self._values = {key: entry.value for key, entry in snapshot.items()}
        self._versions = {key: entry.version for key, entry in snapshot.items()}
        self._last_version = max(self._versions.values(), default=0)

    @property
    def end_offset(self) -> int:
        """One more than the highest version of a key: grows with each change that puts one.

        After a restart it is lower if the last keys that were put are deleted.
        """
        return self._last_version + 1

    def get(self, key: str) -> bytes | None:
        """Return the value of `key`; None: no such key."""
        return self._values.get(key)

    def with_prefix(self, prefix: str) -> dict[str, bytes]:
        """Return the values whose key starts with `prefix`, by the key without it."""
        return {key.removeprefix(prefix): value for key, value in self._values.items() if key.startswith(prefix)}

    def commit(self, what: str, puts: Mapping[str, bytes | None], done: Callable[[KqueueError | None], None]) -> None:
        """Store `puts` atomically in a job, then call `done` on the owner thread.

        Args:
            what: completes "could not ..." in the error.
            puts: value by key; None deletes.
            done: called with None, or with Conflict or StorageFailed if nothing changed.
        """
        guards = {key: self._versions.get(key) for key in puts}
        values = {key: value for key, value in puts.items() if value is not None}
        deletes = [key for key, value in puts.items() if value is None]

        def finish(versions: Mapping[str, int] | None, error: BaseException | None) -> None:
            if versions is None:
                assert error is not None
                done(error if isinstance(error, KqueueError) else StorageFailed(f"could not {what}: {error}"))
                return
            self._apply(values, deletes, versions)
            done(None)

        self._jobs.submit(IoJob(what, lambda: self._commit(guards, values, deletes), finish, "metadata"))

    def commit_now(self, puts: Mapping[str, bytes | None]) -> None:
        """Store `puts` now, during the start. Blocks. Raises Conflict, StorageFailed."""
        values = {key: value for key, value in puts.items() if value is not None}
        deletes = [key for key, value in puts.items() if value is None]
        versions = self._commit({key: self._versions.get(key) for key in puts}, values, deletes)
        self._apply(values, deletes, versions)

    def _commit(
        self, guards: Mapping[str, int | None], values: Mapping[str, bytes], deletes: list[str]
    ) -> Mapping[str, int]:
        try:
            return self._store.commit(guards, values, deletes)
        except DiskFull:
            if not self._make_room():
                raise
            return self._store.commit(guards, values, deletes)

    def resolve(self, promise: Promise[T], value: T) -> None:
        """Resolve `promise` and wake its delayed operations."""
        promise.resolve(value)
        self._purgatory.wake(promise)

    def fail(self, promise: Promise[T], error: KqueueError) -> None:
        """Fail `promise` and wake its delayed operations."""
        promise.fail(error)
        self._purgatory.wake(promise)

    def _apply(self, values: Mapping[str, bytes], deletes: list[str], versions: Mapping[str, int]) -> None:
        self._values.update(values)
        self._versions.update(versions)
        self._last_version = max((self._last_version, *versions.values()))
        for key in deletes:
            self._values.pop(key, None)
            self._versions.pop(key, None)
