"""Helpers of the tests of streams groups: a word count, and members of its group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kqueue.base.promise import Promise
from kqueue.groups.modern.assignment import Owned
from kqueue.groups.streams.group import StreamsGroup
from kqueue.groups.streams.member import (
    StreamsHeartbeat,
    StreamsHeartbeatResult,
    SubtopologyRole,
    TaskRole,
    tasks_of,
)
from kqueue.groups.streams.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from kqueue.tests.groups.support import World

WORDS = InternalTopic("app-words", configs=(("cleanup.policy", "delete"),))
COUNTS = InternalTopic("app-counts", configs=(("cleanup.policy", "compact"),))
COUNT = Topology(
    0,
    (
        Subtopology("0", ("t",), sink_topics=("app-words",)),
        Subtopology("1", repartition_topics=(WORDS,), changelog_topics=(COUNTS,)),
    ),
)
"""Reads ``t``, of four partitions, and counts: four tasks of each subtopology."""
MAP = Topology(0, (Subtopology("0", ("t",)),))
"""Four tasks without state or internal topics."""
JOIN = Topology(
    0,
    (
        Subtopology("0", ("t",), repartition_topics=(WORDS,), copartition_groups=(CopartitionGroup((0,), (0,)),)),
        Subtopology("1", ("u",), sink_topics=("app-words",)),
    ),
)
"""Joins ``t`` with what comes from ``u``."""
Tasks = Mapping[str, set[int]]
A0 = SubtopologyRole(TaskRole.ACTIVE, "0")
A1 = SubtopologyRole(TaskRole.ACTIVE, "1")
S1 = SubtopologyRole(TaskRole.STANDBY, "1")


def new_world(topology: Topology = MAP, **settings: Any) -> World:
    """A coordinator that assigns at once, with the internal topics of a topology."""
    world = World(
        **{
            "group_streams_initial_rebalance_delay_ms": 0,
            "group_streams_assignment_interval_ms": 0,
            **settings,
        }
    )
    make_topics(world, topology)
    return world


def make_topics(world: World, topology: Topology) -> None:
    for name in topology.required_topics():
        if world.topics.find(name) is None:
            world.topics.put(name, 4)


def start(
    world: World,
    member_id: str = "m",
    epoch: int = 0,
    *,
    topology: Topology = MAP,
    active: Tasks | None = None,
    standby: Tasks | None = None,
    **fields: Any,
) -> Promise[StreamsHeartbeatResult]:
    """A heartbeat. One that joins sends all fields, in a process of its own."""
    given: dict[str, Any] = {"group_id": "g", "client_id": "client", "client_host": "/h"}
    if epoch == 0:
        given |= {"topology": topology, "rebalance_timeout_ms": 60_000, "process_id": f"p-{member_id}"}
        active, standby = active or {}, standby or {}
    if active is not None or standby is not None:
        given["active"] = {one: frozenset(tasks) for one, tasks in (active or {}).items()}
        given["standby"] = {one: frozenset(tasks) for one, tasks in (standby or {}).items()}
        given["warmup"] = {}
    return world.groups.streams.heartbeat(
        StreamsHeartbeat(member_id=member_id, member_epoch=epoch, **{**given, **fields})
    )


def beat(world: World, member_id: str = "m", epoch: int = 0, **fields: Any) -> StreamsHeartbeatResult:
    """The answer to `start`."""
    return start(world, member_id, epoch, **fields).result()


def active(assigned: Owned[SubtopologyRole] | None) -> dict[str, list[int]] | None:
    return None if assigned is None else tasks_of(assigned, TaskRole.ACTIVE)


def group_of(world: World, group_id: str = "g") -> StreamsGroup:
    group = world.groups.streams.find(group_id)
    assert group is not None
    return group


def epoch_of(world: World, member_id: str) -> int:
    return group_of(world).members[member_id].current.epoch


def sync(world: World, *member_ids: str, rounds: int = 6) -> None:
    """Let members own what they are assigned, until all have their target."""
    for _ in range(rounds):
        for member_id in member_ids:
            current = group_of(world).members[member_id].current
            owned: dict[str, Any] = {
                name: {one: set(tasks) for one, tasks in tasks_of(current.assigned, role).items()}
                for name, role in (("active", TaskRole.ACTIVE), ("standby", TaskRole.STANDBY))
            }
            beat(world, member_id, current.epoch, **owned)
