"""A store that goes from a single broker to a cluster, and back."""

from __future__ import annotations

import json

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.broker.topics.topics import NewTopic
from kqueue.metadata.memory import MemoryStore
from kqueue.replication.registrations import PartitionRegistration
from kqueue.storage import MemoryStorage
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.members import Members
from kqueue.tests.broker.replicas.test_partition import append, values


def test_a_member_takes_over_the_topics_of_the_single_broker_whose_folders_it_has() -> None:
    store, storage = MemoryStore(), MemoryStorage()
    single = Simulation({"node.id": 1}, store=store, storage=storage)
    topic = single.topic("t", 2, retention_ms="-1")
    single.broker.replicas.host.sole_replica.begin_epoch(4)
    append(topic.partition(0), b"a", b"b")
    single.stop()
    store.commit({}, {"/leader_epoch": b"4"}, [])
    members = Members(1, store=store, storages={1: storage})
    taken = members[1].broker.topics.get("t")
    assert (taken.id, taken.config["retention.ms"]) == (topic.id, -1)
    assert members.registration().partitions == (PartitionRegistration((1,), (1,), 1, leader_epoch=5),) * 2
    assert members.partition(1).log_end_offset == 2


def test_another_member_does_not_take_them_over() -> None:
    store = MemoryStore()
    single = Simulation({"node.id": 1}, store=store)
    single.topic("t")
    single.stop()
    with pytest.raises(StorageFailed, match=r"not in the data folders of this broker \(1\): start the broker with"):
        Members(1, store=store)


def test_a_single_broker_takes_over_a_cluster_that_only_it_has_replicas_of() -> None:
    members = Members(1)
    topic = members.result(members[1].broker.topics.create(NewTopic("t", 2, configs={"retention.ms": "-1"})))
    members.write(lambda old: old._replace(leader_epoch=7))
    append(members.partition(1), b"a")
    members.settle()
    members[1].stop()
    single = Simulation({"node.id": 1}, store=members.store, storage=members[1].storage, clock=members.clock)
    taken = single.broker.topics.get("t")
    assert (taken.id, len(taken.partitions), taken.config["retention.ms"]) == (topic.id, 2, -1)
    assert single.broker.replicas.host.sole_replica.leader_epoch == 8
    assert values(taken.partition(0)) == [b"a"]
    assert json.loads(members.store.read("/topics/t")["/topics/t"].value)["partitions"] == 2


def test_a_single_broker_refuses_a_cluster_with_other_replicas() -> None:
    members = Members(2)
    members.result(members[1].broker.topics.create(NewTopic("t", 1, 2)))
    for sim in members.sims.values():
        sim.stop()
    with pytest.raises(
        StorageFailed, match=r"topic t has replicas on the brokers 1, 2: .*--workers 2\), or .*kqueue.cluster.store"
    ):
        Simulation({"node.id": 1}, store=members.store, storage=members[1].storage, clock=members.clock)


def test_a_member_with_partitions_refuses_a_store_without_topics_and_keeps_its_folders() -> None:
    """Another store than before, or one that was lost: its partitions would become strays."""
    members = Members(1)
    members.result(members[1].broker.topics.create(NewTopic("t", 2)))
    append(members.partition(1), b"a")
    members.settle()
    members[1].stop()
    with pytest.raises(
        StorageFailed, match=r"the data folders have 2 partitions \(t-0, ...\): check kqueue.cluster.store"
    ):
        Members(1, store=MemoryStore(), storages={1: members[1].storage})
    assert all(members[1].storage.exists(f"t-{index}") for index in (0, 1))


def test_a_member_whose_last_topic_was_deleted_while_it_was_down_starts() -> None:
    members = Members(2)
    members.result(members[1].broker.topics.create(NewTopic("t", 1, 2)))
    members[2].stop()
    del members.sims[2]
    members.result(members[1].broker.topics.delete("t"))
    members.start(2)
    members.settle()
    assert members[2].logs.partition_folders() == {}
