from __future__ import annotations

import pytest

from kqueue.spark.source.tier_topics import TierTopic, find_topic, topic_names
from kqueue.tests.spark.source.tiers import put_topic
from kqueue.tier.errors import TierCorrupt
from kqueue.tier.formats.keys import TieredPartition
from kqueue.tier.formats.topic_record import TopicRecord
from kqueue.tier.stores.memory import MemoryTierStore

OLD, NEW = bytes(range(16)), bytes(range(1, 17))


def put(store: MemoryTierStore, key: str) -> None:
    store.put(key, (b"x",), 1)


def test_a_topic_has_the_partitions_of_its_record() -> None:
    store = MemoryTierStore()
    put_topic(store, TopicRecord("orders", NEW, 3))
    assert topic_names(store) == ["orders"]
    assert find_topic(store, "orders") == TierTopic("orders", NEW, (0, 1, 2))
    assert find_topic(store, "order") is None


def test_a_topic_without_its_record_has_the_partitions_of_its_folders() -> None:
    store = MemoryTierStore()
    for number in (10, 2):
        put(store, TieredPartition("orders", NEW, number).manifest_key)
    put(store, f"topics/orders/{'A' * 22}/07/manifest")
    assert find_topic(store, "orders") == TierTopic("orders", NEW, (2, 10))


def test_of_topics_with_one_name_the_one_that_was_created_last_counts() -> None:
    store = MemoryTierStore()
    put_topic(store, TopicRecord("orders", NEW, 2, created_ms=20))
    put_topic(store, TopicRecord("orders", OLD, 1, created_ms=10))
    assert find_topic(store, "orders") == TierTopic("orders", NEW, (0, 1))
    put_topic(store, TopicRecord("orders", NEW, 2, created_ms=20, deleted_ms=30))
    assert find_topic(store, "orders") == TierTopic("orders", OLD, (0,))
    put_topic(store, TopicRecord("orders", OLD, 1, created_ms=10, deleted_ms=30))
    assert find_topic(store, "orders") is None


def test_folders_that_are_no_topics_are_left_out() -> None:
    store = MemoryTierStore()
    put(store, f"topics/{'n' * 250}/x/manifest")
    put(store, "topics/orders/no-id/0/manifest")
    assert topic_names(store) == ["orders"]
    assert find_topic(store, "orders") is None
    assert find_topic(store, "../secrets") is None


def test_a_damaged_record_is_an_error() -> None:
    store = MemoryTierStore()
    put(store, TopicRecord("orders", NEW, 1).key)
    with pytest.raises(TierCorrupt, match="the record of topic orders"):
        find_topic(store, "orders")
