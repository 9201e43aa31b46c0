from __future__ import annotations

import pytest

from kqueue.groups.streams import endpoints
from kqueue.groups.streams.endpoints import COMPUTED_MAX, endpoints_of
from kqueue.groups.streams.member import EndpointPartitions, MemberEndpoint
from kqueue.tests.groups.streams.applications import (
    COUNT,
    JOIN,
    beat,
    epoch_of,
    group_of,
    make_topics,
    new_world,
    start,
)

ONE, TWO = MemberEndpoint("one", 1), MemberEndpoint("two", 2)


def test_members_learn_who_reads_what() -> None:
    world = new_world(COUNT, group_streams_num_standby_replicas=1)
    beat(world, "m", topology=COUNT, endpoint=ONE)
    told = beat(world, "n", topology=COUNT, endpoint=TWO)
    assert told.endpoints is not None
    assert {each.endpoint for each in told.endpoints} == {ONE, TWO}
    again = beat(world, "n", epoch_of(world, "n"), endpoint_epoch=told.endpoint_epoch)
    assert (again.endpoint_epoch, again.endpoints) == (told.endpoint_epoch, None)
    moved = beat(world, "m", epoch_of(world, "m"), endpoint_epoch=told.endpoint_epoch)
    assert moved.endpoint_epoch == told.endpoint_epoch + 1
    assert moved.endpoints is not None
    (first,) = (each for each in moved.endpoints if each.endpoint == ONE)
    assert set(first.active) == {"t", "app-words"}
    assert set(first.standby) <= {"app-words"}


def test_a_topic_may_have_fewer_partitions_than_tasks() -> None:
    world = new_world(JOIN)
    beat(world, topology=JOIN, endpoint=ONE)
    beat(world, "m", 2)
    assert endpoints_of(group_of(world), world.topics) == [
        EndpointPartitions(ONE, {"t": [0, 1, 2, 3], "app-words": [0, 1, 2, 3], "u": [0, 1]}, {})
    ]


def test_a_group_that_is_not_ready_has_no_endpoints() -> None:
    world = new_world()
    joined = beat(world, topology=COUNT, endpoint=ONE)
    assert joined.endpoints == []
    make_topics(world, COUNT)
    assert beat(world, "m", joined.member_epoch).endpoints != []


def test_a_heartbeat_computes_a_part_of_many_endpoints() -> None:
    world = new_world()
    for number in range(COMPUTED_MAX + 100):
        beat(world, f"m{number}", endpoint=MemberEndpoint("h", number), endpoint_epoch=7)
    world.settle()
    group = group_of(world)
    group.endpoints.clear()
    first = beat(world, "m0", epoch_of(world, "m0"), endpoint_epoch=5)
    assert (first.endpoint_epoch, first.endpoints) == (5, None), "it asks again"
    second = beat(world, "m0", epoch_of(world, "m0"), endpoint_epoch=5)
    assert second.endpoint_epoch == group.endpoint_epoch
    assert len(second.endpoints or ()) == len(group.members)


def test_a_group_of_very_many_endpoints_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "ENDPOINTS_MAX", 10)
    world = new_world()
    for number in range(11):
        start(world, f"m{number}", endpoint=MemberEndpoint("h", number))
    assert beat(world, "m0", epoch_of(world, "m0"), endpoint_epoch=-1).endpoints == []
