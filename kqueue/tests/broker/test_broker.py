from __future__ import annotations

import pytest

from kqueue.base.errors import FolderInUse
from kqueue.records.batch import Record, read_header
from kqueue.records.builder import build_batch
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.replicas.test_partition import append


def test_the_cluster_id_stays_with_the_data() -> None:
    sim = Simulation()
    cluster_id = sim.broker.identity.cluster_id
    assert len(cluster_id) == 22
    sim.stop()
    assert sim.restarted().broker.identity.cluster_id == cluster_id
    assert Simulation(seed=1).broker.identity.cluster_id != cluster_id


@pytest.mark.parametrize(
    ("settings", "node_id"), [({}, 1), ({"node.id": 7}, 7), ({"broker.id": 3}, 3), ({"node.id": 7, "broker.id": 3}, 7)]
)
def test_the_node_id(settings: dict[str, object], node_id: int) -> None:
    assert Simulation(settings).broker.identity.node_id == node_id


def kill(sim: Simulation) -> None:
    """End it as a killed process ends: locks are released, nothing else is done."""
    for folder in sim.logs._folders:
        folder._lock.release()


def test_the_leader_epoch_rises_after_an_unclean_stop_only() -> None:
    sim = Simulation()
    epoch = sim.broker.replicas.host.sole_replica.leader_epoch
    sim.stop()
    clean = sim.restarted()
    clean.topic("orders")
    assert clean.broker.replicas.host.sole_replica.leader_epoch == epoch
    kill(clean)
    unclean = clean.restarted()
    assert unclean.broker.replicas.host.sole_replica.leader_epoch == epoch + 1
    unclean.stop()
    assert unclean.restarted().broker.replicas.host.sole_replica.leader_epoch == epoch + 1


def test_a_second_broker_on_the_same_folder_is_refused() -> None:
    sim = Simulation()
    with pytest.raises(FolderInUse):
        sim.restarted()


def test_stopping_twice_is_harmless() -> None:
    sim = Simulation()
    sim.topic("orders")
    sim.stop()
    sim.broker.stop()


def test_committed_offsets_outlive_a_restart() -> None:
    from kqueue.groups.offsets.offset_manager import OffsetToCommit

    sim = Simulation({"offsets.topic.num.partitions": 3})
    sim.topic("orders")
    promise = sim.broker.coordinators.groups.commit(
        "readers", -1, "", None, [OffsetToCommit("orders", 0, 42, -1, "note")]
    )
    assert sim.result(promise) == [None]
    sim.stop()
    again = sim.restarted()
    assert again.broker.coordinators.groups.offsets("readers")["orders"][0].offset == 42
    again.result(again.broker.topics.delete("orders"))
    again.settle()
    assert "orders" not in again.broker.coordinators.groups.offsets("readers")


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
