from __future__ import annotations

from typing import Any

import pytest

from kqueue.base import errors
from kqueue.base.errors import KqueueError
from kqueue.groups import errors as group_errors
from kqueue.groups.classic.member import LeavingMember
from kqueue.groups.log.group_log import TransactionalProducer
from kqueue.groups.offsets.offset_manager import OffsetToCommit
from kqueue.groups.streams.errors import StreamsInvalidTopology
from kqueue.groups.streams.member import StatusCode
from kqueue.groups.streams.topology import InternalTopic, Subtopology, Topology
from kqueue.tests.groups.streams.applications import (
    COUNT,
    MAP,
    active,
    beat,
    epoch_of,
    group_of,
    new_world,
    start,
    sync,
)
from kqueue.tests.groups.support import World, committed_offsets
from kqueue.tests.tables import for_each


def test_a_member_gets_all_tasks_and_leaves() -> None:
    world = new_world()
    joined = beat(world)
    assert (joined.member_id, joined.member_epoch, joined.heartbeat_interval_ms) == ("m", 2, 5000)
    assert active(joined.assigned) == {"0": [0, 1, 2, 3]}
    assert joined.statuses == ()
    assert beat(world, "m", 2).assigned is None
    assert group_of(world).state.value == "Stable"
    assert beat(world, "m", -1).member_epoch == -1
    assert group_of(world).state.value == "Empty"


def test_a_task_has_one_member_while_it_moves() -> None:
    world = new_world()
    beat(world, "m")
    assert active(beat(world, "n").assigned) == {}
    revoked = beat(world, "m", 2)
    assert active(revoked.assigned) == {"0": [0, 1]}
    assert revoked.member_epoch == 2
    assert beat(world, "n", 3).assigned is None
    assert group_of(world).state.value == "Reconciling"
    assert beat(world, "m", 2, active={"0": {0, 1}}, standby={}).member_epoch == 3
    assert active(beat(world, "n", 3).assigned) == {"0": [2, 3]}
    assert group_of(world).state.value == "Stable"


def test_a_group_waits_for_its_topics() -> None:
    world = new_world()
    joined = beat(world, topology=COUNT)
    assert [status.code for status in joined.statuses] == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert {topic.name: topic.partition_count for topic in joined.missing} == {"app-words": 4, "app-counts": 4}
    assert active(joined.assigned) == {}
    assert group_of(world).state.value == "NotReady"
    for topic in joined.missing:
        world.topics.put(topic.name, topic.partition_count)
    ready = beat(world, "m", joined.member_epoch)
    assert (ready.statuses, ready.missing) == ((), ())
    assert active(ready.assigned) == {"0": [0, 1, 2, 3], "1": [0, 1, 2, 3]}
    world.topics.delete("t")
    lost = beat(world, "m", ready.member_epoch)
    assert [status.code for status in lost.statuses] == [StatusCode.MISSING_SOURCE_TOPICS]
    assert active(lost.assigned) == {}


def test_a_topology_can_not_be_changed() -> None:
    world = new_world()
    beat(world)
    for topology in (MAP._replace(epoch=1), COUNT):
        with pytest.raises(errors.InvalidRequest, match="Topology updates are not supported yet"):
            beat(world, "n", topology=topology)
    assert set(group_of(world).members) == {"m"}


def test_a_member_with_an_older_topology_is_told_so() -> None:
    world = new_world()
    beat(world, topology=MAP._replace(epoch=3))
    old = beat(world, "n", topology=MAP)
    assert [status.code for status in old.statuses] == [StatusCode.STALE_TOPOLOGY]
    assert old.statuses[0].detail == "The member's topology epoch 0 is behind the group's topology epoch 3."


def test_a_topology_that_no_topics_would_fit_leaves_no_group() -> None:
    world = new_world()
    loop = Subtopology("0", repartition_topics=(InternalTopic("r"),), sink_topics=("r",))
    with pytest.raises(StreamsInvalidTopology):
        beat(world, topology=Topology(0, (loop,)))
    assert world.groups.streams.find("g") is None
    assert world.groups.limits.member_bytes == 0


def test_all_are_told_to_stop() -> None:
    world = new_world()
    beat(world, "m")
    beat(world, "n")
    beat(world, "m", epoch_of(world, "m"), shutdown=True)
    told = beat(world, "n", epoch_of(world, "n"))
    assert [status.code for status in told.statuses] == [StatusCode.SHUTDOWN_APPLICATION]
    assert "member m encountered a fatal error" in told.statuses[0].detail
    for member_id in ("m", "n"):
        beat(world, member_id, -1)
    assert beat(world, "m").statuses == ()


def test_leaving_member_may_shut_down_the_application() -> None:
    world = new_world()
    beat(world, "m")
    beat(world, "n")
    beat(world, "m", -1, shutdown=True)
    assert [status.code for status in beat(world, "n", epoch_of(world, "n")).statuses] == [
        StatusCode.SHUTDOWN_APPLICATION
    ]


@for_each(
    "member_id, epoch, error",
    [
        ("x", 2, errors.UnknownMember),
        ("m", 1, group_errors.FencedMemberEpoch),
        ("m", 9, group_errors.FencedMemberEpoch),
        ("x", -1, errors.UnknownMember),
    ],
)
def test_members_that_are_refused(member_id: str, epoch: int, error: type[KqueueError]) -> None:
    world = new_world()
    beat(world)
    with pytest.raises(error):
        beat(world, member_id, epoch)


def test_a_member_that_lost_an_answer_gets_it_again() -> None:
    world = new_world()
    beat(world, "m")
    beat(world, "n")
    beat(world, "m", 2)
    beat(world, "m", 2, active={"0": {0, 1}}, standby={})
    assert epoch_of(world, "m") == 3
    assert beat(world, "m", 2, active={"0": {0, 1}}, standby={}).member_epoch == 3


def test_tasks_that_do_not_exist_are_an_error() -> None:
    world = new_world()
    beat(world)
    with pytest.raises(errors.InvalidRequest, match="Subtopology 7 does not exist"):
        beat(world, "m", 2, active={"7": {0}}, standby={})


def test_a_group_has_so_many_members() -> None:
    world = new_world(group_streams_max_size=1)
    beat(world, "m")
    with pytest.raises(errors.GroupMaxSizeReached):
        beat(world, "n")
    beat(world, "m")


def test_a_silent_member_is_removed_and_its_tasks_go_on() -> None:
    world = new_world()
    beat(world, "m")
    beat(world, "n")
    sync(world, "m", "n")
    for _ in range(10):
        world.advance(5000)
        sync(world, "n", rounds=1)
    assert set(group_of(world).members) == {"n"}
    assert group_of(world).target_of("n") == {key: frozenset(range(4)) for key in group_of(world).target_of("n")}


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    world = new_world()
    beat(world, "m", rebalance_timeout_ms=10_000)
    beat(world, "n")
    beat(world, "m", 2)
    world.advance(10_000)
    assert set(group_of(world).members) == {"n"}


def test_groups_of_other_types() -> None:
    world = new_world()
    world.consume("c", group_id="consumers")
    with pytest.raises(errors.GroupIdNotFound, match="is not a streams group"):
        beat(world, group_id="consumers")
    with pytest.raises(errors.GroupIdNotFound, match="Streams group x not found"):
        beat(world, "m", 1, group_id="x")
    for group_id in ("x", "consumers"):
        with pytest.raises(errors.GroupIdNotFound):
            beat(world, "m", -1, group_id=group_id)
    beat(world)
    with pytest.raises(errors.GroupIdNotFound, match="is not a consumer group"):
        world.consume("c", group_id="g")
    with pytest.raises(errors.InconsistentGroupProtocol):
        world.join("g")


def test_an_empty_group_changes_its_type_and_keeps_its_offsets() -> None:
    world = new_world()
    world.stable()
    world.groups.leave("g", [LeavingMember(member_id) for member_id in world.classic_groups()["g"].members])
    beat(world)
    assert group_of(world).state.value == "Stable"
    beat(world, "m", -1)
    world.join("g")
    world.settle()
    assert world.state() in ("CompletingRebalance", "Stable")
    assert world.restarted().groups.streams.find("g") is None


def test_a_heartbeat_that_can_not_be_written_changes_nothing() -> None:
    world = new_world()
    world.log.hold = True
    promise = start(world)
    world.log.fail(KqueueError("EIO"))
    assert promise.error is not None
    assert world.groups.streams.find("g") is None
    world.log.hold = False
    assert active(beat(world).assigned) == {"0": [0, 1, 2, 3]}


def test_a_group_is_described() -> None:
    world = new_world()
    beat(world)
    described = world.groups.streams.describe("g").result()
    assert (described.state, described.epoch, described.target_epoch, described.topology) == ("Stable", 2, 2, MAP)
    ((member, target),) = described.members
    assert (member.member_id, active({key: dict.fromkeys(tasks, 0) for key, tasks in target.items()})) == (
        "m",
        {"0": [0, 1, 2, 3]},
    )
    for group_id, words in (("x", "Group x not found"), ("c", "is not a streams group")):
        world.consume("c", group_id="c")
        with pytest.raises(errors.GroupIdNotFound, match=words):
            world.groups.streams.describe(group_id).result()


def test_an_empty_group_is_deleted() -> None:
    world = new_world()
    beat(world)
    with pytest.raises(group_errors.NonEmptyGroup):
        world.groups.delete("g").result()
    beat(world, "m", -1)
    world.groups.delete("g").result()
    assert world.groups.streams.find("g") is None
    assert world.groups.limits.member_bytes == 0
    assert world.restarted().groups.groups() == []


# --- offsets


def commit(world: World, member_id: str, epoch: int, partition: int = 0, topic: str = "t") -> Any:
    return world.groups.commit("g", epoch, member_id, None, [OffsetToCommit(topic, partition, 7)])


def two_members() -> World:
    """``m`` has the tasks 0 and 1 since epoch 2, ``n`` has 2 and 3 since epoch 3."""
    world = new_world()
    beat(world, "m")
    beat(world, "n")
    sync(world, "m", "n")
    assert (epoch_of(world, "m"), epoch_of(world, "n")) == (3, 3)
    return world


def test_members_commit_in_their_epoch() -> None:
    world = two_members()
    assert commit(world, "m", 3).result() == [None]
    assert committed_offsets(world) == {("t", 0): 7}
    for member_id, epoch, error in (
        ("m", 4, errors.StaleMemberEpoch),
        ("m", 1, errors.StaleMemberEpoch),
        ("m", -1, errors.StaleMemberEpoch),
        ("x", 3, errors.UnknownMember),
        ("", -1, errors.UnknownMember),
    ):
        with pytest.raises(error):
            commit(world, member_id, epoch)


def test_an_older_epoch_may_commit_tasks_that_it_has_had_since() -> None:
    world = two_members()
    assert commit(world, "m", 2, partition=1).result() == [None]
    for member_id, partition, topic in (("m", 2, "t"), ("n", 2, "t"), ("m", 0, "u")):
        with pytest.raises(errors.StaleMemberEpoch):
            commit(world, member_id, 2, partition, topic)


def test_commits_in_a_transaction_are_checked_too() -> None:
    world = two_members()
    producer, offsets = TransactionalProducer(7, 0), [OffsetToCommit("t", 2, 7)]
    for epoch, member_id in ((3, "m"), (-1, "")):
        world.groups.commit_in_transaction("g", producer, epoch, member_id, None, offsets).result()
    with pytest.raises(errors.StaleMemberEpoch):
        world.groups.commit_in_transaction("g", producer, 2, "m", None, offsets)


def test_an_administrator_commits_for_an_empty_group() -> None:
    world = new_world()
    beat(world, "m")
    beat(world, "m", -1)
    assert commit(world, "", -1).result() == [None]


def test_who_may_fetch_offsets() -> None:
    world = two_members()
    world.groups.streams.check_offset_fetch("g", "m", 3)
    world.groups.streams.check_offset_fetch("g", None, -1)
    world.groups.streams.check_offset_fetch("other", "m", 9)
    with pytest.raises(errors.StaleMemberEpoch):
        world.groups.streams.check_offset_fetch("g", "m", 2)


def test_offsets_of_topics_that_members_read_stay() -> None:
    world = two_members()
    commit(world, "m", 3)
    outcomes = world.groups.delete_offsets("g", [("t", 0), ("u", 0)]).result()
    assert [type(outcome) for outcome in outcomes] == [group_errors.GroupSubscribedToTopic, type(None)]
