"""Partitions of the log that leave to another broker and come back, in each state of each type of
group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kqueue.base.coordinators import coordinator_partition
from kqueue.base.errors import CoordinatorLoadInProgress, KqueueError, NotCoordinator, NotLeader
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import run_to_end
from kqueue.groups.log.group_log import EndMarker
from kqueue.groups.share.manager import Partitions
from kqueue.groups.share.member import ShareHeartbeat
from kqueue.tests.groups.consumer.test_group_conversion import classic_pair, protocols, together
from kqueue.tests.groups.modern.test_group_machine import described
from kqueue.tests.groups.streams.applications import MAP, start
from kqueue.tests.groups.support import (
    PARTITIONS,
    World,
    commit_simple,
    commit_transactional,
    committed_offsets,
    group_ids,
    is_pending,
)

G = coordinator_partition("g", PARTITIONS)
OTHER = next(name for name in "abcdef" if coordinator_partition(name, PARTITIONS) != G)


class NoStates:
    """A share coordinator that never answers, unless `error` is set."""

    def __init__(self, error: KqueueError | None = None) -> None:
        self.error = error

    def initialize(
        self, group_id: str, partitions: Partitions, state_epoch: int, done: Callable[[KqueueError | None], None]
    ) -> None:
        if self.error is not None:
            done(self.error)

    def delete_group(self, group_id: str, partitions: Partitions) -> None:
        pass


def unload(world: World, partition: int = G) -> None:
    run_to_end(world.groups.unload(partition))


def load(world: World, partition: int = G) -> None:
    world.groups.begin_loading(partition)
    run_to_end(world.groups.load(partition, iter(world.log.partitions[partition])))


def pending_timers(world: World) -> int:
    """Timers without those of the upkeep, which always runs."""
    world.settle()
    return sum(timer.pending for _, _, timer in world.timers._heap) - 1


def share_beat(world: World, member_id: str = "m", epoch: int = 0, **fields: Any) -> Promise[Any]:
    given = {"topics": ["t"], "rack_id": None, "client_id": "client", "client_host": "/h", **fields}
    return world.groups.share.heartbeat(ShareHeartbeat("g", member_id, epoch, **given))  # type: ignore[arg-type]


def waiting_join(world: World) -> Promise[Any]:
    world.stable(2)
    return world.join()


def waiting_sync(world: World) -> Promise[Any]:
    joined = world.join()
    other = world.join()
    world.settle()
    follower = next(one.result() for one in (joined, other) if not one.result().members)
    return world.sync(follower)


def assignment_under_way(world: World) -> Promise[Any]:
    joined = world.join()
    world.settle()
    world.log.hold = True
    return world.sync(joined.result(), {joined.result().member_id: b"0"})


def first_record_under_way(world: World) -> Promise[Any]:
    world.log.hold = True
    return world.join()


def static_replacement_under_way(world: World) -> Promise[Any]:
    joined = world.join(instance_id="i")
    world.settle()
    world.groups.sync("g", 1, joined.result().member_id, "i", {joined.result().member_id: b"i"})
    world.log.hold = True
    return world.join(instance_id="i")


def pending_member(world: World) -> None:
    world.enter()


def classic_deletion_under_way(world: World) -> Promise[Any]:
    commit_simple(world)
    world.log.hold = True
    return world.groups.delete("g")


def commit_under_way(world: World) -> Promise[Any]:
    commit_simple(world)
    world.log.hold = True
    return commit_simple(world, 9, partition=1)  # type: ignore[no-any-return]


def pending_offset(world: World) -> None:
    commit_transactional(world, 5)
    commit_simple(world, 4, partition=1)


def transactional_commit_under_way(world: World) -> Promise[Any]:
    world.log.hold = True
    return commit_transactional(world, 5)  # type: ignore[no-any-return]


def consumer_members(world: World) -> None:
    world.consume("m", topics=["t", "u"])
    world.consume("n", regex="^t$", topics=[])


def consumer_first_under_way(world: World) -> Promise[Any]:
    world.log.hold = True
    return world.beat_consumer("m")


def consumer_steps_wait(world: World) -> Promise[Any]:
    world.consume("m")
    world.log.hold = True
    world.beat_consumer("n")
    for number in range(700):
        world.beat_consumer(f"o{number}")
    return world.beat_consumer("p")


def conversion_under_way(world: World) -> Promise[Any]:
    classic_pair(world)
    world.log.hold = True
    return world.beat_consumer("m")


def classic_member_told_to_rejoin(world: World) -> Promise[Any]:
    together(world)
    world.log.hold = True
    return world.join(protocols=protocols())


def consumer_revokes(world: World) -> None:
    world.consume("m")
    epoch = world.consumer_group().members["m"].current.epoch
    world.consume("n")
    world.advance(1000)
    world.consume("m", epoch)
    assert world.consumer_group().revocations


def streams_members(world: World) -> None:
    start(world, "m", topology=MAP)


def streams_under_way(world: World) -> Promise[Any]:
    start(world, "m", topology=MAP)
    world.log.hold = True
    start(world, "n", topology=MAP)
    return start(world, "o", topology=MAP)


def streams_first_under_way(world: World) -> Promise[Any]:
    world.log.hold = True
    return start(world, "m", topology=MAP)


def share_members(world: World) -> None:
    share_beat(world)


def share_states_refused(world: World) -> None:
    world.groups.share.states = NoStates(NotCoordinator("elsewhere"))
    share_beat(world)


def share_under_way(world: World) -> Promise[Any]:
    share_beat(world)
    world.log.hold = True
    share_beat(world, "n")
    return share_beat(world, "o")


SITUATIONS = [
    waiting_join, waiting_sync, assignment_under_way, first_record_under_way, static_replacement_under_way,
    pending_member, classic_deletion_under_way, commit_under_way, pending_offset, transactional_commit_under_way,
    consumer_members, consumer_first_under_way, consumer_steps_wait, conversion_under_way,
    classic_member_told_to_rejoin, consumer_revokes, streams_members, streams_under_way, streams_first_under_way,
    share_members, share_states_refused, share_under_way,
]  # fmt: skip


@pytest.fixture
def world() -> World:
    world = World()
    world.groups.share.states = NoStates()
    return world


@pytest.mark.parametrize("becomes", ["durable", "lost", "undecided"])
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
def test_unloaded_partition_leaves_nothing_behind(
    world: World, situation: Callable[[World], Any], becomes: str
) -> None:
    promise = situation(world)
    assert promise is None or not promise.done
    work = world.groups.unload(G)
    with pytest.raises(NotCoordinator):
        world.join()
    run_to_end(work)
    if promise is not None:
        assert type(promise.error) is NotCoordinator
        assert promise in world.woken
    check_empty(world)
    former = world.log.partitions[G][:]
    if becomes == "durable":
        world.log.release()
    elif becomes == "lost":
        world.log.fail(NotLeader("moved"))
        assert world.log.partitions[G] == former
    check_empty(world)
    world.log.hold = False
    load(world)
    again = World(log=world.log, clock=world.clock)
    assert group_ids(world) == group_ids(again)
    assert committed_offsets(world) == committed_offsets(again)
    assert described(world.groups.consumer.find("g")) == described(again.groups.consumer.find("g"))
    limits, same = world.groups.limits, again.groups.limits
    assert (limits.member_bytes, limits.offset_bytes) == (same.member_bytes, same.offset_bytes)
    unload(world)
    check_empty(world)


def check_empty(world: World) -> None:
    """Nothing of the one partition that had groups is left."""
    groups = world.groups
    assert not groups._groups
    assert not groups._groups._keys
    assert (groups.limits.member_bytes, groups.limits.offset_bytes) == (0, 0)
    assert not groups.limits._pending
    assert not groups._offsets.store._committed
    assert not groups._offsets.store._under_way
    assert not groups._offsets.store.pending._by_group
    assert groups._writer.write_count == 0
    assert pending_timers(world) == 0


def test_steps_that_wait_do_not_run_any_more(world: World) -> None:
    world.consume("m")
    world.log.hold = True
    world.beat_consumer("n")
    ran: list[object] = []
    promise = world.groups.consumer._queue.submit("g", ran.append)
    run_to_end(world.groups.unload(G))
    assert type(promise.error) is NotCoordinator
    assert not ran


def test_groups_of_other_partitions_stay(world: World) -> None:
    commit_simple(world)
    commit_simple(world, 8, group_id=OTHER)
    world.stable(group_id=OTHER)
    unload(world)
    assert group_ids(world) == {OTHER}, "a list has what is here"
    assert committed_offsets(world, OTHER) == {("t", 0): 8}
    assert world.state(OTHER) == "Stable"
    with pytest.raises(NotCoordinator, match="not the coordinator of group 'g'"):
        world.groups.offsets("g")


def test_nothing_is_served_before_it_was_loaded_where_there_are_other_brokers() -> None:
    former = World()
    commit_simple(former, 3)
    world = World()
    world.log.partitions = former.log.partitions
    world.groups.require_load()
    for name in ("g", OTHER):
        with pytest.raises(NotCoordinator):
            world.join(name)
        with pytest.raises(NotCoordinator):
            world.groups.consumer.describe(name)
    world.groups.begin_loading(G)
    with pytest.raises(CoordinatorLoadInProgress):
        world.join()
    with pytest.raises(CoordinatorLoadInProgress):
        world.groups.groups()
    load(world)
    assert committed_offsets(world) == {("t", 0): 3}
    assert group_ids(world) == {"g"}
    with pytest.raises(NotCoordinator):
        world.join(OTHER)
    unload(world)
    assert group_ids(world) == set()


@pytest.mark.parametrize("steps", range(1, 24))
def test_a_load_that_is_broken_off_leaves_nothing_behind(world: World, steps: int) -> None:
    commit_simple(world, 3)
    world.stable(2)
    commit_transactional(world, 5)
    for name in ("c1", "c2", "c3", "c4", "c5"):
        if coordinator_partition(name, PARTITIONS) == G:
            world.consume("m", group_id=name)
    expected = committed_offsets(world)
    unload(world)
    world.groups.begin_loading(G)
    broken_off = world.groups.load(G, iter(world.log.partitions[G]))
    for _ in range(steps):
        if next(broken_off, 0) == 0:
            break
    world.groups.complete_transaction(7, G, True)
    broken_off.close()
    unload(world)
    check_empty(world)
    load(world)
    assert committed_offsets(world) == expected, "the marker is not in the log"
    assert is_pending(world.groups, "g", "t", 0)


def test_a_marker_of_a_transaction_counts_only_where_the_partition_is_led(world: World) -> None:
    commit_transactional(world, 5)
    unload(world)
    world.groups.complete_transaction(7, G, True)
    world.log.append_marker(G, EndMarker(7, False), lambda error: None)
    load(world)
    assert committed_offsets(world) == {}


def test_the_upkeep_leaves_alone_what_is_loaded_in_part() -> None:
    world = World(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1000)
    commit_simple(world, 3)
    unload(world)
    world.groups.begin_loading(G)
    loading = world.groups.load(G, iter(world.log.partitions[G]))
    next(loading)
    world.advance(300_000)
    assert len(world.log.partitions[G]) == 1
    for _ in loading:
        pass
    world.advance(2000)
    assert group_ids(world) == set()


def test_a_member_of_a_group_that_came_back_has_its_whole_session(world: World) -> None:
    world.consume("m")
    world.advance(40_000)
    unload(world)
    load(world)
    world.advance(40_000)
    assert not world.consumer_group().is_empty
    world.advance(5_000)
    assert world.consumer_group().is_empty
