"""Faults of tier stores: which calls have them, and what has taken place after them."""

from __future__ import annotations

import pytest

from kqueue.testing.tier_faults import (
    OPERATIONS,
    Crash,
    FaultyTierStore,
    TierCall,
    crash_at,
    expired,
    lost_answer,
    missing,
    slow,
    truncated,
    unavailable,
)
from kqueue.testing.tier_store_checks import check_tier_store
from kqueue.tier.errors import ObjectNotFound, TierDenied, TierUnavailable
from kqueue.tier.stores.memory import MemoryTierStore


@pytest.fixture
def store() -> FaultyTierStore:
    faulty = FaultyTierStore(MemoryTierStore(), seed=1)
    faulty.inner.put("a/x", [b"0123456789"], 10)
    return faulty


def test_store_without_faults_keeps_the_contract() -> None:
    check_tier_store(
        lambda url: FaultyTierStore(MemoryTierStore(url.removeprefix("memory://"))),
        "memory://{name}",
        objects=50,
        big_bytes=1000,
        isolated=False,
    )


def test_calls_are_recorded_in_order(store: FaultyTierStore) -> None:
    store.put("b", [b"1"], 1)
    store.put_if("c", b"1", None)
    store.get("b", max_bytes=1)
    store.get_range("b", 0, 1)
    list(store.list("a"))
    store.list_folders("")
    store.delete(["b", "c"])
    assert store.calls == [TierCall(*call) for call in zip(OPERATIONS, ("b", "c", "b", "b", "a", "", "b"), strict=True)]


def test_unavailable_call_does_not_take_place_and_later_ones_do(store: FaultyTierStore) -> None:
    store.fail(unavailable("put"), times=2)
    for _ in range(2):
        with pytest.raises(TierUnavailable, match="b: put: 503 SlowDown"):
            store.put("b", [b"1"], 1)
    with pytest.raises(ObjectNotFound):
        store.get("b", max_bytes=1)
    store.put("b", [b"1"], 1)


def test_lost_answer_is_of_a_put_that_took_place(store: FaultyTierStore) -> None:
    store.fail(lost_answer("put_if", "*/manifest.json"))
    store.put_if("other", b"1", None)
    with pytest.raises(TierUnavailable, match="the connection broke before the answer"):
        store.put_if("p/0/manifest.json", b"1", None)
    assert store.get("p/0/manifest.json", max_bytes=1).body == b"1"


def test_faults_are_of_matching_operations_and_keys(store: FaultyTierStore) -> None:
    store.fail(expired("get*", "a/*"))
    store.fail(missing("get_range"))
    store.put("a/y", [b"1"], 1)
    store.put("b", [b"1"], 1)
    with pytest.raises(TierDenied, match="400 ExpiredToken"):
        store.get("a/y", max_bytes=1)
    with pytest.raises(TierDenied):
        store.get_range("a/x", 0, 1)
    with pytest.raises(ObjectNotFound):
        store.get_range("b", 0, 1)
    assert store.get("b", max_bytes=1).body == b"1"


def test_truncated_results_are_shorter(store: FaultyTierStore) -> None:
    store.fail(truncated("a/*"))
    for _ in range(20):
        assert len(store.get_range("a/x", 2, 8)) < 8
        assert len(store.get("a/x", max_bytes=10).body) < 10
    assert list(store.list("a"))


def test_slow_call_waits_first(store: FaultyTierStore) -> None:
    waits: list[int] = []
    store.fail(slow(lambda: waits.append(1), "get"))
    assert store.get("a/x", max_bytes=10).body == b"0123456789"
    assert waits == [1]


def test_stale_lists_are_of_an_earlier_moment(store: FaultyTierStore) -> None:
    store.freeze_lists()
    store.put("a/b/new", [b"1"], 1)
    store.delete(["a/x"])
    assert [entry.key for entry in store.list("")] == ["a/x"]
    assert [entry.key for entry in store.list("a/")] == ["a/x"]
    assert store.list_folders("") == ["a"]
    assert store.list_folders("a") == []
    assert store.get("a/b/new", max_bytes=1).body == b"1"
    store.mend()
    assert [entry.key for entry in store.list("")] == ["a/b/new"]
    assert store.list_folders("a") == ["b"]


def test_crash_before_and_after_a_call(store: FaultyTierStore) -> None:
    store.before = crash_at(2)
    store.put("b", [b"1"], 1)
    for _ in range(2):
        with pytest.raises(Crash, match="call 2: put c"):
            store.put("c", [b"1"], 1)
    store.mend()
    store.after = crash_at(1)
    with pytest.raises(Crash):
        store.put("d", [b"1"], 1)
    assert [entry.key for entry in store.inner.list("")] == ["a/x", "b", "d"]


def test_same_seed_gives_the_same_faults() -> None:
    def failed(seed: int) -> list[int]:
        store = FaultyTierStore(MemoryTierStore(), seed=seed)
        store.fail(unavailable(), probability=0.5)
        numbers = []
        for number in range(100):
            try:
                store.put("a", [b"1"], 1)
            except TierUnavailable:
                numbers.append(number)
        return numbers

    assert failed(1) == failed(1)
    assert failed(1) != failed(2)
    assert 30 < len(failed(1)) < 70


def test_closing_closes_the_store_inside(store: FaultyTierStore) -> None:
    store.close()
    with pytest.raises(Exception, match="is closed"):
        store.inner.get("a/x", max_bytes=10)
