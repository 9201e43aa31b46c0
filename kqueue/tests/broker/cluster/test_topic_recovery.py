from __future__ import annotations

import json
import random

import pytest

from kqueue.base.errors import Conflict, InvalidReplicationFactor
from kqueue.base.names import uuid_text
from kqueue.broker.cluster.topic_recovery import (
    ProducerIdRange,
    RecoveredTopic,
    RecoveryRefused,
    cluster_id_of,
    found_cluster,
    missing_topics,
    recover_into_cluster,
    recover_into_single_broker,
)
from kqueue.broker.topics.folder_import import PRODUCER_ID_AFTER_IMPORT
from kqueue.metadata.memory import MemoryStore
from kqueue.replication.registrations import TopicRegistration, sole_registration
from kqueue.tests.replication.support import broker

ORDERS = RecoveredTopic("orders", bytes(range(16)), {"retention.ms": "5"}, (8, 3, 0), 2)
BLOCK = PRODUCER_ID_AFTER_IMPORT


def store_of(*nodes: int) -> MemoryStore:
    store = MemoryStore()
    for node in nodes:
        store.commit({}, {f"/brokers/{node}": broker(node).to_bytes()}, ())
    return store


def recover(store: MemoryStore, *topics: RecoveredTopic, ids: ProducerIdRange | None = None) -> None:
    recover_into_cluster(store, topics, ids, random.Random(1))


def next_id(store: MemoryStore) -> int:
    return int(json.loads(store.read("/producer_ids")["/producer_ids"].value)["next"])


def set_next_id(store: MemoryStore, next_id: int) -> None:
    store.commit({}, {"/producer_ids": json.dumps({"next": next_id, "broker": 1}).encode()}, ())


def test_topics_of_a_cluster_have_ids_settings_and_epochs_above_the_tiers() -> None:
    store = store_of(1, 2, 3)
    recover(store, ORDERS)
    topic = TopicRegistration.from_bytes("orders", store.read("/topics/")["/topics/orders"].value)
    assert (topic.id, topic.configs) == (ORDERS.id, ORDERS.configs)
    assert [partition.leader_epoch for partition in topic.partitions] == [8, 3, 0]
    assert all(partition.partition_epoch > 0 for partition in topic.partitions)  # else they count as new
    for partition in topic.partitions:
        assert len(partition.replicas) == 2
        assert partition.isr == partition.replicas
        assert partition.leader == partition.replicas[0]


def test_cluster_without_running_brokers_or_with_too_few_changes_nothing() -> None:
    for store, error in ((store_of(), RecoveryRefused), (store_of(1), InvalidReplicationFactor)):
        with pytest.raises(error):
            recover(store, ORDERS)
        assert store.read("/topics/") == {}
    fenced = MemoryStore()
    fenced.commit({}, {"/brokers/1": broker(1, fenced=True).to_bytes()}, ())
    with pytest.raises(RecoveryRefused, match="no broker of the cluster runs"):
        recover(fenced, ORDERS)


def test_topics_of_a_single_broker_have_one_epoch_above_all() -> None:
    store = MemoryStore()
    store.commit({}, {"/leader_epoch": b"5"}, ())
    recover_into_single_broker(store, [ORDERS], None)
    assert json.loads(store.read("/leader_epoch")["/leader_epoch"].value) == 8
    sole = sole_registration(1, 8)
    topic = TopicRegistration.from_bytes("orders", store.read("/topics/")["/topics/orders"].value, sole)
    assert (topic.id, len(topic.partitions)) == (ORDERS.id, 3)
    assert "/adopted" in store.read("/adopted")


def test_store_of_a_cluster_is_not_taken_for_that_of_a_single_broker() -> None:
    founded = MemoryStore()
    found_cluster(founded, "ours")
    for store in (founded, store_of(1)):
        with pytest.raises(RecoveryRefused, match="is that of a cluster"):
            recover_into_single_broker(store, [ORDERS], None)


def test_new_store_gets_the_id_of_the_cluster_once() -> None:
    store = MemoryStore()
    assert cluster_id_of(store) is None
    found_cluster(store, "ours")
    assert cluster_id_of(store) == "ours"
    with pytest.raises(Conflict):
        found_cluster(store, "others")
    store.commit({}, {"/cluster": b"[]"}, ())
    with pytest.raises(RecoveryRefused, match="damaged"):
        cluster_id_of(store)


def test_topics_that_are_there_are_not_made_again() -> None:
    store = store_of(1, 2)
    recover(store, ORDERS)
    assert missing_topics(store, [ORDERS]) == ([], [])
    other = ORDERS._replace(id=bytes(16))
    missing, (refusal,) = missing_topics(store, [other])
    assert missing == []
    assert uuid_text(ORDERS.id) in refusal
    payments, colliding = ORDERS._replace(name="pay.ments"), ORDERS._replace(name="pay_ments")
    recover(store, payments)
    assert "collides with pay.ments" in missing_topics(store, [colliding])[1][0]
    store.commit({}, {"/topics/x": b"x"}, ())
    with pytest.raises(RecoveryRefused, match="damaged"):
        missing_topics(store, [ORDERS])


@pytest.mark.parametrize(
    ("given", "ids", "expected"),
    [
        (0, None, BLOCK),
        (0, ProducerIdRange(0, 5000), BLOCK),
        (0, ProducerIdRange(7, BLOCK), 2 * BLOCK),
        (1000, None, BLOCK),
        (1000, ProducerIdRange(1000, 2000), BLOCK),
        (BLOCK + 5000, ProducerIdRange(0, 9000), BLOCK + 5000),
        (2 * BLOCK, ProducerIdRange(0, BLOCK + 9), 2 * BLOCK),
    ],
)
def test_producer_ids_continue_above_those_of_the_tier(given: int, ids: ProducerIdRange | None, expected: int) -> None:
    store = store_of(1, 2)
    if given:
        set_next_id(store, given)
    recover(store, ORDERS, ids=ids)
    assert next_id(store) == expected


@pytest.mark.parametrize(
    ("given", "ids"), [(1000, ProducerIdRange(0, 5000)), (BLOCK + 1000, ProducerIdRange(7, BLOCK + 3))]
)
def test_cluster_that_has_given_ids_of_the_tier_is_refused(given: int, ids: ProducerIdRange) -> None:
    store = store_of(1, 2)
    set_next_id(store, given)
    with pytest.raises(RecoveryRefused, match="producer ids"):
        recover(store, ORDERS, ids=ids)
    assert (store.read("/topics/"), next_id(store)) == ({}, given)
