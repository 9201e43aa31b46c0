"""The metadata store of a simulated cluster, and the faulty way of each broker to it."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from kqueue.base.errors import Conflict, SessionLost, StorageFailed
from kqueue.metadata.memory import MemorySession, MemoryStore, MemoryTerm
from kqueue.metadata.store import (
    Changes,
    ControllerInfo,
    Session,
    SessionInfo,
    Snapshot,
    Term,
)
from kqueue.tests.simulation.event_queue import DriftingClock, EventQueue

T = TypeVar("T")
Committed = Callable[[Mapping[str, bytes], Mapping[str, bytes | None]], None]


class SharedStore(MemoryStore):
    """The store that all brokers share.

    Args: committed: called with the values of the changed keys before and after each commit.
    """

    def __init__(self, clock: DriftingClock, committed: Committed) -> None:
        super().__init__(clock)
        self._committed = committed

    def commit(
        self,
        guards: Mapping[str, int | None],
        puts: Mapping[str, bytes],
        deletes: Iterable[str],
        *,
        by: Session | Term | None = None,
    ) -> Mapping[str, int]:
        deletes = list(deletes)
        before = {key: self._entries[key].value for key in (*puts, *deletes) if key in self._entries}
        versions = super().commit(guards, puts, deletes, by=by)
        self._committed(before, {**puts, **dict.fromkeys(deletes)})
        return versions


class LinkedSession:
    """A session, as its broker reaches it. Implements `Session`."""

    def __init__(self, link: StoreLink, inner: MemorySession) -> None:
        self.inner = inner
        self.node_id = inner.node_id
        self.incarnation = inner.incarnation
        self.epoch = inner.epoch
        self.timeout_ms = inner.timeout_ms
        self._link = link

    @property
    def lost(self) -> bool:
        return not self._link.is_away and self.inner.lost

    def keep_alive(self) -> None:
        self._link.call(self.inner.keep_alive)

    def end(self) -> None:
        self._link.call(self.inner.end)


class LinkedTerm:
    """A term, as its broker reaches it. Implements `Term`."""

    def __init__(self, link: StoreLink, inner: MemoryTerm, session: Session) -> None:
        self.inner = inner
        self.session = session
        self.epoch = inner.epoch
        self._link = link

    @property
    def lost(self) -> bool:
        return not self._link.is_away and self.inner.lost

    def resign(self) -> None:
        self._link.call(self.inner.resign)


LATE_MS = 300.0
"""A commit that got no answer is executed within this time."""


class StoreLink:
    """One broker's way to the store. Implements `ClusterStore`.

    Attributes:
        is_away: the store can't be reached.
        failures: how often, from 0 to 1, a call fails though the store is there. Half of these
            calls have been executed, and of the other commits half will be: their outcome is
            unknown.
    """

    def __init__(self, store: SharedStore, rng: random.Random, queue: EventQueue) -> None:
        self._store = store
        self._rng = rng
        self._queue = queue
        self.is_away = False
        self.failures = 0.0

    def call(self, run: Callable[[], T], *, may_be_late: bool = False) -> T:
        """Return what `run` returns. Raises: StorageFailed."""
        if self.is_away:
            raise StorageFailed("the metadata store can't be reached")
        if self.failures and self._rng.random() < self.failures:
            if self._rng.random() < 0.5:
                run()
            elif may_be_late and self._rng.random() < 0.5:
                self._queue.after(self._rng.random() * LATE_MS, lambda: _run_late(run))
            raise StorageFailed("the connection to the metadata store broke: it is unknown whether it did what it was")
        return run()

    def read(self, prefix: str) -> Snapshot:
        return self.call(lambda: self._store.read(prefix))

    def commit(
        self,
        guards: Mapping[str, int | None],
        puts: Mapping[str, bytes],
        deletes: Iterable[str],
        *,
        by: Session | Term | None = None,
    ) -> Mapping[str, int]:
        inner = by.inner if isinstance(by, (LinkedSession, LinkedTerm)) else by
        deletes = list(deletes)
        return self.call(lambda: self._store.commit(guards, puts, deletes, by=inner), may_be_late=True)

    def close(self) -> None:
        """The store stays open for the other brokers."""

    def register(self, node_id: int, incarnation: str, timeout_ms: int) -> LinkedSession:
        return LinkedSession(self, self.call(lambda: self._store.register(node_id, incarnation, timeout_ms)))

    def sessions(self) -> Mapping[int, SessionInfo]:
        return self.call(self._store.sessions)

    def campaign(self, session: Session) -> LinkedTerm | None:
        assert isinstance(session, LinkedSession)
        term = self.call(lambda: self._store.campaign(session.inner))
        return None if term is None else LinkedTerm(self, term, session)

    def controller(self) -> ControllerInfo | None:
        return self.call(self._store.controller)

    def changes(self, after: int) -> Changes:
        return self.call(lambda: self._store.changes(after))

    def watch(self, notify: Callable[[], None]) -> Callable[[], None]:
        return self._store.watch(notify)


def _run_late(run: Callable[[], object]) -> None:
    with contextlib.suppress(Conflict, SessionLost):  # nobody hears of it
        run()
