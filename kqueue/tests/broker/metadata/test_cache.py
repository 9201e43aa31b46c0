from __future__ import annotations

import pytest

from kqueue.base.errors import Conflict, KqueueError, StorageFailed
from kqueue.base.promise import Promise
from kqueue.base.timers import Timers
from kqueue.broker.metadata.cache import MetadataCache
from kqueue.broker.purgatory import Purgatory
from kqueue.metadata.memory import MemoryStore
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.stepped_jobs import SteppedJobs
from kqueue.tests.compiled import replaces_compiled


class Setup:
    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = store or MemoryStore()
        self.jobs = SteppedJobs()
        self.metadata = MetadataCache(self.store, self.jobs, Purgatory(Timers(), ManualClock()))
        self.metadata.load()
        self.news: list[KqueueError | None] = []


def test_memory_follows_the_store() -> None:
    setup = Setup()
    setup.metadata.commit("try", {"/a/1": b"x", "/a/2": b"y"}, setup.news.append)
    assert setup.metadata.get("/a/1") is None, "not before the store has it"
    setup.jobs.run_all()
    assert setup.news == [None]
    assert setup.metadata.with_prefix("/a/") == {"1": b"x", "2": b"y"}
    setup.metadata.commit("try", {"/a/1": None, "/a/2": b"z"}, setup.news.append)
    setup.jobs.run_all()
    assert setup.metadata.with_prefix("/a/") == {"2": b"z"}
    assert Setup(setup.store).metadata.with_prefix("/a/") == {"2": b"z"}


def test_a_change_by_another_is_noticed() -> None:
    first = Setup()
    second = Setup(first.store)
    first.metadata.commit_now({"/a": b"first"})
    second.metadata.commit("try", {"/a": b"second"}, second.news.append)
    second.jobs.run_all()
    assert isinstance(second.news[0], Conflict)
    assert second.metadata.get("/a") is None
    with pytest.raises(Conflict):
        second.metadata.commit_now({"/a": b"second"})


def test_a_failed_commit_is_reported_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup()

    def fail(*args: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(setup.store, "commit", fail)
    setup.metadata.commit("store it", {"/a": b"x"}, setup.news.append)
    setup.jobs.run_all()
    assert isinstance(setup.news[0], StorageFailed)
    assert str(setup.news[0]) == "could not store it: no space left"
    assert setup.metadata.get("/a") is None


@replaces_compiled
def test_promises_are_settled_and_their_waiters_woken() -> None:
    setup = Setup()
    woken = list[object]()
    setup.metadata._purgatory.wake = woken.append  # type: ignore[method-assign]
    promise: Promise[int] = Promise()
    setup.metadata.resolve(promise, 3)
    failed: Promise[int] = Promise()
    setup.metadata.fail(failed, StorageFailed("no"))
    assert promise.result() == 3
    assert failed.error is not None
    assert woken == [promise, failed]
