"""The metadata store of an embedded cluster as each of its brokers reaches it, and the clock by
which their sessions expire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kqueue.base.clock import monotonic_ns
from kqueue.base.errors import StorageFailed
from kqueue.metadata.store import (
    Changes,
    ClusterStore,
    ControllerInfo,
    Session,
    SessionInfo,
    Snapshot,
    Term,
)

TICK_S = 0.02
TICK_MAX_MS = 100.0


class SessionClock:
    """Passes as the machine's does, but only while the brokers' thread runs, which calls `tick`
    every `TICK_S`. So no session expires because the whole process is busy or suspended.

    Thread: one ticks; any may read it.
    """

    def __init__(self) -> None:
        self._ticked_ms = self._ms = monotonic_ns() / 1e6

    def tick(self) -> None:
        """Count the time since the last tick."""
        now_ms = monotonic_ns() / 1e6
        self._ms += min(now_ms - self._ticked_ms, TICK_MAX_MS)
        self._ticked_ms = now_ms

    def skip(self, ms: float) -> None:
        """Advance it."""
        self._ms += ms

    def wall_ms(self) -> int:
        return int(self._ms)

    def monotonic_ms(self) -> float:
        return self._ms


class StoreAccess:
    """A `ClusterStore` that can be cut off; the store itself, its data and sessions stay.

    While it `is_cut`, every call raises StorageFailed, and watches are silent. `close` does
    nothing: the store belongs to the cluster.
    """

    def __init__(self, store: ClusterStore) -> None:
        self._store = store
        self._watches: set[Callable[[], None]] = set()
        self._is_cut = False

    @property
    def is_cut(self) -> bool:
        """Whether it is cut off."""
        return self._is_cut

    def cut(self) -> None:
        """Cut it off."""
        self._is_cut = True

    def heal(self) -> None:
        """End `cut`: watches learn that they may have missed something."""
        was_cut, self._is_cut = self._is_cut, False
        for notify in list(self._watches) if was_cut else ():
            notify()

    def reached(self) -> ClusterStore:
        """Return the store. Raises: StorageFailed: it is cut off."""
        if self._is_cut:
            raise StorageFailed("the metadata store can't be reached: Cluster.partition cut it off")
        return self._store

    def close(self) -> None:
        """The cluster closes the store."""

    def read(self, prefix: str) -> Snapshot:
        return self.reached().read(prefix)

    def commit(
        self,
        guards: Mapping[str, int | None],
        puts: Mapping[str, bytes],
        deletes: Iterable[str],
        *,
        by: Session | Term | None = None,
    ) -> Mapping[str, int]:
        given = by.given if isinstance(by, (_Session, _Term)) else by
        return self.reached().commit(guards, puts, deletes, by=given)

    def register(self, node_id: int, incarnation: str, timeout_ms: int) -> Session:
        return _Session(self, self.reached().register(node_id, incarnation, timeout_ms))

    def sessions(self) -> Mapping[int, SessionInfo]:
        return self.reached().sessions()

    def campaign(self, session: Session) -> Term | None:
        assert isinstance(session, _Session)
        term = self.reached().campaign(session.given)
        return None if term is None else _Term(self, term, session)

    def controller(self) -> ControllerInfo | None:
        return self.reached().controller()

    def changes(self, after: int) -> Changes:
        return self.reached().changes(after)

    def watch(self, notify: Callable[[], None]) -> Callable[[], None]:
        def changed() -> None:
            if not self._is_cut:
                notify()

        stop = self.reached().watch(changed)
        self._watches.add(notify)

        def stop_watch() -> None:
            self._watches.discard(notify)
            stop()

        return stop_watch


class _Session:
    """A session of the store, `given`, as a broker has it."""

    def __init__(self, access: StoreAccess, given: Session) -> None:
        self._access = access
        self.given = given

    @property
    def node_id(self) -> int:
        return self.given.node_id

    @property
    def incarnation(self) -> str:
        return self.given.incarnation

    @property
    def epoch(self) -> int:
        return self.given.epoch

    @property
    def timeout_ms(self) -> int:
        return self.given.timeout_ms

    @property
    def lost(self) -> bool:
        return self.given.lost

    def keep_alive(self) -> None:
        self._access.reached()
        self.given.keep_alive()

    def end(self) -> None:
        self._access.reached()
        self.given.end()


class _Term:
    """A term of the store, `given`, as a broker has it."""

    def __init__(self, access: StoreAccess, given: Term, session: Session) -> None:
        self._access = access
        self.given = given
        self.session = session

    @property
    def epoch(self) -> int:
        return self.given.epoch

    @property
    def lost(self) -> bool:
        return self.given.lost

    def resign(self) -> None:
        self._access.reached()
        self.given.resign()
