from __future__ import annotations

import pytest

from kqueue.base.errors import SessionLost, StorageFailed
from kqueue.embedded import cluster_store
from kqueue.embedded.cluster_store import TICK_MAX_MS, SessionClock, StoreAccess
from kqueue.metadata.memory import MemoryStore
from kqueue.testing.cluster_store_checks import check_cluster_store

STORES: dict[str, StoreAccess] = {}


class Closing(StoreAccess):
    """An access that owns its store."""

    def close(self) -> None:
        self._store.close()


def shared_access(folder: str) -> StoreAccess:
    return STORES.setdefault(folder, Closing(MemoryStore()))


@pytest.mark.long
def test_an_access_keeps_the_contract_of_the_store() -> None:
    check_cluster_store(shared_access, durable=False)


def test_nothing_passes_while_it_is_cut_and_watches_learn_afterwards_that_they_missed_something() -> None:
    store = MemoryStore()
    access = StoreAccess(store)
    session = access.register(1, "a", 10_000)
    term = access.campaign(session)
    assert term is not None
    notified: list[int] = []
    stop = access.watch(lambda: notified.append(1))
    access.cut()
    store.commit({}, {"/a": b"1"}, ())
    assert notified == []
    for call in (
        lambda: access.read("/"),
        lambda: access.commit({}, {"/b": b""}, (), by=session),
        lambda: access.register(1, "b", 10_000),
        lambda: access.campaign(session),
        lambda: access.changes(0),
        lambda: access.watch(lambda: None),
        access.sessions,
        access.controller,
        session.keep_alive,
        session.end,
        term.resign,
    ):
        with pytest.raises(StorageFailed, match="can't be reached"):
            call()
    assert not session.lost
    access.heal()
    assert notified == [1]
    session.keep_alive()
    access.commit({}, {"/b": b""}, (), by=term)
    stop()
    del notified[:]
    access.cut()
    access.heal()
    access.commit({}, {"/c": b""}, (), by=session)
    assert notified == []
    session.end()
    assert term.lost
    with pytest.raises(SessionLost):
        access.commit({}, {"/d": b""}, (), by=term)


def test_time_passes_only_by_ticks_and_a_process_that_was_suspended_loses_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_ns = 1_000_000_000_000
    monkeypatch.setattr(cluster_store, "monotonic_ns", lambda: now_ns)
    clock = SessionClock()
    start_ms = clock.monotonic_ms()
    assert start_ms == now_ns / 1e6
    now_ns += 20_000_000
    assert clock.monotonic_ms() == start_ms
    clock.tick()
    assert clock.monotonic_ms() == pytest.approx(start_ms + 20)
    now_ns += 3_600_000_000_000
    clock.tick()
    assert clock.monotonic_ms() == pytest.approx(start_ms + 20 + TICK_MAX_MS)
    clock.skip(1000)
    assert clock.monotonic_ms() == pytest.approx(start_ms + 1020 + TICK_MAX_MS)
