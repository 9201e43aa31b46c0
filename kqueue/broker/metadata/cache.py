"""The metadata cache: the metadata store in memory, changed by guarded commits.

A commit is guarded by the version of each key, so that of two writers the second one fails instead
of overwriting. Commits run in jobs; memory changes after the store, and observers hear of it. This
is the cache of a single broker, which alone changes its store; `ClusterMetadata` is that of a
member of a cluster. Crash: a commit is stored completely or not at all, and no client sees it
before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from kqueue.base import events
from kqueue.base.errors import DiskFull, KqueueError, StorageFailed
from kqueue.base.jobs import IoJob, Jobs
from kqueue.base.promise import Promise
from kqueue.broker.purgatory import Purgatory
from kqueue.metadata.store import MetadataStore, Session, Term

T = TypeVar("T")
logger = logging.getLogger("kqueue.broker")
Observer = Callable[[Mapping[str, bytes | None]], None]
Done = Callable[[KqueueError | None], None]


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
        self._observers: list[tuple[str, Observer]] = []

    def observe(self, prefix: str, observer: Observer) -> None:
        """Call `observer` with each change of keys that start with `prefix`, on the owner thread.

        It gets the changed values by key without the prefix; None: deleted. `get` returns them
        already, and of a commit's caller `done` comes after. A KqueueError of it is logged. Not
        called by `load` and `commit_now`. Observers are called in the order of their prefixes.
        """
        self._observers.append((prefix, observer))
        self._observers.sort(key=lambda row: row[0])

    def load(self) -> None:
        """Read all entries. Blocks; call it once, before serving. Raises StorageFailed."""
        snapshot = self._store.read("/")
        self._values = {key: entry.value for key, entry in snapshot.items()}
        self._versions = {key: entry.version for key, entry in snapshot.items()}
        self._last_version = max(self._versions.values(), default=0)

    def watch(self, wake: Callable[[Callable[[], None]], None]) -> None:
        """Follow the changes of others, from now on until `stop`; a single broker has none.

        Args: wake: calls the function that it gets on the owner thread; itself called from any.
        Raises: StorageFailed.
        """

    def stop(self) -> None:
        """End the watch."""

    def refresh(self) -> None:
        """Read what others changed in the store, in a job, and tell the observers."""

    def observe_refresh(self, call: Callable[[], None]) -> None:
        """Call after each refresh, also where no key changed: the watch wakes for sessions too."""

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

    def version(self, key: str) -> int | None:
        """Return the version of `key`; None: no such key."""
        return self._versions.get(key)

    def commit(
        self,
        what: str,
        puts: Mapping[str, bytes | None],
        done: Done,
        *,
        guarded: Collection[str] = (),
        by: Session | Term | None = None,
    ) -> None:
        """Store `puts` atomically in a job, then call the observers, and `done`, on the owner
        thread.

        Args:
            what: completes "could not ..." in the error.
            puts: value by key; None deletes.
            done: called with None, or with Conflict or StorageFailed if nothing changed.
            guarded: further keys that must not have changed either.
            by: a session or term that must be alive (rule 7), else `done` gets SessionLost; in a
                cluster only.
        """
        # As they are now, when the caller has decided, and not when the job runs.
        guards = {key: self._versions.get(key) for key in (*puts, *guarded)}
        values = {key: value for key, value in puts.items() if value is not None}
        deletes = [key for key, value in puts.items() if value is None]
        self._submit(what, guards, values, deletes, done, by)

    def _submit(
        self,
        what: str,
        guards: Mapping[str, int | None],
        values: Mapping[str, bytes],
        deletes: list[str],
        done: Done,
        by: Session | Term | None,
    ) -> None:
        def finish(versions: Mapping[str, int] | None, error: BaseException | None) -> None:
            if versions is None:
                assert error is not None
                done(failed_to(what, error))
                return
            # In memory, then observers, then `done`: who is answered finds the change everywhere in
            # this broker.
            self._apply(values, deletes, versions)
            self._tell({**values, **dict.fromkeys(deletes)})
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
        return self._with_room(lambda: self._store.commit(guards, values, deletes))

    def _with_room(self, commit: Callable[[], Mapping[str, int]]) -> Mapping[str, int]:
        try:
            return commit()
        except DiskFull:
            if not self._make_room():
                raise
            return commit()

    def _tell(self, changed: Mapping[str, bytes | None]) -> None:
        kinds: dict[str, dict[str, bytes | None]] = {}
        for key, value in changed.items():
            kinds.setdefault(_kind(key), {})[key] = value
        for prefix, observer in tuple(self._observers):  # an observer may add another one
            kind = kinds.get(_kind(prefix), {})
            part = {key.removeprefix(prefix): value for key, value in kind.items() if key.startswith(prefix)}
            if part:
                try:
                    observer(part)
                # The store has the change. One observer that can't apply it must not keep it from
                # the others.
                except KqueueError as error:
                    events.METADATA_CHANGE_IGNORED.log(
                        logger, "a change of the metadata of %s... can't be applied: %s", prefix=prefix, error=error
                    )

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


def _kind(key: str) -> str:
    """Return the first part of a key, ``/acls/`` of ``/acls/x``; all of it, if it has one part."""
    return key[: key.find("/", 1) + 1] or key


def failed_to(what: str, error: BaseException) -> KqueueError:
    """Return the error of a commit that could not `what`."""
    return error if isinstance(error, KqueueError) else StorageFailed(f"could not {what}: {error}")
