from __future__ import annotations

import random

import pytest

from kqueue.log_tools.tier.manifest_rebuild import (
    chain_of,
    check_manifest,
    gaps_between,
    highest_epoch,
    rebuild_manifest,
    segments_of_objects,
)
from kqueue.tests.tier.tiered_logs import ORDERS
from kqueue.tests.tier.tiers import copied_by_next_leader, copied_log, put
from kqueue.tier.errors import ObjectChanged
from kqueue.tier.formats.manifest_root import LIST_ITEMS_MAX
from kqueue.tier.formats.segments import IndexSizes, TieredSegment
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.contract import Object, TierStore
from kqueue.tier.stores.memory import MemoryTierStore


def segment(start: int, end: int, *, epoch: int = 0, copied_ms: int = 0, id: int = 0) -> TieredSegment:
    epochs = ((epoch, start),)
    indexes = IndexSizes(0, 0, 0, 0, 0)
    name = f"{id or random.Random(f'{start} {end} {epoch} {copied_ms}').getrandbits(128):032x}"
    return TieredSegment(name, start, start, end, 10, -1, 0, indexes, 0, epochs, end, epoch, 1, copied_ms)


def bounds(segments: list[TieredSegment]) -> list[tuple[int, int]]:
    return [(one.start_offset, one.end_offset) for one in segments]


def test_manifest_of_one_leader_is_made_again_as_it_was() -> None:
    store = MemoryTierStore()
    copied_log(store)
    before = list(Manifest.open(store, ORDERS).segments())
    store.delete([ORDERS.manifest_key])
    assert check_manifest(store, ORDERS) == "orders-0 has no manifest"
    rebuilt = segments_of_objects(store, ORDERS)
    assert (rebuilt.segments, rebuilt.unreadable, rebuilt.gaps, rebuilt.leader_epoch) == (before, [], [], 0)
    assert list(rebuild_manifest(store, ORDERS, rebuilt).segments()) == before
    assert check_manifest(store, ORDERS) == ""


@pytest.mark.parametrize("lost", [0, 3])
def test_manifest_of_two_leaders_is_made_again(lost: int) -> None:
    store = MemoryTierStore()
    former = copied_log(store)
    copied_by_next_leader(store, former, kept=Manifest.open(store, ORDERS).end_offset - lost if lost else None)
    before = Manifest.open(store, ORDERS)
    put(store, ORDERS.manifest_key, b"damaged")
    assert "manifest of orders-0" in check_manifest(store, ORDERS)
    rebuilt = segments_of_objects(store, ORDERS)
    assert rebuilt.leader_epoch == 1
    assert bounds(rebuilt.segments) == bounds(list(before.segments()))
    manifest = rebuild_manifest(store, ORDERS, rebuilt)
    assert (manifest.end_offset, manifest.root.size) == (before.end_offset, before.root.size)


def test_copy_that_was_given_up_is_left_out_for_the_next_one() -> None:
    given_up, again = segment(10, 20, copied_ms=1), segment(10, 25, copied_ms=2)
    assert chain_of([again, segment(0, 10), given_up]) == [segment(0, 10), again]


def test_later_leader_decides_over_earlier_ones_whenever_they_wrote() -> None:
    late = segment(10, 90, epoch=1, copied_ms=999)
    chain = chain_of([late, segment(0, 10, epoch=1), segment(5, 30, epoch=2), segment(30, 40, epoch=3)])
    assert bounds(chain) == [(0, 5), (5, 30), (30, 40)]
    assert [one.is_cut for one in chain] == [True, False, False]


def test_gaps_and_highest_epoch_are_those_of_the_segments() -> None:
    segments = [segment(0, 10), segment(12, 20, epoch=4), segment(20, 30, epoch=7)]
    assert gaps_between(segments) == [(10, 12)]
    assert highest_epoch(segments) == 7
    assert highest_epoch([]) == -1


def test_objects_that_are_no_segments_are_reported_and_left_out() -> None:
    store = MemoryTierStore()
    copied_log(store)
    key = next(store.list(f"{ORDERS.prefix}/segments")).key
    put(store, ORDERS.segment_key(7, "a" * 32), store.get(key, max_bytes=1 << 20).body)
    put(store, ORDERS.segment_key(8, "b" * 32), b"nothing")
    rebuilt = segments_of_objects(store, ORDERS)
    assert rebuilt.segments == list(Manifest.open(store, ORDERS).segments())
    assert ["its entry is that of" in rebuilt.unreadable[0], "no segment object" in rebuilt.unreadable[1]] == [True] * 2


def test_many_segments_become_pages() -> None:
    store = MemoryTierStore()
    count = 3 * LIST_ITEMS_MAX
    manifest = Manifest(store, ORDERS)
    segments = [segment(number * 10, number * 10 + 10, id=number + 1) for number in range(count)]
    manifest.rebuild(segments, 0)
    read = Manifest.open(store, ORDERS)
    assert list(read.segments()) == segments
    assert (read.root.count, len(read.root.segments) < LIST_ITEMS_MAX) == (count, True)


def test_rebuild_gives_way_to_a_leader_that_writes_meanwhile() -> None:
    class Racing(MemoryTierStore):
        def get(self, key: str, *, max_bytes: int) -> Object:
            read = super().get(key, max_bytes=max_bytes)
            put(self, key, read.body + b" ")
            return read

    store: TierStore = Racing()
    put(store, ORDERS.manifest_key, b"damaged")
    with pytest.raises(ObjectChanged):
        Manifest(store, ORDERS).rebuild([segment(0, 10)], 0)


def test_manifest_that_is_far_too_large_is_replaced() -> None:
    store = MemoryTierStore()
    put(store, ORDERS.manifest_key, bytes(5 << 20))
    Manifest(store, ORDERS).rebuild([segment(3, 10)], 2)
    read = Manifest.open(store, ORDERS)
    assert (read.start_offset, read.end_offset, read.root.leader_epoch) == (3, 10, 2)
