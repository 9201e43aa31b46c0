"""Cluster stores against a model: equal calls on memory and on two objects of one SQLite file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kqueue.base.errors import Conflict, NodeIdInUse, SessionLost
from kqueue.metadata.memory import MemoryStore
from kqueue.metadata.sqlite import SqliteStore
from kqueue.metadata.store import ClusterStore, ControllerInfo, Entry, Session, SessionInfo, Term
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.thorough import examples

KEYS = st.sampled_from([f"/{name}" for name in "abcdefgh"])
TIMEOUTS = st.sampled_from([10, 30, 100])
DELETIONS_MAX = 2


class ModelSession(NamedTuple):
    """A session of the model, and what each backend gave for it."""

    epoch: int
    node_id: int
    incarnation: str
    timeout_ms: int
    holders: tuple[ClusterStore, ...]
    given: tuple[Session, ...]


class ModelTerm(NamedTuple):
    epoch: int
    session: ModelSession
    given: tuple[Term, ...]


class ClusterStores(RuleBasedStateMachine):
    """`holders` of a call: for each backend the object that it goes through."""

    @initialize()
    def open(self) -> None:
        self.clock = ManualClock()
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name, "kqueue.db")
        memory = MemoryStore(self.clock, deletions_max=DELETIONS_MAX)
        files = [SqliteStore(path, clock=self.clock, deletions_max=DELETIONS_MAX) for _ in range(2)]
        for store in files:
            store._db.execute("PRAGMA synchronous = OFF")
        self.holders: list[tuple[ClusterStore, ...]] = [(memory, store) for store in files]
        self.entries: dict[str, Entry] = {}
        self.version = 0
        self.live: dict[int, tuple[ModelSession, float]] = {}
        self.begun: list[ModelSession] = []
        self.terms: list[ModelTerm] = []
        self.term: ModelTerm | None = None
        self.caches: list[tuple[int, dict[str, Entry]]] = [(0, {}), (0, {})]

    def expire(self) -> None:
        now_ms = self.clock.monotonic_ms()
        self.live = {node: pair for node, pair in self.live.items() if pair[1] > now_ms}
        if self.term is not None and not self.is_alive(self.term.session):
            self.term = None

    def is_alive(self, session: ModelSession) -> bool:
        return session.node_id in self.live and self.live[session.node_id][0] is session

    @rule(ms=st.integers(1, 40))
    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        self.expire()

    @rule(node=st.integers(0, 2), incarnation=st.sampled_from("xy"), timeout_ms=TIMEOUTS, through=st.integers(0, 1))
    def register(self, node: int, incarnation: str, timeout_ms: int, through: int) -> None:
        in_use = node in self.live and self.live[node][0].incarnation != incarnation
        given: list[Session] = []
        for store in self.holders[through]:
            try:
                given.append(store.register(node, incarnation, timeout_ms))
            except NodeIdInUse:
                assert in_use
            else:
                assert not in_use
        if in_use:
            return
        session = ModelSession(len(self.begun) + 1, node, incarnation, timeout_ms, self.holders[through], tuple(given))
        assert {one.epoch for one in given} == {session.epoch}
        self.begun.append(session)
        self.live[node] = (session, self.clock.monotonic_ms() + timeout_ms)
        self.expire()

    @precondition(lambda self: self.begun)
    @rule(data=st.data())
    def keep_alive(self, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(self.begun[-4:]))
        for given in session.given:
            try:
                given.keep_alive()
            except SessionLost:
                assert not self.is_alive(session)
                assert given.lost
            else:
                assert self.is_alive(session)
        if self.is_alive(session):
            self.live[session.node_id] = (session, self.clock.monotonic_ms() + session.timeout_ms)

    @precondition(lambda self: self.begun)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(self.begun[-4:]))
        for given in session.given:
            given.end()
            assert given.lost
        if self.is_alive(session):
            del self.live[session.node_id]
        self.expire()

    @precondition(lambda self: self.begun)
    @rule(data=st.data())
    def campaign(self, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(self.begun[-4:]))
        given: list[Term] = []
        for store, one in zip(session.holders, session.given, strict=True):
            try:
                term = store.campaign(one)
            except SessionLost:
                assert not self.is_alive(session)
                continue
            assert self.is_alive(session)
            if term is None:
                assert self.term is not None
                assert self.term.session is not session
            else:
                assert self.term is None or self.term.session is session
                given.append(term)
        if given:
            self.term = ModelTerm(len(self.terms) + 1, session, tuple(given))
            assert [one.epoch for one in given] == [self.term.epoch] * 2
            self.terms.append(self.term)

    @precondition(lambda self: self.terms)
    @rule(data=st.data())
    def resign(self, data: st.DataObject) -> None:
        term = data.draw(st.sampled_from(self.terms[-3:]))
        for given in term.given:
            given.resign()
            assert given.lost
        if term is self.term:
            self.term = None

    @rule(
        puts=st.dictionaries(KEYS, st.binary(max_size=3), max_size=3),
        deletes=st.sets(KEYS, max_size=4),
        guards=st.dictionaries(KEYS, st.booleans(), max_size=2),
        through=st.integers(0, 1),
        data=st.data(),
    )
    def commit(
        self, puts: dict[str, bytes], deletes: set[str], guards: dict[str, bool], through: int, data: st.DataObject
    ) -> None:
        by = data.draw(st.sampled_from([None, *self.begun[-3:], *self.terms[-2:]]))
        session = by.session if isinstance(by, ModelTerm) else by
        alive = session is None or (self.is_alive(session) and (by is session or by is self.term))
        current = {key: self.entries[key].version if key in self.entries else None for key in guards}
        expected = {key: current[key] if right else (current[key] or 0) + 1 for key, right in guards.items()}
        error = SessionLost if not alive else Conflict if expected != current else None
        deletes -= set(puts)
        holders = self.holders[through] if session is None else session.holders
        for number, store in enumerate(holders):
            given = None if by is None else by.given[number]
            if error is None:
                versions = store.commit(expected, puts, deletes, by=given)
                assert versions == dict.fromkeys(puts, self.version + 1)
            else:
                with pytest.raises(error):
                    store.commit(expected, puts, deletes, by=given)
        if error is None:
            self.version += 1
            self.entries.update({key: Entry(value, self.version) for key, value in puts.items()})
            for key in deletes:
                self.entries.pop(key, None)

    @rule(number=st.integers(0, 1), through=st.integers(0, 1))
    def refresh(self, number: int, through: int) -> None:
        """A cache of each backend; they are refreshed at different times."""
        after, known = self.caches[number]
        changes = self.holders[through][number].changes(after)
        assert changes.version == self.version
        if changes.complete:
            known = {}
        else:
            assert all(entry is None or entry.version > after for entry in changes.entries.values())
        known = {**known, **{key: entry for key, entry in changes.entries.items() if entry is not None}}
        known = {key: entry for key, entry in known.items() if changes.entries.get(key, entry) is not None}
        assert known == self.entries
        self.caches[number] = (changes.version, known)

    @invariant()
    def all_agree(self) -> None:
        if not hasattr(self, "holders"):
            return
        sessions = {node: SessionInfo(pair[0].epoch, pair[0].incarnation) for node, pair in sorted(self.live.items())}
        controller = None if self.term is None else ControllerInfo(self.term.session.node_id, self.term.epoch)
        for store in {*self.holders[0], *self.holders[1]}:
            assert store.read("/") == self.entries
            assert list(store.sessions().items()) == list(sessions.items())
            assert store.controller() == controller

    def teardown(self) -> None:
        if hasattr(self, "holders"):
            for store in {*self.holders[0], *self.holders[1]}:
                store.close()
            self.folder.cleanup()


TestClusterStores = ClusterStores.TestCase
TestClusterStores.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
