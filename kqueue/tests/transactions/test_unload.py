"""Partitions of `__transaction_state` that leave to another broker and come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kqueue.base.coordinators import coordinator_partition
from kqueue.base.errors import CoordinatorLoadInProgress, NotCoordinator, NotLeader
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import run_to_end
from kqueue.tests.tables import for_each
from kqueue.tests.transactions.support import P0, P1, World, result
from kqueue.transactions.transaction_state import TransactionState

TX = coordinator_partition("tx", 3)
OTHER = next(name for name in "abcdef" if coordinator_partition(name, 3) != TX)


def load(world: World) -> None:
    world.transactions.begin_loading(TX)
    run_to_end(world.transactions.load(TX, iter(world.log.partitions[TX])))  # type: ignore[arg-type]


def pending_timers(world: World) -> int:
    """Timers without the two of the upkeep."""
    world.settle()
    return sum(timer.pending for _, _, timer in world.timers._heap) - 2


def init_under_way(world: World) -> Promise[Any]:
    world.log.hold = True
    return world.start_init()


def id_under_way(world: World) -> Promise[Any]:
    world.ids.hold = True
    return world.start_init()


def next_init_under_way(world: World) -> Promise[Any]:
    world.init()
    return init_under_way(world)


def partitions_under_way(world: World) -> Promise[Any]:
    producer = world.init()
    world.log.hold = True
    return world.transactions.add_partitions("tx", *producer, [P0, P1], transaction_version=2)


def decision_under_way(world: World) -> Promise[Any]:
    producer = world.init()
    world.add(producer, P0)
    world.log.hold = True
    return world.transactions.end("tx", *producer, True, transaction_version=2)


def check_empty(world: World) -> None:
    store = world.transactions._store
    assert len(store) == 0
    assert not store.ongoing()
    assert store._partitions_held == 0
    assert store.partitions.write_count == 0
    assert not world.transactions._completer._running
    assert pending_timers(world) == 0


@for_each("is_durable", [True, False])
@for_each(
    "situation",
    [init_under_way, id_under_way, next_init_under_way, partitions_under_way, decision_under_way],
)
def test_waiting_requests_fail_on_unload(situation: Callable[[World], Promise[Any]], is_durable: bool) -> None:
    world = World()
    promise = situation(world)
    assert not promise.done
    run_to_end(world.transactions.unload(TX))
    world.ids.release()
    assert type(promise.error) is NotCoordinator
    assert promise in world.woken
    check_empty(world)
    if is_durable:
        world.log.release()
    else:
        world.log.fail(NotLeader("moved"))
    check_empty(world)
    world.log.hold = False
    load(world)
    world.settle()
    again = world.restarted()
    again.settle()
    assert [one.metadata for one in world.transactions._store] == [one.metadata for one in again.transactions._store]
    assert world.transactions._store._partitions_held == again.transactions._store._partitions_held


@for_each("last_record", [True, False])
def test_a_decision_in_the_log_is_carried_out_by_the_next_coordinator(last_record: bool) -> None:
    world = World()
    producer = world.init()
    world.add(producer, P0, P1)
    world.markers.hold = True
    promise = world.transactions.end("tx", *producer, True, transaction_version=2)
    assert not promise.done
    if last_record:
        world.log.hold = True
        world.markers.release()
    run_to_end(world.transactions.unload(TX))
    assert promise.result().epoch == producer.epoch + 1, "the decision is in the log"
    check_empty(world)
    world.markers.broken = {P0: NotLeader("moved")}
    world.markers.release()
    if last_record:
        world.log.fail(NotLeader("moved"))
        world.log.hold = False
    check_empty(world)
    assert len(world.log.partitions[TX]) == 3, "nothing is written any more"
    world.markers.hold, world.markers.broken = False, {}
    world.markers.written.clear()
    load(world)
    assert not world.markers.written, "in a later turn"
    world.settle()
    assert {partition for partition, commit, _ in world.markers.ends() if commit} == {P0, P1}
    assert world.transactions.describe("tx").state is TransactionState.COMPLETE_COMMIT


def test_a_retry_of_markers_ends_when_the_partition_leaves() -> None:
    world = World()
    producer = world.init()
    world.add(producer, P0)
    world.markers.broken = {P0: NotLeader("moved")}
    result(world.transactions.end("tx", *producer, True, transaction_version=2))
    assert pending_timers(world) > 0
    run_to_end(world.transactions.unload(TX))
    check_empty(world)


def test_a_partition_that_leaves_before_its_completions_begin_completes_nothing() -> None:
    world = World()
    producer = world.init()
    world.add(producer, P0)
    world.markers.hold = True
    world.transactions.end("tx", *producer, True, transaction_version=2)
    again = world.restarted()
    run_to_end(again.transactions.unload(TX))
    again.settle()
    assert not again.markers.written
    check_empty(again)


def test_ids_of_other_partitions_stay() -> None:
    world = World()
    world.init()
    other = world.init(OTHER)
    work = world.transactions.unload(TX)
    with pytest.raises(NotCoordinator, match="not the coordinator of transactional id 'tx'"):
        world.init()
    run_to_end(work)
    assert [one.transactional_id for one in world.transactions.all()] == [OTHER]
    world.add(other, P0, id=OTHER)
    world.transactions.begin_loading(TX)
    with pytest.raises(CoordinatorLoadInProgress):
        world.init()
    with pytest.raises(CoordinatorLoadInProgress):
        world.transactions.all()
    load(world)
    assert world.init().epoch == 1


def test_nothing_is_served_before_it_was_loaded_where_there_are_other_brokers() -> None:
    world = World()
    world.transactions.require_load()
    for id in ("tx", OTHER):
        with pytest.raises(NotCoordinator):
            world.init(id)
    load(world)
    world.init()
    with pytest.raises(NotCoordinator):
        world.init(OTHER)


@for_each("steps", range(1, 9))
def test_a_load_that_is_broken_off_leaves_nothing_behind(steps: int) -> None:
    world = World()
    producer = world.init()
    world.add(producer, P0, P1)
    run_to_end(world.transactions.unload(TX))
    world.transactions.begin_loading(TX)
    broken_off = world.transactions.load(TX, iter(world.log.partitions[TX]))  # type: ignore[arg-type]
    for _ in range(steps):
        next(broken_off, None)
    broken_off.close()
    run_to_end(world.transactions.unload(TX))
    check_empty(world)
    load(world)
    world.add(producer, P0)


def test_an_id_that_left_does_not_expire_here() -> None:
    settings: dict[str, object] = {
        "transactional.id.expiration.ms": 1000,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 100_000,
    }
    world = World(settings)
    world.init()
    world.clock.advance(2000)
    removal = world.transactions._upkeep.remove_expired()
    next(removal)
    run_to_end(world.transactions.unload(TX))
    load(world)
    for _ in removal:
        pass
    assert [value for _, value in world.log.records() if value is None] == []
    assert len(world.transactions._store) == 1
