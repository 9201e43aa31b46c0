"""The metadata cache of a member of a cluster, whose store others change too.

`refresh` reads what any broker has committed since, and tells the observers. The store's watch
starts one, and so does each own commit: its `done` comes after the refresh that shows it, so that a
client that was answered finds its change. Changes are taken over in order of commits (rule 8).
Crash: as `metadata_cache`; what is here only is read again at the start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.errors import KqueueError, StorageFailed
from kqueue.base.jobs import IoJob, Jobs
from kqueue.base.timers import Timers
from kqueue.broker.metadata.cache import Done, MetadataCache, failed_to
from kqueue.broker.purgatory import Purgatory
from kqueue.metadata.store import Changes, ClusterStore, Session, Term

logger = logging.getLogger("kqueue.broker")
RETRY_MS = 500
"""Pause after which a failed refresh is repeated."""


class ClusterMetadata(MetadataCache):
    """Keys and values of a store that several brokers share, as of the last refresh."""

    def __init__(
        self,
        store: ClusterStore,
        jobs: Jobs,
        purgatory: Purgatory,
        timers: Timers,
        clock: Clock,
        make_room: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(store, jobs, purgatory, make_room)
        self._shared = store
        self._timers = timers
        self._clock = clock
        self._refreshing = self._refresh_again = self._is_stopped = False
        self._away: type | None = None  # the kind of error that was reported last; None: it can be read
        self._unshown: list[Done] = []  # of own commits that the next refresh shows
        self._on_refreshed: list[Callable[[], None]] = []
        self._stop_watch: Callable[[], None] | None = None

    def load(self) -> None:
        self._take(self._shared.changes(0))

    def commit_now(self, puts: Mapping[str, bytes | None]) -> None:
        super().commit_now(puts)
        self._take(self._shared.changes(self._last_version))

    def watch(self, wake: Callable[[Callable[[], None]], None]) -> None:
        self._stop_watch = self._shared.watch(lambda: wake(self.refresh))
        self.refresh()

    def stop(self) -> None:
        self._is_stopped = True
        if self._stop_watch is not None:
            self._stop_watch()
            self._stop_watch = None

    def observe_refresh(self, call: Callable[[], None]) -> None:
        self._on_refreshed.append(call)

    def refresh(self) -> None:
        # calls during a refresh start one more after it; while the store is away it is repeated
        if self._is_stopped:
            return
        if self._refreshing:
            self._refresh_again = True
            return
        self._refreshing = True
        after, unshown, self._unshown = self._last_version, self._unshown, []

        def finish(changes: Changes | None, error: BaseException | None) -> None:
            self._refreshed(unshown, changes, error)

        self._jobs.submit(IoJob("refresh metadata", lambda: self._shared.changes(after), finish, "metadata"))

    def _refreshed(self, unshown: list[Done], changes: Changes | None, error: BaseException | None) -> None:
        self._refreshing = False
        if changes is None:
            # Commits that are not shown yet wait for the next read: their callers must find their
            # own change.
            self._unshown = unshown + self._unshown
            if type(error) is not self._away:
                self._away = type(error)
                events.METADATA_STORE_UNREADABLE.log(
                    logger, "the metadata store can't be read, serving on with what is known: %s", error=error
                )
            self._timers.at(self._clock.monotonic_ms() + RETRY_MS, self.refresh)
            return
        self._show(changes)
        # After the values are taken over: who committed reads what it wrote.
        for done in unshown:
            done(None)
        for call in self._on_refreshed:
            call()
        if self._refresh_again:
            self._refresh_again = False
            self.refresh()

    def _show(self, changes: Changes) -> None:
        """Take over changes, and tell the observers."""
        if self._away is not None:
            self._away = None
            events.METADATA_STORE_READABLE.log(logger, "the metadata store can be read again")
        self._tell(self._take(changes))

    def _take(self, changes: Changes) -> Mapping[str, bytes | None]:
        """Take over changes, unless later ones were, and return the values that differ."""
        # Two jobs read at once, and the later read may end first.
        if changes.version < self._last_version:
            return {}
        self._last_version = changes.version
        entries, version_of = changes.entries, self._versions.get
        gone = [key for key, entry in entries.items() if entry is None and key in self._versions]
        if changes.complete:
            gone.extend(self._versions.keys() - entries.keys())
        # comprehensions: a refresh may have 100,000 entries, and this is one turn
        put = {key: entry for key, entry in entries.items() if entry is not None and version_of(key) != entry.version}
        values = {key: entry.value for key, entry in put.items()}
        self._values.update(values)
        self._versions.update({key: entry.version for key, entry in put.items()})
        for key in gone:
            del self._versions[key], self._values[key]
        return {**values, **dict.fromkeys(gone)}

    def _submit(
        self,
        what: str,
        guards: Mapping[str, int | None],
        values: Mapping[str, bytes],
        deletes: list[str],
        done: Done,
        by: Session | Term | None,
    ) -> None:
        after = self._last_version
        known = {key: self._values.get(key) for key in (*values, *deletes)}

        def run() -> tuple[KqueueError | None, Changes | None]:
            failure = None
            try:
                self._commit_by(guards, values, deletes, by)
            except KqueueError as error:
                failure = error
            # Read in the same job, so that the caller of a commit goes on with metadata that
            # contain it, or that say why it was refused.
            try:
                changes = self._shared.changes(after)
            except StorageFailed:
                return failure, None
            if isinstance(failure, StorageFailed) and _holds(values, deletes, known, changes):
                failure = None  # the outcome was unknown, and is what was asked for
            return failure, changes

        def finish(result: tuple[KqueueError | None, Changes | None] | None, error: BaseException | None) -> None:
            if result is None:
                assert error is not None
                done(failed_to(what, error))
                return
            failure, changes = result
            if changes is not None:
                self._show(changes)
            # Committed, but not readable just now: the caller waits until the cache has it.
            elif failure is None:
                self._unshown.append(done)
                self.refresh()
                return
            done(failure)

        self._jobs.submit(IoJob(what, run, finish, "metadata"))

    def _commit_by(
        self,
        guards: Mapping[str, int | None],
        values: Mapping[str, bytes],
        deletes: list[str],
        by: Session | Term | None,
    ) -> Mapping[str, int]:
        return self._with_room(lambda: self._shared.commit(guards, values, deletes, by=by))


def _holds(
    values: Mapping[str, bytes], deletes: list[str], known: Mapping[str, bytes | None], changes: Changes
) -> bool:
    """Whether the store has the values of a commit."""
    wanted = {**values, **dict.fromkeys(deletes)}
    if not changes.complete:
        known = {key: value for key, value in known.items() if key not in changes.entries}
    else:
        known = dict.fromkeys(wanted)
    changed = {
        key: entry.value if entry is not None else None for key, entry in changes.entries.items() if key in wanted
    }
    return {**known, **changed} == wanted
