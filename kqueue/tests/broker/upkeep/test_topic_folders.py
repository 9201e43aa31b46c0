from __future__ import annotations

from kqueue.base.slice_queue import SLICE_MS
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.topics.topics import NewTopic, Topic
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.replicas.test_partition import append, values


class Held:
    """Work that keeps all other slices of a broker waiting, until `end`."""

    def __init__(self, sim: Simulation) -> None:
        self._is_over = False
        self._clock = sim.clock
        sim.broker.scheduler.slices.add(self._work())

    def _work(self) -> SlicedWork[None]:
        while not self._is_over:
            self._clock.advance(SLICE_MS)  # so that each slice ends after one step
            yield None

    def end(self) -> None:
        self._is_over = True


def create(sim: Simulation, name: str, count: int) -> Topic:
    promise = sim.broker.topics.create(NewTopic(name, count))
    sim.jobs.run_all()
    return promise.result()


def folders(sim: Simulation) -> list[str]:
    return sorted(entry.name for entry in sim.storage.list("") if entry.is_folder)


def test_a_log_is_opened_after_the_folder_of_its_predecessor_is_deleted() -> None:
    sim = Simulation()
    old = sim.topic("t", 2)
    for partition in old.partitions:
        append(partition, b"old")
    sim.settle()
    held = Held(sim)
    sim.broker.topics.delete("t")
    sim.jobs.run_all()
    assert [partition.deleted for partition in old.partitions] == [False, False]
    new = create(sim, "t", 2)
    append(new.partition(0), b"new")
    assert [partition.deleted for partition in old.partitions] == [True, False]
    held.end()
    sim.advance(1)
    assert [partition.deleted for partition in old.partitions] == [True, True]
    assert values(new.partition(0)) == [b"new"]
    assert new.partition(1).log_end_offset == 0


def test_a_topic_that_is_deleted_before_it_has_folders_gets_none() -> None:
    sim = Simulation()
    held = Held(sim)
    create(sim, "t", 2)
    sim.broker.topics.delete("t")
    sim.jobs.run_all()
    held.end()
    sim.advance(1)
    assert folders(sim) == []


def test_a_stop_leaves_new_folders_to_the_first_use() -> None:
    sim = Simulation()
    held = Held(sim)
    create(sim, "t", 1)
    held.end()
    sim.stop()
    assert folders(sim) == []
    partition = sim.restarted().broker.topics.partition("t", 0)
    append(partition, b"x")
    assert partition.log_end_offset == 1
