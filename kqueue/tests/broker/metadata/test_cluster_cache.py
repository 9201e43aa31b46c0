from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn

import pytest

from kqueue.base.errors import Conflict, KqueueError, SessionLost, StorageFailed
from kqueue.base.timers import Timers
from kqueue.broker.metadata.cluster_cache import RETRY_MS, ClusterMetadata
from kqueue.broker.purgatory import Purgatory
from kqueue.metadata.memory import MemoryStore
from kqueue.metadata.store import Changes, Session, Term
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.stepped_jobs import SteppedJobs

Change = Mapping[str, bytes | None]


class UnreliableStore(MemoryStore):
    """Fails on purpose. `away`: what reads. `loses_answer`: commits, after or before the change."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.away = False
        self.loses_answer: str | None = None

    def changes(self, after: int) -> Changes:
        if self.away:
            raise StorageFailed("no connection")
        return super().changes(after)

    def commit(
        self,
        guards: Mapping[str, int | None],
        puts: Mapping[str, bytes],
        deletes: Iterable[str],
        *,
        by: Session | Term | None = None,
    ) -> Mapping[str, int]:
        if self.loses_answer == "before":
            raise StorageFailed("connection lost")
        versions = super().commit(guards, puts, deletes, by=by)
        if self.loses_answer == "after":
            raise StorageFailed("connection lost")
        return versions


class Member:
    """The metadata of one broker. `seen`: what an observer of /a/ was told."""

    def __init__(self, store: MemoryStore, clock: ManualClock) -> None:
        self.store, self.clock = store, clock
        self.jobs, self.timers = SteppedJobs(), Timers(clock)
        self.metadata = ClusterMetadata(store, self.jobs, Purgatory(self.timers, clock), self.timers, clock)
        self.metadata.load()
        self.seen: list[Change] = []
        self.metadata.observe("/a/", self.seen.append)
        self.outcomes: list[KqueueError | None] = []
        self.calls: list[Callable[[], None]] = []

    def commit(self, puts: Change, *, guarded: Iterable[str] = (), by: Session | None = None) -> None:
        self.metadata.commit("try", puts, self.outcomes.append, guarded=list(guarded), by=by)

    def put(self, **values: bytes) -> None:
        self.commit({f"/a/{key}": value for key, value in values.items()})

    def run(self) -> None:
        self.jobs.run_all()
        while self.calls:
            self.calls.pop(0)()
            self.jobs.run_all()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> UnreliableStore:
    return UnreliableStore(clock)


def test_a_refresh_shows_what_others_put_and_deleted(store: UnreliableStore, clock: ManualClock) -> None:
    first, second = Member(store, clock), Member(store, clock)
    first.put(x=b"1", y=b"2")
    first.run()
    assert second.metadata.with_prefix("/a/") == {}
    second.metadata.refresh()
    second.run()
    assert second.metadata.with_prefix("/a/") == {"x": b"1", "y": b"2"}
    first.commit({"/a/x": None, "/b": b"3"})
    first.run()
    second.metadata.refresh()
    second.run()
    assert second.seen == [{"x": b"1", "y": b"2"}, {"x": None}]
    assert (second.metadata.get("/a/x"), second.metadata.get("/b")) == (None, b"3")
    assert second.metadata.end_offset == first.metadata.end_offset


def test_the_watch_refreshes_on_the_owner_thread_until_it_is_stopped(
    store: UnreliableStore, clock: ManualClock
) -> None:
    first, second = Member(store, clock), Member(store, clock)
    refreshed: list[int] = []
    second.metadata.observe_refresh(lambda: refreshed.append(len(second.seen)))
    second.metadata.watch(second.calls.append)
    second.run()
    assert refreshed == [0]
    first.put(x=b"1")
    first.run()
    assert second.seen == [], "the watch has only asked for a call"
    second.run()
    assert second.seen == [{"x": b"1"}]
    assert refreshed[-1] == 1
    second.metadata.stop()
    first.put(y=b"1")
    first.run()
    assert second.calls == []


def test_after_a_stop_no_other_refresh_begins(store: UnreliableStore, clock: ManualClock) -> None:
    member = Member(store, clock)
    member.metadata.refresh()
    member.metadata.refresh()  # one more, after the first
    member.metadata.stop()
    assert (member.jobs.step(), member.jobs.step()) == (True, False)
    store.away = True
    member.metadata.refresh()
    assert not member.jobs.step()


def test_a_commit_is_done_after_the_observers_have_seen_it_with_what_others_did_before(
    store: UnreliableStore, clock: ManualClock
) -> None:
    first, second = Member(store, clock), Member(store, clock)
    first.put(x=b"1")
    first.run()
    seen_at_done: list[list[Change]] = []
    second.metadata.commit("try", {"/a/y": b"2"}, lambda error: seen_at_done.append(list(second.seen)))
    second.run()
    assert seen_at_done == [[{"x": b"1", "y": b"2"}]]


def test_after_a_conflict_the_caller_sees_what_was_in_the_way(store: UnreliableStore, clock: ManualClock) -> None:
    first, second = Member(store, clock), Member(store, clock)
    first.put(x=b"1")
    first.run()
    second.put(x=b"2")
    second.run()
    assert isinstance(second.outcomes[0], Conflict)
    assert second.metadata.get("/a/x") == b"1"
    second.put(x=b"2")
    second.run()
    assert second.outcomes[1] is None


def test_other_keys_guard_a_commit_as_they_were_seen(store: UnreliableStore, clock: ManualClock) -> None:
    first, second = Member(store, clock), Member(store, clock)
    first.put(broker=b"epoch 2")
    first.run()
    second.commit({"/a/partition": b"1"}, guarded=["/a/broker"])
    second.run()
    assert isinstance(second.outcomes[0], Conflict)
    second.commit({"/a/partition": b"1"}, guarded=["/a/broker"])
    second.run()
    assert second.outcomes[1] is None
    assert store.read("/a/broker")["/a/broker"].value == b"epoch 2"


def test_rule_7_a_commit_by_a_lost_session_changes_nothing(store: UnreliableStore, clock: ManualClock) -> None:
    member = Member(store, clock)
    session = store.register(1, "a", 1000)
    session.end()
    member.commit({"/a/x": b"1"}, by=session)
    member.run()
    assert isinstance(member.outcomes[0], SessionLost)
    assert store.read("/a/") == {}


def test_an_older_answer_that_comes_late_changes_nothing(store: UnreliableStore, clock: ManualClock) -> None:
    first, late = Member(store, clock), Member(store, clock)
    first.put(x=b"1")
    first.run()
    late.metadata.refresh()
    old = late.jobs.pending.popleft()
    answer = old.run()  # type: ignore[union-attr]
    first.put(x=b"2")
    first.run()
    late.put(y=b"3")
    late.run()
    assert late.metadata.get("/a/x") == b"2"
    old.finish(answer, None)
    assert late.metadata.get("/a/x") == b"2"
    assert late.seen == [{"x": b"2", "y": b"3"}]


def test_a_snapshot_instead_of_changes_tells_what_is_gone(clock: ManualClock) -> None:
    store = MemoryStore(clock, deletions_max=1)
    member, other = Member(store, clock), Member(store, clock)
    other.put(x=b"1", y=b"2", z=b"3")
    other.run()
    member.metadata.refresh()
    member.run()
    for key in "xy":
        other.commit({f"/a/{key}": None})
        other.run()
    member.metadata.refresh()
    member.run()
    assert member.seen[-1] == {"x": None, "y": None}
    assert member.metadata.with_prefix("/a/") == {"z": b"3"}


@pytest.mark.parametrize(("lost", "is_done"), [("after", True), ("before", False)])
def test_an_unknown_outcome_is_looked_up(store: UnreliableStore, clock: ManualClock, lost: str, is_done: bool) -> None:
    member = Member(store, clock)
    member.put(x=b"1", gone=b"1")
    member.run()
    store.loses_answer = lost
    member.commit({"/a/x": b"2", "/a/gone": None})
    member.run()
    assert (member.outcomes[1] is None) is is_done
    assert member.metadata.with_prefix("/a/") == ({"x": b"2"} if is_done else {"x": b"1", "gone": b"1"})


def test_while_the_store_is_away_what_is_known_is_served_and_the_refresh_repeated(
    store: UnreliableStore, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    member = Member(store, clock)
    member.put(x=b"1")
    member.run()
    store.away = True
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            member.metadata.refresh()
            member.run()
            clock.advance(RETRY_MS)
            member.timers.run_due(clock.monotonic_ms())
            member.run()
        assert len(caplog.records) == 1, "one line, not one per attempt"
        assert "the metadata store can't be read, serving on with what is known: no connection" in caplog.text
        assert member.metadata.get("/a/x") == b"1"
        member.put(y=b"2")
        member.run()
        assert len(member.outcomes) == 1, "committed, but not seen here yet"
        store.away = False
        clock.advance(RETRY_MS)
        member.timers.run_due(clock.monotonic_ms())
        member.run()
    assert member.outcomes == [None, None]
    assert member.seen[-1] == {"y": b"2"}
    assert "the metadata store can be read again" in caplog.text


class Refused(StorageFailed):
    """Another kind of error than that of a store without connection."""


def test_another_reason_why_the_store_is_away_has_a_line_of_its_own(
    store: UnreliableStore, clock: ManualClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = Member(store, clock)
    member.put(x=b"1")
    member.run()
    store.away = True

    def refresh() -> None:
        clock.advance(RETRY_MS)
        member.timers.run_due(clock.monotonic_ms())
        member.run()

    def refuse(after: int) -> NoReturn:
        raise Refused("the store went back")

    with caplog.at_level(logging.WARNING):
        member.metadata.refresh()
        member.run()
        refresh()
        monkeypatch.setattr(store, "changes", refuse)
        refresh()
        refresh()
    reasons = [line.rpartition(": ")[2] for line in caplog.messages]
    assert len(reasons) == 2
    assert reasons[1] == "the store went back"


def test_an_observer_that_fails_does_not_stop_the_others(
    store: UnreliableStore, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    member = Member(store, clock)

    def fail(changed: Change) -> None:
        raise StorageFailed("the record is damaged")

    member.metadata.observe("/a/", fail)
    later: list[Change] = []
    member.metadata.observe("/b/", later.append)
    with caplog.at_level(logging.ERROR):
        member.commit({"/a/x": b"1", "/b/y": b"2"})
        member.run()
    assert later == [{"y": b"2"}]
    assert "a change of the metadata of /a/... can't be applied: the record is damaged" in caplog.text
