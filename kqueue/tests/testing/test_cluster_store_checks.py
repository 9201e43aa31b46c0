"""`check_cluster_store` reports each violation of the contract of clusters."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kqueue.metadata.memory import MemorySession, MemoryStore, MemoryTerm
from kqueue.metadata.sqlite import SqliteStore
from kqueue.metadata.store import Changes, Session, SessionInfo, Term
from kqueue.testing import check_cluster_store


class SameEpoch(MemoryStore):
    def register(self, node_id: int, incarnation: str, timeout_ms: int) -> MemorySession:
        self._broker_epoch = 0
        return super().register(node_id, incarnation, timeout_ms)


class Replacing(MemoryStore):
    """Gives a node id to whoever asks last."""

    def register(self, node_id: int, incarnation: str, timeout_ms: int) -> MemorySession:
        self._sessions.pop(node_id, None)
        return super().register(node_id, incarnation, timeout_ms)


class Anonymous(MemoryStore):
    def commit(self, guards: Any, puts: Any, deletes: Any, *, by: Session | Term | None = None) -> Mapping[str, int]:
        return super().commit(guards, puts, deletes)


class Reviving(MemoryStore):
    """Lets a call of a lost session begin it again."""

    def _check_alive(self, holder: Session | Term) -> None:
        session = holder.session if isinstance(holder, MemoryTerm) else holder
        assert isinstance(session, MemorySession)
        if session.deadline_ms <= self._clock.monotonic_ms() and session.node_id not in self._sessions:
            session.deadline_ms = self._clock.monotonic_ms() + session.timeout_ms
            self._sessions[session.node_id] = session
        super()._check_alive(holder)


class Unnoticed(MemoryStore):
    """Ends sessions only when somebody lists them."""

    def _expire(self) -> float | None:
        return None

    def _is_alive(self, holder: Session | Term) -> bool:
        session = holder.session if isinstance(holder, MemoryTerm) else holder
        return self._sessions.get(session.node_id) is session and (holder is session or holder is self._term)  # type: ignore[comparison-overlap]

    def sessions(self) -> Mapping[int, SessionInfo]:
        with self._lock:
            super()._expire()
        return super().sessions()


class ByNodeId(MemoryStore):
    """Takes any session of the node, as a check of a node that was created again does."""

    def _is_alive(self, holder: Session | Term) -> bool:
        session = holder.session if isinstance(holder, MemoryTerm) else holder
        return session.node_id in self._sessions if holder is session else super()._is_alive(holder)


class ByNodeIdAndProcess(MemoryStore):
    def _is_alive(self, holder: Session | Term) -> bool:
        session = holder.session if isinstance(holder, MemoryTerm) else holder
        session_row = self._sessions.get(session.node_id)
        return session_row is not None and session_row.incarnation == session.incarnation and holder is session


class Electing(MemoryStore):
    def campaign(self, session: Session) -> MemoryTerm | None:
        self._term = None
        return super().campaign(session)


class OldTerms(MemoryStore):
    """Takes every term of the session that holds the newest one."""

    def _is_alive(self, holder: Session | Term) -> bool:
        if isinstance(holder, MemoryTerm) and self._term is not None:
            return holder.session is self._term.session
        return super()._is_alive(holder)


class SameTermEpoch(MemoryStore):
    def campaign(self, session: Session) -> MemoryTerm | None:
        self._term_epoch = 0
        return super().campaign(session)


class Privileged(MemoryStore):
    """A session's commit needs no guards."""

    def commit(
        self, guards: Any, puts: Any, deletes: Iterable[str], *, by: Session | Term | None = None
    ) -> Mapping[str, int]:
        return super().commit({} if by is not None else guards, puts, deletes, by=by)


class Undeleted(MemoryStore):
    def changes(self, after: int) -> Changes:
        version, entries, complete = super().changes(after)
        return Changes(version, {key: entry for key, entry in entries.items() if entry is not None}, complete)


class Behind(MemoryStore):
    """Gives the version that it was asked with."""

    def changes(self, after: int) -> Changes:
        return super().changes(after)._replace(version=after)


class Forgetful(MemoryStore):
    """Trims the history, but not where it starts."""

    def changes(self, after: int) -> Changes:
        self._history_start = 0
        return super().changes(after)


class Dozing(MemoryStore):
    """Watches keys only."""

    def register(self, node_id: int, incarnation: str, timeout_ms: int) -> MemorySession:
        watchers, self._watchers = self._watchers, type(self._watchers)()
        try:
            return super().register(node_id, incarnation, timeout_ms)
        finally:
            self._watchers = watchers


class Unstoppable(MemoryStore):
    def watch(self, notify: Callable[[], None]) -> Callable[[], None]:
        super().watch(notify)
        return lambda: None


class Small(MemoryStore):
    def commit(self, guards: Any, puts: Any, deletes: Any, *, by: Session | Term | None = None) -> Mapping[str, int]:
        if sum(map(len, puts.values())) > 2_000_000:
            raise ValueError("too large")
        return super().commit(guards, puts, deletes, by=by)


class Restarting(SqliteStore):
    """Counts broker epochs from 1 again in each process."""

    def __init__(self, folder: str) -> None:
        super().__init__(Path(folder, "kqueue.db"))
        self._db.execute("UPDATE counter SET broker_epoch = 0")


class Lingering(SqliteStore):
    """Leaves its sessions alive when it is closed."""

    descriptors: ClassVar[list[int]] = []

    def __init__(self, folder: str) -> None:
        super().__init__(Path(folder, "kqueue.db"))

    def close(self) -> None:
        if self._locks._fd is not None:
            self.descriptors.append(os.dup(self._locks._fd))  # holds the locks on
        self._sessions.clear()
        super().close()


BROKEN: list[tuple[type[MemoryStore], str, str]] = [
    (SameEpoch, "sessions have rising epochs", "a later session got epoch 1, the one before 1"),
    (Replacing, "one live incarnation", "gave a session, expected NodeIdInUse"),
    (Anonymous, "sessions have rising epochs", "lost session or term .* gave .*, expected SessionLost"),
    (Reviving, "outlived its timeout", "expected SessionLost"),
    (Unnoticed, "though nobody noticed the loss", "expected SessionLost"),
    (ByNodeId, "replaced by a newer one|one live incarnation", "expected SessionLost"),
    (ByNodeIdAndProcess, "one live incarnation", "a term whose lost is True|expected SessionLost"),
    (Electing, "of campaigning brokers one gets the term", "gave 3 terms, expected one"),
    (OldTerms, "of campaigning brokers|a term ends", "expected SessionLost"),
    (SameTermEpoch, "replaced by a newer one|of campaigning", "term got|expected them to rise"),
    (Privileged, "has guards too", "expected Conflict"),
    (
        Undeleted,
        "changes are what other brokers changed",
        r"what changes\(.*\) makes of /b is Entry.*the store has None",
    ),
    (Behind, "values of 1 MiB", "above its own"),
    (Forgetful, "more deletions than a store remembers", r"makes of /goes is Entry.* but the store has None"),
    (Dozing, "a watch is called", "registration: notify was not called within"),
    (Unstoppable, "a watch is called", "after its watch was stopped gave"),
    (Small, "values of 1 MiB", "raised ValueError: too large"),
]


@pytest.mark.parametrize(("kind", "sentence", "words"), BROKEN, ids=[kind.__name__ for kind, _, _ in BROKEN])
def test_violations_are_reported(
    kind: type[MemoryStore], sentence: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kqueue.testing.cluster_store_probe.WAIT_LIMIT_S", 1)
    stores: dict[str, MemoryStore] = {}
    with pytest.raises(AssertionError, match=f'(?s)^cluster store .* fails the check ".*({sentence}).*": .*({words})'):
        check_cluster_store(
            lambda folder: stores.setdefault(folder, kind()), durable=False, session_timeout_ms=50, isolated=False
        )


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "sentence", "words"),
    [
        (Restarting, "epochs and versions of a reopened store go on", "expected each of them to rise"),
        (Lingering, "close ends the sessions of one broker", "close\\(\\) of a broker's store: notify was not called"),
    ],
)
def test_violations_of_a_store_with_a_file_are_reported(
    kind: Callable[[str], SqliteStore], sentence: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kqueue.testing.cluster_store_probe.WAIT_LIMIT_S", 1)
    try:
        with pytest.raises(AssertionError, match=f'(?s)^cluster store .* fails the check ".*{sentence}.*": .*{words}'):
            check_cluster_store(kind, session_timeout_ms=50, isolated=False)
    finally:
        while Lingering.descriptors:
            os.close(Lingering.descriptors.pop())
