from __future__ import annotations

from kqueue.base.names import uuid_text
from kqueue.log_tools.tier.inventory import partition_inventory, partition_segments, tier_inventory
from kqueue.tests.tier.tiered_logs import ORDERS
from kqueue.tests.tier.tiers import SETTINGS, copied_log, put, put_records
from kqueue.tier.formats.keys import TieredPartition
from kqueue.tier.formats.segments import IndexSizes, TieredSegment
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.memory import MemoryTierStore

OTHER = TieredPartition("orders", ORDERS.topic_id, 1)


def test_partition_has_offsets_bytes_and_times_of_its_segments() -> None:
    store = MemoryTierStore()
    copied_log(store)
    manifest = Manifest.open(store, ORDERS)
    found = partition_inventory(store, ORDERS)
    segments = list(partition_segments(store, ORDERS))
    assert (found.start_offset, found.end_offset) == (0, manifest.end_offset)
    assert (found.segments, found.size) == (len(segments), sum(one.size for one in segments))
    assert (found.newest_ms, found.copied_ms) == (max(one.max_timestamp for one in segments), 1000)
    assert (found.leader_epoch, found.problem) == (0, "")


def test_empty_partition_has_no_times() -> None:
    store = MemoryTierStore()
    Manifest.open(store, ORDERS).claim(3, None)
    found = partition_inventory(store, ORDERS)
    assert (found.segments, found.newest_ms, found.copied_ms, found.leader_epoch) == (0, None, None, 3)


def test_newest_time_may_be_in_a_page() -> None:
    store = MemoryTierStore()
    segments = [
        TieredSegment(
            f"{n:032x}", n, n, n + 1, 1, 10_000 - n, 0, IndexSizes(0, 0, 0, 0, 0), 0, ((0, n),), n + 1, 0, 1, n
        )
        for n in range(100)
    ]
    Manifest(store, ORDERS).rebuild(segments, 0)
    found = partition_inventory(store, ORDERS)
    assert (found.newest_ms, found.copied_ms, found.segments) == (10_000, 99, 100)


def test_what_cannot_be_read_is_a_problem_of_its_partition() -> None:
    store = MemoryTierStore()
    put_records(store)
    copied_log(store)
    put(store, OTHER.manifest_key, b"x")
    put(store, TieredPartition("orders", ORDERS.topic_id, 2).segment_key(0, "a" * 32), b"")
    (topic,) = tier_inventory(store)
    assert [one.problem.partition(":")[0] for one in topic.partitions] == [
        "",
        "the manifest of orders-1",
        "orders-2 has no manifest",
    ]
    assert list(tier_inventory(store, ["other"])) == []


def test_json_has_the_record_of_the_topic() -> None:
    store = MemoryTierStore()
    put_records(store)
    copied_log(store)
    (topic,) = tier_inventory(store)
    values = topic.as_json()
    assert (values["topic"], values["topic_id"]) == ("orders", uuid_text(ORDERS.topic_id))
    assert (values["configs"], values["deleted"], values["problem"]) == (SETTINGS, False, None)
    assert values["partitions"][0]["partition"] == 0
