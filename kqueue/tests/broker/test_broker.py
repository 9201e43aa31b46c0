from __future__ import annotations

import pytest

from kqueue.base.errors import FolderInUse
from kqueue.testing.simulation import Simulation


def kill(sim: Simulation) -> None:
    """End it as a killed process ends: locks are released, nothing else is done."""
    for folder in sim.logs._folders:
        folder._lock.release()


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
