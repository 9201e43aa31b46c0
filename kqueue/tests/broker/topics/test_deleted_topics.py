"""Making and deleting topics with their folders in jobs, whatever comes between."""

from __future__ import annotations

import random

import pytest

from kqueue.broker.topics.deleted_topics import PREFIX, deleted_topics
from kqueue.metadata.memory import MemoryStore
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.replicas.test_partition import append, values
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import corners

PARTITIONS = 3


def folders(storage: FaultyStorage) -> list[str]:
    return [entry.name for entry in storage.list("") if entry.is_folder]


def live(sim: Simulation) -> None:
    """A topic is made, used, deleted, and made again under its name."""
    topic = sim.topic("t", PARTITIONS)
    for partition in topic.partitions[:2]:
        append(partition, b"old")
    sim.settle()
    sim.result(sim.broker.topics.delete("t"))
    again = sim.topic("t", 2)
    append(again.partition(0), b"new")
    sim.settle()


def test_a_deletion_leaves_nothing_in_the_store_or_on_the_disk() -> None:
    storage, store = FaultyStorage(), MemoryStore()
    sim = Simulation(storage=storage, store=store)
    live(sim)
    sim.result(sim.broker.topics.delete("t"))
    sim.settle()
    assert folders(storage) == []
    assert not [key for key in store.read("/") if key.startswith(PREFIX)]


@pytest.mark.parametrize("remains", corners(Remains, Remains.TORN))
def test_the_power_may_fail_at_every_step_of_making_and_deleting(remains: Remains) -> None:
    whole = FaultyStorage()
    live(Simulation(storage=whole))
    for cut_at in range(1, len(whole.steps) + 1):
        storage, store = FaultyStorage(cut_at=cut_at), MemoryStore()
        with pytest.raises(PowerCut):
            live(Simulation(storage=storage, store=store))
        left = storage.after_cut(remains, random.Random(cut_at))
        sim = Simulation(storage=left, store=store)
        sim.settle()
        assert not [name for name in folders(left) if name.endswith(("-stray", "-delete"))], cut_at
        assert deleted_topics(sim.broker.metadata.cache) == {}
        topic = sim.broker.topics.find("t")
        if topic is None:
            assert folders(left) == []
            topic = sim.topic("t", 1)
        else:
            old = len(topic.partitions) == PARTITIONS
            assert values(topic.partition(0)) in ([], [b"old" if old else b"new"])
        append(topic.partition(0), b"more")
        sim.settle()
        assert values(topic.partition(0))[-1] == b"more"


@for_each("clean", [True, False])
def test_a_start_completes_a_deletion_that_a_stop_cut_short(clean: bool) -> None:
    storage, store = FaultyStorage(), MemoryStore()
    sim = Simulation(storage=storage, store=store)
    append(sim.topic("t", PARTITIONS).partition(0), b"x")
    sim.settle()
    storage.fail("rename", lambda path: path.startswith("t-"))
    sim.broker.topics.delete("t")
    sim.settle()
    if clean:
        sim.stop()
    storage.locks.clear()
    storage.mend()
    again = sim.restarted()
    again.settle()
    assert folders(storage) == []
    assert not [key for key in store.read("/") if key.startswith(PREFIX)]


def test_creations_under_way_count_towards_the_limit_of_partitions() -> None:
    sim = Simulation({"kqueue.max.partitions": 10})
    sim.topic("a", 2)
    sim.broker.topics.add_partitions("a", 9)
    with pytest.raises(Exception, match="would exceed kqueue.max.partitions=10"):
        sim.broker.topics.add_partitions("a", 9)


def test_a_broker_that_stops_while_folders_are_made_serves_the_topic_after_its_start() -> None:
    sim = Simulation(storage=FaultyStorage())
    sim.topic("t", 2)
    promise = sim.broker.topics.add_partitions("t", 1000)
    while not promise.done:
        sim.jobs.step()
    sim.stop()
    again = sim.restarted()
    partition = again.broker.topics.partition("t", 999)
    append(partition, b"x")
    again.settle()
    assert values(partition) == [b"x"]


def test_looking_for_old_records_opens_no_partition_that_has_none() -> None:
    sim = Simulation(storage=FaultyStorage())
    topic = sim.topic("t", 3)
    append(topic.partition(1), b"x")
    sim.settle()
    for _ in range(2):
        sim.advance(600_000)
        assert [partition.is_open for partition in topic.partitions] == [False, True, False]
        sim.stop()
        sim = sim.restarted()
        topic = sim.broker.topics.get("t")
