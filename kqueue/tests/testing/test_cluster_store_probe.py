"""A store as the checks of cluster stores see it."""

from __future__ import annotations

import pytest

from kqueue.metadata.memory import MemoryStore
from kqueue.testing.cluster_store_probe import Cache, ClusterProbe, Wakeups, let_pass, opened, until
from kqueue.testing.contract_checks import ContractTrial


def trial(store: MemoryStore) -> ContractTrial:  # type: ignore[type-arg]
    return ContractTrial(lambda folder: store, {}, "", lambda kind, text: None)


def test_a_cache_follows_a_store_and_reports_where_it_does_not() -> None:
    store = MemoryStore()
    cache = Cache(ClusterProbe(trial(store), ""))
    store.commit({}, {"/a": b"1", "/b": b"1"}, [])
    cache.check("two keys")
    store.commit({}, {}, ["/a"])
    cache.check("one deleted")
    assert sorted(cache.entries) == ["/b"]
    cache.entries.clear()
    with pytest.raises(AssertionError, match=r"later: what changes\(2\) makes of /b is None, but the store has Entry"):
        cache.check("later")


def test_wakeups_are_counted_until_the_watch_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kqueue.testing.cluster_store_probe.WAIT_LIMIT_S", 0.2)
    store = MemoryStore()
    wakeups = Wakeups(ClusterProbe(trial(store), ""))
    wakeups.after("a commit", lambda: store.commit({}, {"/a": b""}, []))
    assert wakeups.settled() == 1
    with pytest.raises(AssertionError, match="nothing: notify was not called within"):
        wakeups.after("nothing", lambda: None)
    wakeups.stop()
    store.commit({}, {"/a": b""}, [])
    assert wakeups.settled() == 1


def test_opened_stores_are_closed_and_waiting_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kqueue.testing.cluster_store_probe.WAIT_LIMIT_S", 0.05)
    store = MemoryStore()
    with opened(trial(store), 2) as (one, two):
        assert one.store is two.store
        session = one.register(1, "one", 30)
        let_pass(store, session)
        assert session.lost
        with pytest.raises(AssertionError, match="the moon: not within"):
            until("the moon", lambda: False)
    assert store._closed
