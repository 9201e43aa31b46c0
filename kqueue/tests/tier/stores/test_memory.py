"""Objects in memory: shared by name, within one process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.tier_store_checks import check_tier_store
from kqueue.tests.tables import for_each
from kqueue.tier.errors import ObjectNotFound, TierError
from kqueue.tier.stores.memory import MemoryTierStore, forget_objects

NAME = "tests/tier/memory"


@pytest.fixture(autouse=True)
def no_objects() -> Iterator[None]:
    yield
    forget_objects(NAME)


def test_memory_store_keeps_the_contract() -> None:
    check_tier_store(lambda url: MemoryTierStore(url.removeprefix("memory://")), "memory://{name}", isolated=False)


def test_stores_of_one_name_share_objects_after_closing_too() -> None:
    first = MemoryTierStore(NAME)
    first.put("a", [b"1"], 1)
    first.close()
    assert MemoryTierStore(NAME).get("a", max_bytes=1).body == b"1"
    with pytest.raises(ObjectNotFound, match=r"memory://tests/tier/other/a does not exist"):
        MemoryTierStore("tests/tier/other").get("a", max_bytes=1)
    forget_objects("tests/tier/other")


def test_forgotten_objects_stay_with_open_stores_only() -> None:
    store = MemoryTierStore(NAME)
    store.put("a", [b"1"], 1)
    forget_objects(NAME)
    assert store.get("a", max_bytes=1).body == b"1"
    assert list(MemoryTierStore(NAME).list("")) == []


def test_stores_without_a_name_share_nothing() -> None:
    MemoryTierStore().put("a", [b"1"], 1)
    assert list(MemoryTierStore().list("")) == []


def test_time_of_a_put_is_that_of_the_clock() -> None:
    clock = ManualClock(1_700_000_000_000)
    store = MemoryTierStore(clock=clock)
    store.put("a", [b"1"], 1)
    clock.advance(5000)
    store.put_if("b", b"22", None)
    assert list(store.list("")) == [("a", 1, 1_700_000_000_000), ("b", 2, 1_700_000_005_000)]


@for_each("name", ["", "/", "a b", "a//b", "a?x=1", "a" * 101])
def test_name_of_other_characters_is_refused(name: str) -> None:
    with pytest.raises(TierError, match=r"^memory://.*expected a name of letters"):
        MemoryTierStore(name)
