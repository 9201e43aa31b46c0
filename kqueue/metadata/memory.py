"""A metadata store in memory, for tests and for brokers whose logs are in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from kqueue.base.clock import Clock, SystemClock
from kqueue.base.errors import Conflict, StorageFailed
from kqueue.metadata.store import (
    Changes,
    ControllerInfo,
    Entry,
    Session,
    SessionInfo,
    Snapshot,
    Term,
    check_commit,
    check_guards,
    check_registration,
    node_id_in_use,
    session_lost,
)
from kqueue.metadata.watchers import Watchers

DELETIONS_MAX = 10_000
"""The number of deleted keys that are remembered for `changes`."""


class MemoryStore:
    """Implements `ClusterStore`; the brokers of a cluster in one process share one object.

    Args:
        clock: what sessions expire by. With the default, the machine's, a thread notifies watchers
            of a session that expires. With another one the next call of any broker does, a
            `keep_alive` at the latest: no thread then moves on its own.
        deletions_max: how many deleted keys `changes` remembers; older ones make it complete.
    """

    def __init__(self, clock: Clock | None = None, *, deletions_max: int = DELETIONS_MAX) -> None:
        self._clock = clock or SystemClock()
        self._has_timer = clock is None
        self._deletions_max = deletions_max
        # Both in order of versions.
        self._entries: dict[str, Entry] = {}
        self._deletions: dict[str, int] = {}
        self._history_start = 0
        """All deletions after this version are in `_deletions`."""
        self._last_version = 0
        self._broker_epoch = 0
        self._term_epoch = 0
        self._sessions: dict[int, MemorySession] = {}
        self._term: MemoryTerm | None = None
        self._watchers = Watchers()
        self._timer: threading.Thread | None = None
        self._closed = False
        self._changed = False
        self._lock = threading.Condition(threading.RLock())

    # --- MetadataStore

    def read(self, prefix: str) -> Snapshot:
        with self._lock:
            self._check_open()
            return {key: self._entries[key] for key in sorted(self._entries) if key.startswith(prefix)}

    def commit(
        self,
        guards: Mapping[str, int | None],
        puts: Mapping[str, bytes],
        deletes: Iterable[str],
        *,
        by: Session | Term | None = None,
    ) -> Mapping[str, int]:
        deletes = list(deletes)
        check_commit(guards, puts, deletes)
        with self._calling():
            if by is not None:
                self._check_alive(by)
            versions = {key: self._entries[key].version for key in guards if key in self._entries}
            violation = check_guards(guards, versions)
            if violation is not None:
                raise Conflict(violation)
            # One counter for all keys: a key that is deleted and created again never repeats a
            # version.
            self._last_version += 1
            for key, value in puts.items():
                self._entries.pop(key, None)
                self._deletions.pop(key, None)
                self._entries[key] = Entry(bytes(value), self._last_version)
            for key in deletes:
                if self._entries.pop(key, None) is not None:
                    self._deletions[key] = self._last_version
            while len(self._deletions) > self._deletions_max:
                self._history_start = self._deletions.pop(next(iter(self._deletions)))
            self._changed = True
            return dict.fromkeys(puts, self._last_version)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._sessions.clear()
            self._term = None
            self._watchers.clear()
            self._lock.notify_all()

    # --- ClusterStore

    def register(self, node_id: int, incarnation: str, timeout_ms: int) -> MemorySession:
        check_registration(node_id, incarnation, timeout_ms)
        with self._calling():
            holder = self._sessions.get(node_id)
            if holder is not None:
                if holder.incarnation != incarnation:
                    raise node_id_in_use(node_id, SessionInfo(holder.epoch, holder.incarnation))
                self._end(holder)
            self._broker_epoch += 1
            session = MemorySession(self, node_id, incarnation, self._broker_epoch, timeout_ms)
            session.deadline_ms = self._clock.monotonic_ms() + timeout_ms
            self._sessions[node_id] = session
            self._changed = True
            return session

    def sessions(self) -> Mapping[int, SessionInfo]:
        with self._calling():
            return {
                node_id: SessionInfo(session.epoch, session.incarnation)
                for node_id, session in sorted(self._sessions.items())
            }

    def campaign(self, session: Session) -> MemoryTerm | None:
        with self._calling():
            self._check_alive(session)
            if self._term is not None and self._term.session is not session:
                return None
            self._term_epoch += 1
            self._term = MemoryTerm(self, self._sessions[session.node_id], self._term_epoch)
            self._changed = True
            return self._term

    def controller(self) -> ControllerInfo | None:
        with self._calling():
            return None if self._term is None else ControllerInfo(self._term.session.node_id, self._term.epoch)

    def changes(self, after: int) -> Changes:
        with self._lock:
            self._check_open()
            if not max(self._history_start, 1) <= after <= self._last_version:
                return Changes(self._last_version, dict(self._entries), True)
            entries: dict[str, Entry | None] = {}
            for key, entry in reversed(self._entries.items()):
                if entry.version <= after:
                    break
                entries[key] = entry
            for key, version in reversed(self._deletions.items()):
                if version <= after:
                    break
                entries[key] = None
            return Changes(self._last_version, entries, False)

    def watch(self, notify: Callable[[], None]) -> Callable[[], None]:
        with self._lock:
            self._check_open()
            stop = self._watchers.add(notify)
            if self._has_timer and self._timer is None:
                self._timer = threading.Thread(target=self._watch_deadlines, name="metadata-expiry", daemon=True)
                self._timer.start()

        def stop_watch() -> None:
            stop()
            with self._lock:
                self._lock.notify_all()  # the last one ends the thread

        return stop_watch

    # --- sessions; all under the lock

    def _is_alive(self, holder: Session | Term) -> bool:
        session = holder.session if isinstance(holder, MemoryTerm) else holder
        if not isinstance(session, MemorySession) or self._sessions.get(session.node_id) is not session:
            return False
        if session.deadline_ms <= self._clock.monotonic_ms():
            return False
        return holder is session or holder is self._term

    def _check_alive(self, holder: Session | Term) -> None:
        if not self._is_alive(holder):
            if isinstance(holder, MemoryTerm) and self._is_alive(holder.session):
                raise session_lost(holder.session.node_id, holder.session.epoch, holder.epoch)
            session = holder.session if isinstance(holder, MemoryTerm) else holder
            assert isinstance(session, MemorySession), f"{holder!r}: a session of another store"
            raise session_lost(session.node_id, session.epoch)

    def _end(self, holder: Session | Term) -> None:
        """End a session with its term, or a term; a lost one stays as it is."""
        if self._term is holder or (self._term is not None and self._term.session is holder):
            self._term = None
            self._changed = True
        if isinstance(holder, MemorySession) and self._sessions.get(holder.node_id) is holder:
            del self._sessions[holder.node_id]
            self._changed = True

    def _expire(self) -> float | None:
        """End the sessions whose timeout has passed; return the next deadline, None: no session."""
        now_ms = self._clock.monotonic_ms()
        for session in [session for session in self._sessions.values() if session.deadline_ms <= now_ms]:
            self._end(session)
            self._lock.notify_all()
        return min((session.deadline_ms for session in self._sessions.values()), default=None)

    @contextmanager
    def _calling(self) -> Iterator[None]:
        """Run a call under the lock, with expired sessions ended; then notify watchers."""
        try:
            with self._lock:
                self._check_open()
                self._expire()
                yield
                if self._changed:
                    self._lock.notify_all()  # the thread waits for another deadline
        finally:
            self._notify()

    def _notify(self) -> None:
        with self._lock:
            changed, self._changed = self._changed, False
        if changed:
            self._watchers.notify()

    def _watch_deadlines(self) -> None:
        while True:
            with self._lock:
                deadline_ms = self._expire()
                if self._closed or not len(self._watchers):
                    self._timer = None
                    return
                if not self._changed:
                    wait_ms = None if deadline_ms is None else deadline_ms - self._clock.monotonic_ms()
                    self._lock.wait(None if wait_ms is None else max(wait_ms, 0) / 1000)
            self._notify()

    def _check_open(self) -> None:
        if self._closed:
            raise StorageFailed("the metadata store is closed")


class MemorySession:
    """Implements `Session`."""

    def __init__(self, store: MemoryStore, node_id: int, incarnation: str, epoch: int, timeout_ms: int) -> None:
        self.node_id = node_id
        self.incarnation = incarnation
        self.epoch = epoch
        self.timeout_ms = timeout_ms
        self.deadline_ms = 0.0
        """By the store's clock; the store sets it."""
        self._store = store

    @property
    def lost(self) -> bool:
        with self._store._lock:
            return not self._store._is_alive(self)

    def keep_alive(self) -> None:
        with self._store._calling():
            self._store._check_alive(self)
            self.deadline_ms = self._store._clock.monotonic_ms() + self.timeout_ms

    def end(self) -> None:
        with self._store._calling():
            self._store._end(self)


class MemoryTerm:
    """Implements `Term`."""

    def __init__(self, store: MemoryStore, session: MemorySession, epoch: int) -> None:
        self.session = session
        self.epoch = epoch
        self._store = store

    @property
    def lost(self) -> bool:
        with self._store._lock:
            return not self._store._is_alive(self)

    def resign(self) -> None:
        with self._store._calling():
            self._store._end(self)
