import random

import pytest

from kqueue.base.errors import Conflict, SessionLost, StorageFailed
from kqueue.tests.simulation.event_queue import DriftingClock, EventQueue
from kqueue.tests.simulation.simulated_store import SharedStore, StoreLink


@pytest.fixture
def queue():
    return EventQueue()


@pytest.fixture
def commits():
    return []


@pytest.fixture
def store(queue, commits):
    return SharedStore(DriftingClock(queue), lambda before, after: commits.append((dict(before), dict(after))))


def test_each_commit_is_told_with_the_values_before_and_after(store, commits, queue) -> None:
    link = StoreLink(store, random.Random(1), queue)
    link.commit({}, {"/a": b"1"}, ())
    link.commit({}, {"/b": b"2"}, ["/a"])
    assert commits == [({}, {"/a": b"1"}), ({"/a": b"1"}, {"/b": b"2", "/a": None})]


def test_failed_commits_are_executed_before_later_or_never(store, commits, queue) -> None:
    link = StoreLink(store, random.Random(1), queue)
    link.failures = 1.0
    for _ in range(1000):
        with pytest.raises(StorageFailed, match="unknown"):
            link.commit({}, {"/a": b"1"}, ())
    assert 400 < len(commits) < 600
    queue.run_until(1000)
    assert 700 < len(commits) < 800


def test_a_late_commit_is_guarded_as_any_other(store, commits, queue) -> None:
    link = StoreLink(store, random.Random(1), queue)
    link.commit({}, {"/b": b"1"}, ())
    link.failures = 1.0
    for _ in range(100):
        with pytest.raises((StorageFailed, Conflict)):
            link.commit({"/b": None}, {"/a": b"1"}, ())
    queue.run_until(1000)
    assert commits == [({}, {"/b": b"1"})]


def test_a_broker_does_not_reach_a_store_that_is_away(store, queue) -> None:
    link = StoreLink(store, random.Random(1), queue)
    session = link.register(1, "one", 900)
    term = link.campaign(session)
    link.is_away = True
    queue.run_until(1000)
    for call in (session.keep_alive, lambda: link.read("/"), lambda: link.commit({}, {"/a": b"1"}, (), by=term)):
        with pytest.raises(StorageFailed, match="can't be reached"):
            call()
    assert not session.lost
    link.is_away = False
    assert session.lost
    with pytest.raises(SessionLost):
        link.commit({}, {"/a": b"1"}, (), by=term)
