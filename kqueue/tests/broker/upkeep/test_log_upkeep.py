from __future__ import annotations

from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.replicas.test_partition import append
from kqueue.tests.broker.test_broker import kill


def crashed() -> Simulation:
    """The start after a crash, of a broker that has its one log to recover."""
    sim = Simulation()
    append(sim.topic("t").partition(0), b"a")
    sim.settle()
    kill(sim)
    return Simulation(storage=sim.storage, store=sim.store, clock=sim.clock, recovers=False)


def test_logs_of_a_crash_are_recovered_in_jobs() -> None:
    sim = crashed()
    assert sim.broker.upkeep.recovery.is_pending("t", 0)
    assert not sim.broker.ready.done
    sim.settle()
    assert sim.broker.topics.partition("t", 0).high_watermark == 1
    assert sim.broker.ready.done


def test_a_broker_is_ready_once_the_last_topic_that_recovers_is_deleted() -> None:
    sim = crashed()
    held, sim.jobs.pending = sim.jobs.pending, type(sim.jobs.pending)()
    deleted = sim.broker.topics.delete("t")
    sim.jobs.run_all()
    assert deleted.done
    assert sim.broker.ready.done
    sim.jobs.pending.extend(held)
    sim.settle()
    assert not sim.storage.exists("t-0")


def test_a_stop_leaves_recovery_to_the_next_start() -> None:
    sim = crashed()
    sim.broker.prepare_stop()
    sim.settle()
    sim.broker.stop()
    again = sim.restarted()
    assert again.broker.topics.partition("t", 0).high_watermark == 1


def test_deleting_a_topic_at_once_leaves_no_folder() -> None:
    sim = Simulation({"num.partitions": 1})
    topic = sim.topic("t", 2)
    append(topic.partition(0), b"a")
    sim.settle()
    sim.broker.upkeep.delete(topic)
    sim.settle()
    assert [partition.deleted for partition in topic.partitions] == [True, True]
    assert [entry.name for entry in sim.storage.list("") if entry.is_folder] == []
