from __future__ import annotations

import pytest

from kqueue.broker.tier.tier_objects import OtherCluster, check_cluster, delete_partition, delete_topic, write_topic
from kqueue.testing.tier_faults import Crash, FaultyTierStore, crash_at
from kqueue.tests.tables import for_each
from kqueue.tier.catalog import read_tier_record, read_topic_record, topics_named
from kqueue.tier.errors import TierCorrupt
from kqueue.tier.formats.keys import TieredPartition
from kqueue.tier.formats.topic_record import TopicRecord
from kqueue.tier.stores.memory import MemoryTierStore

ID = bytes(range(16))
TOPIC = TopicRecord("t", ID, 2, 3, {"retention.ms": "5"}, created_ms=7)


def test_empty_tier_becomes_that_of_the_cluster_and_stays_it() -> None:
    store = MemoryTierStore("tests-identity")
    check_cluster(store, "mine", 5)
    check_cluster(store, "mine", 6)
    record = read_tier_record(store)
    assert record is not None
    assert (record.cluster_id, record.created_ms) == ("mine", 5)
    with pytest.raises(OtherCluster, match="memory://tests-identity is the tier of cluster 'mine', and this cluster"):
        check_cluster(store, "other", 7)


@for_each("body", [b"[]", b"\xff", b"[" * 10_000, b"{}" * 10_000_000])
def test_identity_that_can_not_be_read_is_refused(body: bytes) -> None:
    store = MemoryTierStore(f"tests-identity-{len(body)}")
    store.put("kqueue-tier.json", [body], len(body))
    with pytest.raises(TierCorrupt):
        check_cluster(store, "mine", 5)


def test_record_of_a_topic_keeps_its_creation_and_counts_its_changes() -> None:
    store = MemoryTierStore("tests-topic-record")
    write_topic(store, TOPIC)
    write_topic(store, TopicRecord("t", ID, 2, 3, {"retention.ms": "5"}, created_ms=99))
    first = read_topic_record(store, "t", ID)
    write_topic(store, TopicRecord("t", ID, 4, created_ms=99))
    second = read_topic_record(store, "t", ID)
    assert first is not None
    assert second is not None
    assert (first.created_ms, first.configs) == (7, {"retention.ms": "5"})
    assert (second.created_ms, second.partitions, second.sequence) == (7, 4, first.sequence + 1)


def test_damaged_record_of_a_topic_is_written_again() -> None:
    store = MemoryTierStore("tests-topic-damage")
    store.put(TOPIC.key, [b"x"], 1)
    write_topic(store, TOPIC)
    assert read_topic_record(store, "t", ID) is not None


def filled(name: str) -> MemoryTierStore:
    store = MemoryTierStore(name)
    write_topic(store, TOPIC)
    write_topic(store, TopicRecord("t2", ID, 1))
    for index in range(2):
        partition = TieredPartition("t", ID, index)
        store.put(partition.manifest_key, [b"x"], 1)
        for number in range(3):
            store.put(partition.segment_key(number, f"{number:032x}"), [b"x"], 1)
    return store


def test_topic_is_called_deleted_before_its_objects_go_and_has_no_record_at_the_end() -> None:
    store = FaultyTierStore(filled("tests-deletion"))
    seen: list[tuple[bool, int]] = []
    for step in range(1, 40):
        store.before = crash_at(step)
        try:
            delete_topic(store, TopicRecord("t", ID, 1, deleted_ms=9))
            break
        except Crash:
            (topic,) = topics_named(store.inner, "t") or [None]
            if topic is not None:
                seen.append((topic.is_deleted, len(topic.partitions)))
    assert (False, 2) in seen
    assert not [one for one in seen if one[1] < 2 and not one[0]]
    assert [entry.key.split("/")[1] for entry in store.inner.list("topics")] == ["t2"]
    delete_topic(store.inner, TopicRecord("t", ID, 1, deleted_ms=9))


def test_deletion_of_a_partition_keeps_the_others() -> None:
    store = filled("tests-partition-deletion")
    delete_partition(store, TieredPartition("t", ID, 0))
    (topic,) = topics_named(store, "t")
    assert topic.partitions == (1,)
