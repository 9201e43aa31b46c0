from __future__ import annotations

import pytest

from kqueue.tests.tier.tiered_logs import ORDERS
from kqueue.tests.tier.tiers import put
from kqueue.tier.catalog import read_tier_record, read_topic_record
from kqueue.tier.errors import TierCorrupt, TierError
from kqueue.tier.formats.keys import TIER_KEY
from kqueue.tier.formats.tier_record import TierRecord
from kqueue.tier.formats.topic_record import TopicRecord, topic_record_key
from kqueue.tier.records import OtherCluster, check_cluster, note_deletion, take_over, write_topic
from kqueue.tier.stores.contract import TierStore, Version
from kqueue.tier.stores.memory import MemoryTierStore

ID = ORDERS.topic_id


def write(store: TierStore, partitions: int = 3, now_ms: int = 1000) -> TopicRecord:
    return write_topic(
        store, "orders", ID, partitions=partitions, replication_factor=2, configs={"retention.ms": "5"}, now_ms=now_ms
    )


class Racing(MemoryTierStore):
    """Another writer is always faster."""

    def put_if(self, key: str, body: bytes, expected: Version | None) -> Version:
        put(self, key, b"other")
        return super().put_if(key, body, expected)


def test_empty_tier_becomes_that_of_the_cluster() -> None:
    store = MemoryTierStore()
    check_cluster(store, "ours", 1000)
    check_cluster(store, "ours", 2000)
    assert read_tier_record(store) == TierRecord("ours", 1000)


def test_tier_of_another_cluster_is_refused_until_it_is_taken_over() -> None:
    store = MemoryTierStore()
    check_cluster(store, "theirs", 1000)
    with pytest.raises(OtherCluster, match="is the tier of cluster 'theirs', and this one is 'ours'"):
        check_cluster(store, "ours", 2000)
    take_over(store, "ours", 3000)
    check_cluster(store, "ours", 4000)
    assert read_tier_record(store) == TierRecord("ours", 1000, 1)


def test_damaged_record_of_a_tier_is_refused_until_it_is_taken_over() -> None:
    store = MemoryTierStore()
    put(store, TIER_KEY, b"damaged")
    with pytest.raises(TierCorrupt):
        check_cluster(store, "ours", 1000)
    take_over(store, "ours", 2000)
    assert read_tier_record(store) == TierRecord("ours", 2000)


def test_topic_is_written_once_and_keeps_its_time_when_it_changes() -> None:
    store = MemoryTierStore()
    first = write(store)
    assert read_topic_record(store, "orders", ID) == first
    assert write(store, now_ms=9000) == first
    grown = write(store, partitions=4, now_ms=9000)
    assert (grown.created_ms, grown.partitions, grown.sequence) == (1000, 4, 1)
    assert read_topic_record(store, "orders", ID) == grown


def test_deletion_is_noted_once() -> None:
    store = MemoryTierStore()
    record = write(store)
    assert note_deletion(store, "orders", ID, 5000) == record.next(deleted_ms=5000)
    assert note_deletion(store, "orders", ID, 6000) == record.next(deleted_ms=5000)
    assert note_deletion(store, "other", ID, 7000).is_deleted


def test_damaged_record_of_a_topic_is_replaced() -> None:
    store = MemoryTierStore()
    put(store, topic_record_key("orders", ID), b"damaged")
    assert read_topic_record(store, "orders", ID) if write(store) else False


def test_writer_that_always_comes_late_gives_up() -> None:
    with pytest.raises(TierError, match="changes all the time"):
        write(Racing())
    with pytest.raises(TierError, match="changes all the time"):
        note_deletion(Racing(), "orders", ID, 1)
    with pytest.raises(TierCorrupt):
        check_cluster(Racing(), "ours", 1)
