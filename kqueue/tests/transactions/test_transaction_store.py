"""Memory is what the log says; limits of partitions; partitions that can't be read."""

from __future__ import annotations

import pytest

from kqueue.base.coordinators import coordinator_partition
from kqueue.base.errors import (
    CoordinatorLoadInProgress,
    MalformedMessage,
    NotCoordinator,
    PolicyViolation,
    StorageFailed,
)
from kqueue.base.sliced_task import run_to_end
from kqueue.tests.groups.support import HeldLog
from kqueue.tests.transactions.support import P0, P1, P2, World


def test_the_partitions_of_one_transaction_are_bounded() -> None:
    world = World({"kqueue.max.transaction.partitions": 2})
    producer = world.init()
    world.add(producer, P0, P1)
    world.add(producer, P1, P0)
    with pytest.raises(PolicyViolation, match=r"kqueue\.max\.transaction\.partitions"):
        world.add(producer, P2)


def test_the_partitions_of_all_transactions_are_bounded() -> None:
    world = World({"kqueue.max.transactions.partitions": 2})
    a, b = world.init("a"), world.init("b")
    world.add(a, P0, id="a")
    world.add(b, P0, id="b")
    for one in (world, world.restarted()):
        with pytest.raises(PolicyViolation, match=r"kqueue\.max\.transactions\.partitions"):
            one.add(b, P1, id="b")
    world.end(a, id="a")
    world.add(b, P1, id="b")
    world.end(b, id="b", commit=False)
    assert world.transactions._store._partitions_held == 0


def test_a_failed_change_does_not_count() -> None:
    world = World({"kqueue.max.transactions.partitions": 2})
    producer = world.init()
    world.log.broken = StorageFailed("disk")
    for _ in range(3):
        with pytest.raises(NotCoordinator):
            world.add(producer, P0, P1)
    world.log.broken = None
    world.add(producer, P0, P1)


def test_ids_of_a_partition_that_can_not_be_read_are_refused() -> None:
    world = World()
    by_partition = {world.transactions.partition_of(id): id for id in "abcdefgh"}
    assert coordinator_partition(by_partition[0], 3) == 0
    producer = world.init(by_partition[0])
    world.transactions.refuse(0, "damaged")
    world.init(by_partition[1])
    with pytest.raises(NotCoordinator, match="can't be read: damaged"):
        world.init(by_partition[0])
    with pytest.raises(NotCoordinator):
        world.add(producer, id=by_partition[0])
    with pytest.raises(NotCoordinator):
        world.end(producer, id=by_partition[0])
    with pytest.raises(NotCoordinator):
        world.state(by_partition[0])


def test_a_damaged_record_names_its_partition() -> None:
    world = World()
    with pytest.raises(MalformedMessage, match="partition 2 of the transactions topic"):
        run_to_end(world.transactions.load(2, [(b"\x00\x00", b"")]))
    run_to_end(world.transactions.load(2, [(b"\x00\x05later", b"kind of record")]))


def test_ids_of_a_partition_that_is_being_read_are_refused_until_it_is() -> None:
    world = World()
    world.init()
    partition = world.transactions.partition_of("tx")
    starting = World(log=HeldLog())
    starting.transactions.begin_loading(partition)
    load = starting.transactions.load(partition, world.log.partitions[partition])
    for _ in load:
        with pytest.raises(CoordinatorLoadInProgress):
            starting.init()
        with pytest.raises(CoordinatorLoadInProgress):
            starting.transactions.all()
    assert starting.init() == (1000, 1)
