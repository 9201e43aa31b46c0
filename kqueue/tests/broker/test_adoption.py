from __future__ import annotations

from kqueue.replication.memory import MemoryStore
from kqueue.storage import MemoryStorage
from kqueue.testing.simulation import Simulation
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
