from __future__ import annotations

import pytest

from kqueue.log_tools.tier.segment_entries import read_entry
from kqueue.tests.tier.tiered_logs import ORDERS
from kqueue.tests.tier.tiers import copied_log, put
from kqueue.tier.errors import ObjectNotFound, TierCorrupt
from kqueue.tier.formats.segment_object import MAGIC, TRAILER
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.memory import MemoryTierStore


def test_entry_is_that_of_the_manifest() -> None:
    store = MemoryTierStore()
    copied_log(store)
    for entry in list(store.list(f"{ORDERS.prefix}/segments")):
        segment = read_entry(store, entry.key, entry.size)
        assert segment.key(ORDERS) == entry.key
        assert segment in list(Manifest.open(store, ORDERS).segments())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(TRAILER.size),
        bytes(100),
        TRAILER.pack(0, 0, MAGIC) + bytes(4),
        b"x" + TRAILER.pack(0, 0, MAGIC),
        b"x" + TRAILER.pack(0, 2, MAGIC),
        b"x" + TRAILER.pack(0, 1, MAGIC),
        b"x" + TRAILER.pack(0, 2**31, MAGIC),
    ],
)
def test_other_objects_are_refused(data: bytes) -> None:
    store = MemoryTierStore()
    put(store, "x", data)
    with pytest.raises(TierCorrupt):
        read_entry(store, "x", len(data))


def test_entry_of_an_object_of_another_size_is_refused() -> None:
    store = MemoryTierStore()
    copied_log(store)
    entry = next(store.list(f"{ORDERS.prefix}/segments"))
    put(store, entry.key, b"more" + store.get(entry.key, max_bytes=1 << 20).body)
    with pytest.raises(TierCorrupt, match="before its entry"):
        read_entry(store, entry.key, entry.size + 4)


def test_missing_object_is_not_found() -> None:
    with pytest.raises(ObjectNotFound):
        read_entry(MemoryTierStore(), "x", 1000)
