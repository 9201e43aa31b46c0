"""The promises of the memory store alone, and its sessions by a manual clock; the contract itself
is in test_store.
"""

from __future__ import annotations

import threading

import pytest

from kqueue.base.errors import Conflict, NodeIdInUse, SessionLost, StorageFailed
from kqueue.metadata.memory import MemoryStore
from kqueue.metadata.store import ClusterStore, ControllerInfo, Entry, SessionInfo
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.tables import for_each


def test_two_holders_of_one_object_see_each_other_and_two_objects_do_not() -> None:
    shared = MemoryStore()
    shared.commit({}, {"/a": b"1"}, [])
    assert shared.read("/a")["/a"].value == b"1"
    assert MemoryStore().read("/") == {}


def test_a_snapshot_stays_as_it_was() -> None:
    store = MemoryStore()
    store.commit({}, {"/a": b"1"}, [])
    before = store.read("/")
    store.commit({}, {"/b": b"2"}, ["/a"])
    assert list(before) == ["/a"]


def test_a_session_that_outlived_its_timeout_is_lost_for_ever() -> None:
    """Rule 7: its commit is refused although it sees the versions that the store has."""
    clock = ManualClock()
    store: ClusterStore = MemoryStore(clock)
    session = store.register(1, "first", 1000)
    term = store.campaign(session)
    assert term is not None
    version = store.commit({}, {"/a": b"1"}, [], by=term)["/a"]
    clock.advance(999)
    session.keep_alive()
    clock.advance(1000)
    assert session.lost
    assert term.lost
    for by in (session, term):
        with pytest.raises(SessionLost, match="broker epoch 1 has ended"):
            store.commit({"/a": version}, {"/a": b"2"}, [], by=by)
    with pytest.raises(SessionLost):
        session.keep_alive()
    with pytest.raises(SessionLost):
        store.campaign(session)
    assert store.sessions() == {}
    assert store.controller() is None
    assert store.read("/") == {"/a": Entry(b"1", version)}
    again = store.register(1, "second", 1000)
    assert again.epoch == 2
    assert session.lost
    session.end()
    assert store.sessions() == {1: SessionInfo(2, "second")}


def test_a_node_id_has_one_live_incarnation() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    first = store.register(1, "first", 1000)
    with pytest.raises(NodeIdInUse, match=r"node id 1 is in use: .* incarnation first \(broker epoch 1\)"):
        store.register(1, "second", 1000)
    assert not first.lost
    again = store.register(1, "first", 1000)
    assert (again.epoch, first.lost) == (2, True)
    clock.advance(1000)
    assert store.register(1, "second", 1000).epoch == 3


def test_the_term_passes_on_when_its_session_ends_or_it_is_resigned() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    one, two = store.register(1, "one", 1000), store.register(2, "two", 5000)
    first = store.campaign(one)
    assert first is not None
    assert store.campaign(two) is None
    first.resign()
    assert (first.lost, one.lost) == (True, False)
    second = store.campaign(one)
    assert second is not None
    with pytest.raises(SessionLost, match="node 1 is not the controller any more: its term 1 has ended"):
        store.commit({}, {"/a": b""}, [], by=first)
    clock.advance(1000)
    assert store.controller() is None
    third = store.campaign(two)
    assert third is not None
    assert store.controller() == ControllerInfo(2, 3)
    first.resign()
    assert store.controller() == ControllerInfo(2, 3)
    two.end()
    assert store.controller() is None


def test_changes_are_exact_until_the_history_of_deletions_is_trimmed() -> None:
    store = MemoryStore(deletions_max=2)
    for key in ("/a", "/b", "/c", "/d"):
        store.commit({}, {key: b""}, [])
    store.commit({}, {}, ["/a"])
    store.commit({}, {"/a": b"again"}, ["/b"])
    assert store.changes(4) == (6, {"/a": Entry(b"again", 6), "/b": None}, False)
    assert store.changes(5).entries == {"/a": Entry(b"again", 6), "/b": None}
    assert store.changes(6) == (6, {}, False)
    store.commit({}, {}, ["/c", "/never-there"])
    store.commit({}, {}, ["/d"])
    assert store.changes(6) == (8, {"/c": None, "/d": None}, False)
    for after in (0, 5, 9):  # /b went in version 6, which is forgotten
        assert store.changes(after) == (8, {"/a": Entry(b"again", 6)}, True)


def test_watchers_are_notified_of_keys_sessions_and_terms_but_of_no_refused_call() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    calls: list[None] = []
    stop = store.watch(lambda: calls.append(None))

    def count() -> int:
        before = len(calls)
        calls.clear()
        return before

    session = store.register(1, "one", 1000)
    assert count() == 1
    store.campaign(session)
    assert count() == 1
    store.commit({}, {"/a": b""}, [], by=session)
    assert count() == 1
    with pytest.raises(Conflict):
        store.commit({"/a": None}, {"/a": b""}, [])
    session.keep_alive()
    assert count() == 0
    two = store.register(2, "two", 5000)
    count()
    clock.advance(1000)
    two.keep_alive()
    assert count() == 1  # session 1 expired
    stop()
    stop()
    two.end()
    assert count() == 0


def test_a_thread_notifies_of_expired_sessions_by_the_machines_clock() -> None:
    before = set(threading.enumerate())
    store = MemoryStore()
    expired = threading.Event()
    store.register(1, "one", 30)
    stop = store.watch(expired.set)
    [thread] = (one for one in set(threading.enumerate()) - before if one.name == "metadata-expiry")
    assert expired.wait(60)
    assert store.sessions() == {}
    stop()
    thread.join(60)
    assert not thread.is_alive()


def test_closing_ends_sessions_and_watches() -> None:
    store = MemoryStore()
    session = store.register(1, "one", 60_000)
    store.watch(lambda: None)
    store.close()
    assert session.lost
    with pytest.raises(StorageFailed):
        session.keep_alive()
    with pytest.raises(StorageFailed):
        store.watch(lambda: None)


@for_each("node_id, incarnation, timeout_ms", [(-1, "a", 1), (0, "", 1), (0, "a" * 256, 1), (0, "a", 0)])
def test_register_checks_its_arguments(node_id: int, incarnation: str, timeout_ms: int) -> None:
    with pytest.raises(ValueError, match="expected"):
        MemoryStore().register(node_id, incarnation, timeout_ms)
