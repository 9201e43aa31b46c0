from __future__ import annotations

from kqueue.records.batch import Record, read_header
from kqueue.records.builder import build_batch
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.replicas.test_partition import append


def test_recovery_points_are_written_periodically() -> None:
    sim = Simulation({"log.flush.offset.checkpoint.interval.ms": 1000})
    partition = sim.topic("orders").partition(0)
    append(partition, b"a", b"b")
    sim.advance(1000)
    assert b"orders 0 2" in sim.storage.read("recovery-point-offset-checkpoint")


def test_idle_producers_expire() -> None:
    sim = Simulation({"producer.id.expiration.ms": 5000, "producer.id.expiration.check.interval.ms": 1000})
    partition = sim.topic("orders").partition(0)
    batch = build_batch([Record(0, sim.clock.wall_ms(), None, b"a")], producer_id=7, epoch=0, base_sequence=0)
    partition.append(memoryview(batch), read_header(batch))
    sim.advance(4000)
    assert len(partition.log.producers) == 1
    sim.advance(3000)
    assert len(partition.log.producers) == 0


def test_high_watermarks_of_open_logs_are_written_periodically() -> None:
    sim = Simulation({"replica.high.watermark.checkpoint.interval.ms": 1000})
    append(sim.topic("orders").partition(0), b"a", b"b")
    sim.topic("closed")
    sim.advance(1000)
    written = sim.storage.read("replication-offset-checkpoint")
    assert b"orders 0 2" in written
    assert b"closed" not in written
