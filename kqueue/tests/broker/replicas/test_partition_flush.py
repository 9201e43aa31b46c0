from __future__ import annotations

from dataclasses import replace

from kqueue.broker.replicas.partition import Partition
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.replicas.test_partition import append
from kqueue.tests.tables import for_each


def opened(sim: Simulation) -> Partition:
    partition = sim.topic("t").partition(0)
    assert partition.log.end_offset == 0
    return partition


def test_a_call_waits_for_the_flush_of_its_offset_and_not_for_what_is_appended_later() -> None:
    sim = Simulation()
    partition = opened(sim)
    calls: list[str] = []
    partition.flush.after(append(partition, b"a"), lambda: calls.append("first"))
    partition.flush.after(append(partition, b"b"), lambda: calls.append("second"))
    assert calls == []
    assert len(sim.jobs.pending) == 1
    append(partition, b"c")
    sim.jobs.step()
    assert (calls, partition.log.flushed_offset) == (["first"], 1), "the flush began before the second append"
    sim.settle()
    assert (calls, partition.log.flushed_offset) == (["first", "second"], 3)


@for_each("ending", ["closed", "failed"])
def test_all_who_wait_are_called_when_the_log_is_closed_or_fails(ending: str) -> None:
    storage = FaultyStorage()
    sim = Simulation(storage=storage)
    partition = opened(sim)
    calls: list[int] = []
    partition.flush.after(append(partition, b"a"), lambda: calls.append(1))
    assert calls == []
    if ending == "closed":
        partition.flush.close()
    else:
        storage.fail("sync", lambda path: path.endswith(".log"))
        sim.settle()
        assert partition.log.health.failure is not None
    assert calls == [1]


def test_a_changed_interval_holds_for_what_is_not_flushed_yet() -> None:
    sim = Simulation({"kqueue.flush": "kafka", "log.flush.interval.ms": 1000})
    partition = opened(sim)
    append(partition, b"a")
    sim.settle()
    append(partition, b"b")
    sim.settle()
    flushed = partition.log.flushed_offset
    partition.configure(replace(partition.log.config, flush_ms=10))
    sim.advance(9)
    assert partition.log.flushed_offset == flushed == 1
    sim.advance(1)
    assert partition.log.flushed_offset == 2
