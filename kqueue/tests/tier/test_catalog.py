from __future__ import annotations

import pytest

from kqueue.base.names import uuid_text
from kqueue.tests.tier.tiered_logs import ORDERS
from kqueue.tests.tier.tiers import CLUSTER, put, put_records
from kqueue.tier.catalog import all_topics, read_tier_record, read_topic_record, topic_names, topics_named
from kqueue.tier.errors import TierCorrupt
from kqueue.tier.formats.keys import TIER_KEY, TieredPartition
from kqueue.tier.formats.topic_record import TopicRecord
from kqueue.tier.stores.memory import MemoryTierStore

OTHER_ID = bytes(15) + b"\1"
THIRD_ID = bytes(15) + b"\2"


def test_empty_store_has_no_tier_and_no_topics() -> None:
    store = MemoryTierStore()
    assert read_tier_record(store) is None
    assert read_topic_record(store, "orders", ORDERS.topic_id) is None
    assert topic_names(store) == []
    assert topics_named(store, "orders") == []


def test_topic_has_its_record_and_its_partitions_in_order() -> None:
    store = MemoryTierStore()
    record = put_records(store)
    for number in (10, 2, 0):
        put(store, TieredPartition("orders", ORDERS.topic_id, number).manifest_key, b"")
    (topic,) = all_topics(store)
    assert (topic.record, topic.problem, topic.partitions, topic.is_deleted) == (record, "", (0, 2, 10), False)
    assert topic.partition(2).prefix == f"topics/orders/{uuid_text(ORDERS.topic_id)}/2"
    tier = read_tier_record(store)
    assert tier is not None
    assert tier.cluster_id == CLUSTER


def test_newest_topic_that_exists_comes_before_those_without_record_and_deleted_ones() -> None:
    store = MemoryTierStore()
    put_records(store, TopicRecord("orders", ORDERS.topic_id, 1, created_ms=3000, deleted_ms=4000))
    put_records(store, TopicRecord("orders", OTHER_ID, 1, created_ms=2000))
    put_records(store, TopicRecord("orders", THIRD_ID, 1, created_ms=1000))
    put(store, TieredPartition("orders", bytes(16), 0).manifest_key, b"")
    topics = topics_named(store, "orders")
    assert [topic.topic_id for topic in topics] == [OTHER_ID, THIRD_ID, bytes(16), ORDERS.topic_id]
    assert "has no record" in topics[2].problem
    assert topics[3].is_deleted


def test_damaged_record_is_a_problem_of_its_topic() -> None:
    store = MemoryTierStore()
    record = put_records(store)
    put(store, record.key, b"{}")
    (topic,) = all_topics(store, ["orders"])
    assert topic.record is None
    assert "format" in topic.problem
    put(store, TIER_KEY, b"{}")
    with pytest.raises(TierCorrupt):
        read_tier_record(store)


@pytest.mark.parametrize(
    "key",
    [
        f"topics/orders/{uuid_text(bytes(16))[:-1]}B/0/manifest",  # another spelling of the same id
        "topics/orders/short/0/manifest",
        f"topics/{'x' * 250}/{uuid_text(bytes(16))}/0/manifest",
    ],
)
def test_folders_of_others_are_no_topics(key: str) -> None:
    store = MemoryTierStore()
    put(store, key, b"")
    assert list(all_topics(store)) == []
    assert topics_named(store, "../orders") == []


@pytest.mark.parametrize("number", ["01", "-1", "x", "99999999999", "4294967296"])
def test_folders_of_others_are_no_partitions(number: str) -> None:
    store = MemoryTierStore()
    put(store, f"topics/orders/{uuid_text(bytes(16))}/{number}/manifest", b"")
    assert topics_named(store, "orders")[0].partitions == ()
