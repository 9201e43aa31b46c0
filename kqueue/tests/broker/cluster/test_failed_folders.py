"""A broker some of whose logs can't be opened serves the others."""

from __future__ import annotations

import pytest

from kqueue.base.coordinators import coordinator_partition
from kqueue.base.errors import KqueueError, NotCoordinator, StorageFailed
from kqueue.broker.topics.topics import OFFSETS_TOPIC
from kqueue.groups.offsets.offset_manager import OffsetToCommit
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.replicas.test_partition import append, values
from kqueue.tests.tables import for_each


def stopped() -> Simulation:
    """Two topics with a record each, and two groups whose records are in different partitions."""
    sim = Simulation({"offsets.topic.num.partitions": 2}, storage=FaultyStorage())
    for name in ("a", "b"):
        append(sim.topic(name).partition(0), name.encode())
    for group in ("g0", "g1"):
        sim.result(sim.broker.coordinators.groups.commit(group, -1, "", None, [OffsetToCommit("a", 0, 1, -1, "")]))
    sim.settle()
    assert {coordinator_partition(group, 2) for group in ("g0", "g1")} == {0, 1}
    return sim


def restart_with(sim: Simulation, folder: str, *, clean: bool) -> Simulation:
    """Start again, where nothing can be made in `folder`, though an index is missing there."""
    storage = sim.storage
    assert isinstance(storage, FaultyStorage)
    if clean:
        sim.stop()
    storage.locks.clear()
    storage.remove(f"{folder}/00000000000000000000.index")
    storage.fail("create", lambda path: path.startswith(f"{folder}/"))
    return sim.restarted()


@for_each("clean", [True, False])
def test_a_log_that_cannot_be_opened_does_not_affect_others(clean: bool) -> None:
    """S5.3"""
    sim = restart_with(stopped(), "a-0", clean=clean)
    assert values(sim.broker.topics.partition("b", 0)) == [b"b"]
    with pytest.raises(StorageFailed, match="can't create a-0/"):
        values(sim.broker.topics.partition("a", 0))
    append(sim.broker.topics.partition("b", 0), b"more")
    sim.settle()
    assert values(sim.broker.topics.partition("b", 0)) == [b"b", b"more"]


def test_groups_whose_records_cant_be_read_are_refused_and_not_taken_for_new() -> None:
    offline = coordinator_partition("g0", 2)
    sim = restart_with(stopped(), f"{OFFSETS_TOPIC}-{offline}", clean=True)
    groups = sim.broker.coordinators.groups
    assert groups.offsets("g1")["a"][0].offset == 1
    for ask in (
        lambda: groups.offsets("g0"),
        lambda: groups.commit("g0", -1, "", None, []),
        lambda: groups.describe("g0"),
        lambda: groups.delete("g0"),
        lambda: groups.leave("g0", []),
    ):
        with pytest.raises(NotCoordinator, match="group 'g0' can't be read"):
            ask()


def test_a_topic_is_made_although_no_folder_can_be() -> None:
    sim = stopped()
    storage = sim.storage
    assert isinstance(storage, FaultyStorage)
    storage.fail("make_folder")
    partition = sim.topic("c").partition(0)
    with pytest.raises(KqueueError):
        append(partition, b"x")
    storage.mend()
    append(partition, b"y")
    sim.settle()
    assert values(partition) == [b"y"]
