from __future__ import annotations

import random
from pathlib import Path

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.broker.adoption import adopt
from kqueue.broker.metadata import Metadata
from kqueue.log.manager import LogManager, Offline
from kqueue.replication.memory import MemoryStore
from kqueue.storage import LocalStorage, MemoryStorage
from kqueue.testing.clock import ManualClock
from kqueue.testing.simulation import Simulation
from kqueue.tests import golden
from kqueue.tests.broker.test_partition import append, values


def test_opening_a_data_folder_whose_store_is_new_takes_over_what_is_there() -> None:
    sim = Simulation()
    topic = sim.topic("orders", 2)
    append(topic.partition(1), b"a", b"b")
    sim.settle()
    sim.stop()
    adopted = Simulation(storage=sim.storage, clock=sim.clock)
    found = adopted.broker.topics.get("orders")
    assert found.id == topic.id
    assert len(found.partitions) == 2
    assert values(found.partition(1)) == [b"a", b"b"]
    assert adopted.broker.leader_epoch > sim.broker.leader_epoch
    assert adopted.result(adopted.broker.producer_ids.allocate()) >= 1 << 40
    adopted.stop()
    assert adopted.restarted().broker.topics.names() == ["orders"]


def test_folders_of_no_known_topic_are_set_aside_and_not_deleted() -> None:
    storage = MemoryStorage()
    sim = Simulation(storage=storage)
    partition = sim.topic("orders").partition(0)
    append(partition, b"a")
    sim.settle()
    sim.stop()
    old_store = sim.store
    later = sim.restarted()
    append(later.topic("later").partition(0), b"precious")
    later.settle()
    later.stop()
    store = MemoryStore()
    entries = {key: entry.value for key, entry in old_store.read("/").items() if not key.endswith("/later")}
    store.commit({}, entries, [])
    again = Simulation(storage=storage, store=store, clock=sim.clock)
    assert again.broker.topics.names() == ["orders"]
    names = [entry.name for entry in storage.list("") if entry.name.startswith("later")]
    assert len(names) == 1
    assert names[0].endswith("-stray")
    again.topic("later")
    assert values(again.broker.topics.partition("later", 0)) == []


def test_a_folder_of_kafka_opens_as_it_is(tmp_path: Path) -> None:
    """S3.6: topics, records and committed offsets of a stopped Kafka 4.3 are served; its own metadata log is left alone."""
    folder = golden.copy_folder("4.3", tmp_path / "data")
    sim = Simulation(storage=LocalStorage(folder), clock=ManualClock(1_800_000_000_000))
    topics = sim.broker.topics
    assert "__cluster_metadata" not in topics.names()
    assert (folder / "__cluster_metadata-0").is_dir()
    assert {"v2-gzip", "v2-three-partitions", "compacted", "txn", "__consumer_offsets"} <= set(topics.names())
    expected = golden.expected("4.3")["v2-gzip"].of_partition(0)
    assert values(topics.partition("v2-gzip", 0)) == [record.value for record in expected]
    assert sim.broker.groups.offsets("golden-v2-gzip")["v2-gzip"][0].offset == 123
    sim.stop()
    assert "v2-gzip" in sim.restarted().broker.topics.names()


def test_nothing_is_adopted_while_a_data_folder_is_offline() -> None:
    """What it holds would be missing for ever."""
    sim = Simulation()
    sim.topic("orders")
    sim.stop()
    offline = Offline("two", StorageFailed("two: Input/output error"))
    logs = LogManager([sim.storage], clock=sim.clock, rng=random.Random(1), offline=[offline])
    metadata = Metadata(MemoryStore(), sim.jobs, sim.broker.waiting)
    with pytest.raises(StorageFailed, match="as long as a data folder is offline: two: Input/output error"):
        adopt(metadata, logs, sim.broker.config)


def test_a_damaged_record_of_a_topic_is_named() -> None:
    sim = Simulation()
    sim.topic("orders")
    sim.stop()
    sim.store.commit({}, {"/topics/orders": b'{"id": 1'}, [])
    with pytest.raises(StorageFailed, match="the metadata store is damaged: /topics/orders can't be read"):
        sim.restarted()
