"""What only the memory store promises; the contract itself is in test_store."""

from __future__ import annotations

from kqueue.metadata.memory import MemoryStore


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
