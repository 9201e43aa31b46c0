import random

import pytest

from kqueue.base.errors import SessionLost, StorageFailed
from kqueue.testing.event_queue import DriftingClock, EventQueue
from kqueue.testing.simulated_store import SharedStore, StoreLink


@pytest.fixture
def queue():
    return EventQueue()


@pytest.fixture
def commits():
    return []


@pytest.fixture
def store(queue, commits):
    return SharedStore(DriftingClock(queue), lambda before, after: commits.append((dict(before), dict(after))))


def test_each_commit_is_told_with_the_values_before_and_after(store, commits) -> None:
    link = StoreLink(store, random.Random(1))
    link.commit({}, {"/a": b"1"}, ())
    link.commit({}, {"/b": b"2"}, ["/a"])
    assert commits == [({}, {"/a": b"1"}), ({"/a": b"1"}, {"/b": b"2", "/a": None})]


def test_half_of_the_calls_that_fail_were_executed(store, commits) -> None:
    link = StoreLink(store, random.Random(1))
    link.failures = 1.0
    for _ in range(1000):
        with pytest.raises(StorageFailed, match="unknown"):
            link.commit({}, {"/a": b"1"}, ())
    assert 400 < len(commits) < 600


def test_a_broker_does_not_reach_a_store_that_is_away(store, queue) -> None:
    link = StoreLink(store, random.Random(1))
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
