"""The model's world: brokers that replicate, crash and come back; and its message of each step."""

import pytest

from kqueue.tests.simulation.replication_world import EPOCH, InvariantViolated, Node, ReplicationWorld


def replicate(world, times=3) -> None:
    for _ in range(times):
        for node in world.nodes:
            request = world.fetch(node)
            if request is not None:
                world.receive(world.answer(request))
            world.flush(node)


def settle(world) -> None:
    while world.control_once():
        pass
    for node in world.nodes:
        while node.is_up and node.view < len(world.history) - 1:
            world.refresh(node)


@pytest.fixture
def world():
    """All are up and registered, and the leader has two records that all have."""
    world = ReplicationWorld(seed=0)
    settle(world)
    leader = world.nodes[world.partition.leader]
    leader.append([leader.leader.leader_epoch * EPOCH + 1, leader.leader.leader_epoch * EPOCH + 2])
    replicate(world)
    world.propose(leader)
    while world.commits:
        world.commit(world.commits.pop())
    settle(world)
    return world


def test_records_reach_all(world) -> None:
    assert world.partition.isr == (0, 1, 2)
    assert [len(node.log) for node in world.nodes] == [2, 2, 2]
    replicate(world)
    assert world.committed == world.nodes[0].log
    assert [node.high_watermark for node in world.nodes] == [2, 2, 2]


def test_a_power_cut_loses_what_is_not_flushed(world) -> None:
    node = world.nodes[0]
    node.append([9 * EPOCH])
    world.crash(node, power_cut=False)
    assert len(node.log) == 3
    node.flushed = 2
    node.log[2:] = [9 * EPOCH]
    for _ in range(20):  # where the cut is, is random
        world.crash(node, power_cut=True)
    assert len(node.log) in (2, 3)
    assert node.epochs.end_offset_for(9, len(node.log)) in ((9, 3), (-1, -1))


def test_a_broker_without_session_is_replaced_and_can_not_commit(world) -> None:
    first = world.nodes[world.partition.leader]
    del world.sessions[first.id]
    settle(world)
    assert world.partition.leader not in (first.id, -1)
    assert first.id not in world.partition.isr
    assert first.leader is None
    assert first.follower is not None


def test_epochs_must_rise(world) -> None:
    with pytest.raises(InvariantViolated, match="do not rise"):
        world.put_partition(world.partition)


def test_a_node_truncates_its_epochs_too() -> None:
    node = Node(0)
    node.append([1 * EPOCH, 1 * EPOCH + 1, 3 * EPOCH + 2])
    node.flushed = node.high_watermark = 3
    node.truncate(2)
    assert (node.log, node.flushed, node.high_watermark) == ([1 * EPOCH, 1 * EPOCH + 1], 2, 2)
    assert node.epochs.entries() == [(1, 0)]


def test_events_are_noted() -> None:
    lines: list[str] = []
    settle(ReplicationWorld(0, lines.append))
    assert lines[0] == "start 0: True"
    assert any(line.startswith("unfenced 2") for line in lines)
