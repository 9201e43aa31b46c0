"""A cluster store during a contract check: calls are reported, the types of results checked."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kqueue.base.clock import monotonic_s
from kqueue.base.errors import Conflict, SessionLost
from kqueue.metadata.store import (
    Changes,
    ClusterStore,
    ControllerInfo,
    Entry,
    Session,
    SessionInfo,
    Snapshot,
    Term,
)
from kqueue.testing.contract_checks import ContractTrial, raises

Guards = Mapping[str, int | None]
Make = Callable[[str], ClusterStore]
LONG_TIMEOUT_MS = 600_000
WAIT_LIMIT_S = 20.0


class ClusterProbe:
    """One broker's store object."""

    def __init__(self, trial: ContractTrial[Make], folder: str) -> None:
        self.trial = trial
        self.store = trial.ask(f"opening a store in {folder}", lambda: trial.plugin(folder))

    def _ask(self, what: str, run: Callable[[], Any], kind: type) -> Any:
        answer = self.trial.ask(what, run)
        assert isinstance(answer, kind), f"{what} gave {answer!r:.200}, expected {kind.__name__}"
        return answer

    def register(self, node_id: int, incarnation: str, timeout_ms: int = LONG_TIMEOUT_MS) -> Session:
        """Begin a session, and check it."""
        what = f"register({node_id}, {incarnation!r}, {timeout_ms})"
        session: Session = self.trial.ask(what, lambda: self.store.register(node_id, incarnation, timeout_ms))
        given = (session.node_id, session.incarnation)
        assert given == (node_id, incarnation), f"{what} gave a session of {given}"
        _check_epoch(what, session.epoch)
        assert session.timeout_ms > 0, f"{what} gave the timeout {session.timeout_ms!r}, expected more than 0"
        assert session.lost is False, f"{what} gave a session whose lost is {session.lost!r}, expected False"
        return session

    def campaign(self, session: Session) -> Term | None:
        """Campaign, and check the term."""
        what = f"campaign(session of node {session.node_id})"
        term: Term | None = self.trial.ask(what, lambda: self.store.campaign(session))
        if term is not None:
            _check_epoch(what, term.epoch)
            assert term.session.epoch == session.epoch, f"{what} gave a term of another session: {term.session!r}"
            assert term.lost is False, f"{what} gave a term whose lost is {term.lost!r}, expected False"
        return term

    def elected(self, session: Session) -> Term:
        """Campaign, and expect to be elected."""
        term = self.campaign(session)
        assert term is not None, (
            f"campaign(session of node {session.node_id}) gave None though no live session had the term"
        )
        return term

    def commit(
        self,
        puts: Mapping[str, bytes],
        deletes: Iterable[str] = (),
        *,
        guards: Guards | None = None,
        by: Session | Term | None = None,
    ) -> Mapping[str, int]:
        """Commit, and return the versions."""
        what = f"commit(guards={guards or {}!r:.60}, puts of {len(puts)} keys, by={by!r:.60})"
        versions: Mapping[str, int] = self._ask(
            what, lambda: self.store.commit(guards or {}, puts, deletes, by=by), Mapping
        )
        return versions

    def refused(
        self, by: Session | Term, guards: Guards, puts: Mapping[str, bytes], deletes: Iterable[str] = ()
    ) -> None:
        """Check that a commit by a lost session or term raises SessionLost."""
        what = f"commit(guards={guards!r:.60}, puts={puts!r:.60}) by a lost session or term whose guards hold"
        self.trial.ask(what, lambda: raises(SessionLost, what, lambda: self.store.commit(guards, puts, deletes, by=by)))

    def conflicts(self, by: Session | Term | None, guards: Guards, puts: Mapping[str, bytes]) -> None:
        """Check that a commit whose guards do not hold raises Conflict."""
        what = f"commit(guards={guards!r:.60}, puts={puts!r:.60}) whose guards do not hold"
        self.trial.ask(what, lambda: raises(Conflict, what, lambda: self.store.commit(guards, puts, [], by=by)))

    def read(self, prefix: str = "/") -> Snapshot:
        """Return the entries with the prefix."""
        snapshot: Snapshot = self._ask(f"read({prefix!r})", lambda: self.store.read(prefix), Mapping)
        return snapshot

    def sessions(self) -> Mapping[int, SessionInfo]:
        """Return the live sessions."""
        listed: Mapping[int, SessionInfo] = self._ask("sessions()", self.store.sessions, Mapping)
        for node_id, info in listed.items():
            assert isinstance(info, SessionInfo), f"sessions() gave {info!r:.100} for {node_id}, expected a SessionInfo"
        return listed

    def controller(self) -> ControllerInfo | None:
        """Return who holds the term."""
        holder: ControllerInfo | None = self._ask("controller()", self.store.controller, ControllerInfo | None)  # type: ignore[arg-type]
        return holder

    def changes(self, after: int) -> Changes:
        """Return the changes, and check them."""
        what = f"changes({after})"
        answer: Changes = self._ask(what, lambda: self.store.changes(after), Changes)
        assert type(answer.version) is int, f"{what} gave the version {answer.version!r}, expected an int"
        for key, entry in answer.entries.items():
            assert entry is None or isinstance(entry, Entry), f"{what} gave {entry!r:.100} for {key}, expected an Entry"
            assert entry is not None or not answer.complete, f"{what} is complete, and gave None for {key}"
            assert entry is None or entry.version <= answer.version, (
                f"{what} gave {key} in version {entry and entry.version}, above its own {answer.version}"
            )
        return answer

    def close(self) -> None:
        """Close the store."""
        self.trial.ask("close()", self.store.close)


def _check_epoch(what: str, epoch: object) -> None:
    assert type(epoch) is int, f"{what} gave the epoch {epoch!r}, expected an int"
    assert epoch >= 1, f"{what} gave the epoch {epoch}, expected 1 or more"


class Cache:
    """A store as a broker knows it by its changes."""

    def __init__(self, probe: ClusterProbe) -> None:
        self.probe = probe
        self.version = 0
        self.entries: dict[str, Entry] = {}

    def refresh(self) -> Changes:
        """Apply what changed since the last time."""
        changes = self.probe.changes(self.version)
        assert changes.version >= self.version, f"changes({self.version}) gave version {changes.version}: it went back"
        if changes.complete:
            self.entries = {}
        for key, entry in changes.entries.items():
            if entry is None:
                self.entries.pop(key, None)
            else:
                self.entries[key] = entry
        self.version = changes.version
        return changes

    def check(self, when: str) -> Changes:
        """Refresh, and check that what is known is what the store has."""
        before = self.version
        changes = self.refresh()
        expected = dict(self.probe.read())
        wrong = sorted(key for key in {*expected, *self.entries} if self.entries.get(key) != expected.get(key))
        assert not wrong, (
            f"{when}: what changes({before}) makes of {wrong[0]} is {self.entries.get(wrong[0])!r:.100}, "
            f"but the store has {expected.get(wrong[0])!r:.100}"
        )
        return changes


class Wakeups:
    """Counts the calls of a watch."""

    def __init__(self, probe: ClusterProbe) -> None:
        self._condition = threading.Condition()
        self._count = 0
        self.stop: Callable[[], None] = probe.trial.ask("watch(notify)", lambda: probe.store.watch(self._notify))

    def _notify(self) -> None:
        with self._condition:
            self._count += 1
            self._condition.notify_all()

    def count(self) -> int:
        """Return how often `notify` was called."""
        with self._condition:
            return self._count

    def after(self, what: str, change: Callable[[], object]) -> None:
        """Make a change, and check that a call follows."""
        before = self.settled()
        change()
        with self._condition:
            woken = self._condition.wait_for(lambda: self._count > before, WAIT_LIMIT_S)
        assert woken, f"{what}: notify was not called within {WAIT_LIMIT_S:.0f} s"

    def settled(self) -> int:
        """Wait until no call came for a while; return their number."""
        deadline = monotonic_s() + WAIT_LIMIT_S
        with self._condition:
            while self._condition.wait(0.1):
                assert monotonic_s() < deadline, "notify is called again and again, though nothing changes"
            return self._count


@contextmanager
def opened(trial: ContractTrial[Make], count: int = 1) -> Iterator[list[ClusterProbe]]:
    """Open the store of the trial's folder `count` times, as as many brokers."""
    probes: list[ClusterProbe] = []
    try:
        probes.extend(ClusterProbe(trial, trial.folder) for _ in range(count))
        yield probes
    finally:
        for probe in probes:
            probe.close()


def until(what: str, holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = monotonic_s() + WAIT_LIMIT_S
    while not holds():
        assert monotonic_s() < deadline, f"{what}: not within {WAIT_LIMIT_S:.0f} s"
        time.sleep(0.01)


def let_pass(store: ClusterStore, session: Session) -> None:
    """Wait until the session's timeout has passed, as if its broker was paused."""
    time.sleep(session.timeout_ms / 1000 + 0.05)
