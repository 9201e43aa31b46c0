from __future__ import annotations

from kqueue.broker.replicas.partition import Partition
from kqueue.replication.registrations import NO_LEADER, PartitionRegistration
from kqueue.testing.simulation import Simulation

SELF = 1


class Recorder:
    """Notes the events of a broker's replicas."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int, int]] = []

    def became_leader(self, partition: Partition) -> None:
        self.events.append(("leader", partition.leader, partition.leader_epoch))

    def became_follower(self, partition: Partition) -> None:
        self.events.append(("follower", partition.leader, partition.leader_epoch))

    def removed(self, partition: Partition) -> None:
        self.events.append(("removed", partition.leader, partition.leader_epoch))

    def take(self) -> list[tuple[str, int, int]]:
        events, self.events = self.events, []
        return events


def registration(epoch: int, leader: int, leader_epoch: int, *replicas: int) -> PartitionRegistration:
    return PartitionRegistration(replicas, replicas, leader, leader_epoch, partition_epoch=epoch)


def partition_and_events() -> tuple[Partition, Recorder]:
    sim = Simulation()
    partition, recorder = sim.topic("t").partition(0), Recorder()
    sim.broker.replicas.host.replica_events.append(recorder)
    return partition, recorder


def test_a_single_broker_leads_all_partitions_in_its_own_epoch() -> None:
    sim = Simulation()
    partition = sim.topic("t").partition(0)
    for epoch in (0, 4):
        sim.broker.replicas.host.sole_replica.begin_epoch(epoch)
        assert partition.registration == PartitionRegistration((SELF,), (SELF,), SELF, epoch)
        assert (partition.replicas, partition.isr) == ((SELF,), (SELF,))
        assert (partition.leader, partition.leader_epoch, partition.is_leader) == (SELF, epoch, True)


def test_events_tell_each_leader_and_leader_epoch_after_the_registration_is_in_force() -> None:
    partition, recorder = partition_and_events()
    partition.apply(registration(1, SELF, 3, SELF, 2))
    assert (partition.is_leader, partition.leader_epoch, partition.replicas) == (True, 3, (SELF, 2))
    partition.apply(registration(2, SELF, 4, SELF, 2))  # leads on
    partition.apply(registration(3, 2, 5, SELF, 2))
    assert not partition.is_leader
    partition.apply(registration(4, NO_LEADER, 6, SELF, 2))
    partition.apply(registration(5, 3, 7, 2, 3))
    partition.apply(registration(6, 3, 8, 2, 3))  # another's affair
    assert recorder.take() == [
        ("leader", SELF, 3), ("leader", SELF, 4), ("follower", 2, 5), ("follower", NO_LEADER, 6), ("removed", 3, 7),
    ]  # fmt: skip


def test_a_change_of_the_in_sync_set_alone_is_no_event() -> None:
    partition, recorder = partition_and_events()
    before = registration(1, SELF, 3, SELF, 2)
    partition.apply(before)
    recorder.take()
    partition.apply(before._replace(isr=(SELF,), partition_epoch=2))
    assert partition.isr == (SELF,)
    assert recorder.take() == []


def test_rule_8_only_a_higher_partition_epoch_is_applied() -> None:
    partition, recorder = partition_and_events()
    partition.apply(newer := registration(7, 2, 5, SELF, 2))
    recorder.take()
    for epoch in (6, 7):
        partition.apply(registration(epoch, SELF, 9, SELF, 2))
    assert (partition.registration, recorder.take()) == (newer, [])
    partition.apply(registration(20, SELF, 9, SELF, 2))  # gaps are legal
    assert recorder.take() == [("leader", SELF, 9)]
