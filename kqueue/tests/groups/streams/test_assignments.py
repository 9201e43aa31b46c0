from __future__ import annotations

import pytest

from kqueue.base.errors import GroupMaxSizeReached
from kqueue.groups.streams.member import StatusCode
from kqueue.groups.streams.topology import InternalTopic, Subtopology, Topology
from kqueue.tests.groups.streams.applications import (
    COUNT,
    MAP,
    S1,
    active,
    beat,
    epoch_of,
    group_of,
    make_topics,
    new_world,
    sync,
)


def test_the_first_assignment_waits_for_more_members() -> None:
    world = new_world(group_streams_initial_rebalance_delay_ms=3000)
    first = beat(world, "m")
    assert [status.code for status in first.statuses] == [StatusCode.ASSIGNMENT_DELAYED]
    assert first.statuses[0].detail == "Assignment delayed due to the configured initial rebalance delay."
    assert (first.member_epoch, active(first.assigned)) == (1, {})
    world.advance(1000)
    beat(world, "n")
    world.advance(1999)
    assert group_of(world).target_epoch == 1
    world.advance(1)
    assert group_of(world).target_epoch == group_of(world).epoch == 3
    assert active(beat(world, "m", 1).assigned) == {"0": [0, 2]}
    assert active(beat(world, "n", 1).assigned) == {"0": [1, 3]}
    sync(world, "m", "n")
    assert beat(world, "o").statuses == (), "later members do not wait"


def test_assignments_have_an_interval() -> None:
    world = new_world(group_streams_assignment_interval_ms=1000)
    beat(world, "m")
    delayed = beat(world, "n")
    assert [status.code for status in delayed.statuses] == [StatusCode.ASSIGNMENT_DELAYED]
    assert group_of(world).state.value == "Assigning"
    world.advance(1000)
    assert beat(world, "n", delayed.member_epoch).statuses == ()
    assert group_of(world).target_epoch == 3


def test_settings_of_a_group_change_its_assignment() -> None:
    world = new_world(COUNT)
    beat(world, "m", topology=COUNT)
    beat(world, "n", topology=COUNT)
    sync(world, "m", "n")
    epoch = group_of(world).epoch
    world.settings["g"] = {"streams.num.standby.replicas": 7, "streams.heartbeat.interval.ms": 6000}
    told = beat(world, "m", epoch_of(world, "m"))
    assert told.heartbeat_interval_ms == 6000
    assert group_of(world).epoch == epoch + 1
    assert group_of(world).assignment_configs == (("num.standby.replicas", "2"),)
    assert S1 in group_of(world).target_of("m")


def test_new_partitions_of_a_topic_are_new_tasks() -> None:
    world = new_world()
    beat(world)
    world.topics.put("t", 6)
    assert active(beat(world, "m", 2).assigned) == {"0": [0, 1, 2, 3, 4, 5]}
    world.topics.put("other", 1)
    epoch = group_of(world).epoch
    beat(world, "m", epoch_of(world, "m"))
    assert group_of(world).epoch == epoch


def test_a_restarted_broker_looks_at_the_topics_again() -> None:
    world = new_world(COUNT)
    beat(world, topology=COUNT)
    again = world.restarted(group_streams_assignment_interval_ms=0)
    assert group_of(again).configured is None
    assert group_of(again).state.value == "Stable"
    assert beat(again, "m", 2).member_epoch == 2
    assert group_of(again).epoch == 2


def test_a_large_group_is_assigned_beside_other_requests() -> None:
    world = new_world()
    world.topics.put("t", 3000)
    joined = beat(world)
    assert active(joined.assigned) == {}
    world.settle()
    assert group_of(world).target_epoch == 2
    assert active(beat(world, "m", joined.member_epoch).assigned) == {"0": list(range(3000))}


def test_tasks_are_bounded() -> None:
    world = new_world(kqueue_max_group_tasks=8)
    wide = Topology(0, (Subtopology("0", ("t",)), Subtopology("1", repartition_topics=(InternalTopic("r", 5),))))
    with pytest.raises(GroupMaxSizeReached, match=r"kqueue.max.group.tasks"):
        beat(world, topology=wide)
    long = Topology(0, tuple(Subtopology(str(number), ("t",)) for number in range(5)))
    with pytest.raises(GroupMaxSizeReached, match=r"names 10 topics"):
        beat(world, topology=long)
    assert world.groups.streams.find("g") is None
    make_topics(world, MAP)
    beat(world)
