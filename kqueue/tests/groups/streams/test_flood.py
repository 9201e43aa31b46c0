"""Members, topologies and tasks without end: they are refused, and another group goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kqueue.base.errors import GroupMaxSizeReached, KqueueError
from kqueue.groups.streams.assignments import compute_target
from kqueue.groups.streams.member import MemberEndpoint
from kqueue.groups.streams.topology import InternalTopic, Subtopology, Topology
from kqueue.tests.api.test_costliest_requests import CallCounter
from kqueue.tests.groups.streams.applications import COUNT, active, beat, epoch_of, group_of, new_world, start
from kqueue.tests.groups.support import World
from kqueue.tests.thorough import corners

GROUP_BYTES = 100_000
ALL_BYTES = 250_000
CALLS_MAX = 60_000
"""Of one heartbeat of the flood: about 10 ms."""
Flood = Callable[[int], dict[str, Any]]


def many_members(number: int) -> dict[str, Any]:
    return {"member_id": f"m{number}", "process_id": "p"}


def long_names(number: int) -> dict[str, Any]:
    return {"member_id": f"{number}".rjust(1000, "x"), "rack_id": "r" * 1000, "tags": (("k" * 500, "v" * 500),)}


def many_endpoints(number: int) -> dict[str, Any]:
    return {"member_id": f"m{number}", "endpoint": MemberEndpoint("h" * 100, number)}


def many_groups(number: int) -> dict[str, Any]:
    return {"member_id": "m", "group_id": f"g{number}"}


def many_subtopologies(number: int) -> dict[str, Any]:
    many = Topology(0, tuple(Subtopology(str(index), ("t",)) for index in range(10 * number)))
    return {"member_id": "m", "group_id": f"g{number}", "topology": many}


def many_internal_topics(number: int) -> dict[str, Any]:
    topics = tuple(InternalTopic(f"c{number}-{index}") for index in range(10 * number))
    return {
        "member_id": "m",
        "group_id": f"g{number}",
        "topology": Topology(0, (Subtopology("0", ("t",), changelog_topics=topics),)),
    }


def endless_tasks(number: int) -> dict[str, Any]:
    wide = InternalTopic("r", 2**31 - 1)
    topology = Topology(0, (Subtopology("0", ("t",), repartition_topics=(wide,)),))
    return {"member_id": "m", "group_id": f"g{number}", "topology": topology}


@pytest.mark.long
@pytest.mark.parametrize(
    "flood",
    corners(
        [
            many_members,
            long_names,
            many_endpoints,
            many_groups,
            many_subtopologies,
            many_internal_topics,
            endless_tasks,
        ],
        many_members,
        endless_tasks,
    ),
)
def test_a_flood_is_refused_and_leaves_another_group_alone(flood: Flood, caplog: pytest.LogCaptureFixture) -> None:
    world = new_world(
        kqueue_max_group_bytes=GROUP_BYTES, kqueue_max_groups_bytes=ALL_BYTES, kqueue_max_group_tasks=1000
    )
    world.topics.put("t", 50)
    beat(world, "good", group_id="good")
    counter, refused = CallCounter(), 0
    for number in range(1, 450):
        with counter:
            error = _error(world, flood(number))
        assert counter.count <= CALLS_MAX, f"heartbeat {number} takes {counter.count} calls"
        assert error is None or isinstance(error, GroupMaxSizeReached)
        refused += error is not None
    assert refused
    assert world.groups.limits.member_bytes <= ALL_BYTES
    assert len(caplog.records) <= 3, "a line per minute and setting"
    world.advance(5000)
    assert active(beat(world, "good", 0, group_id="good").assigned) == {"0": list(range(50))}
    assert described(world) == described(world.restarted())


def _error(world: World, fields: dict[str, Any]) -> KqueueError | None:
    try:
        return start(world, **fields).error
    except KqueueError as error:
        return error


def described(world: World) -> dict[str, Any]:
    groups = {one.group_id: group_of(world, one.group_id) for one in world.groups.groups()}
    return {group_id: (group.epoch, group.members, group.topology) for group_id, group in groups.items()}


@pytest.mark.parametrize("members", corners([1000, 200], 200))
def test_no_step_of_a_large_assignment_holds_the_loop(members: int) -> None:
    """Five tasks with two copies each for a member: with 1000 members each step ends within about a
    millisecond, but for the first one, which copies what the group is.
    """
    world = new_world(COUNT, kqueue_max_group_bytes=10_000_000)
    for number in range(members):
        start(world, f"m{number}", topology=COUNT, process_id=f"p{number % (members // 10)}")
    for name in COUNT.required_topics():
        world.topics.put(name, members * 5 // 2)
    beat(world, "m0", epoch_of(world, "m0"))
    counter, costs = CallCounter(), []
    work = compute_target(group_of(world), 2)
    while True:
        with counter:
            ended = next(work, work) is work
        costs.append(counter.count)
        if ended:
            break
    assert costs[0] <= CALLS_MAX * members // 1000
    assert max(costs[1:]) <= 2 * CALLS_MAX // 10 * members // 1000
    assert len(costs) > 5 * members
