"""Consumer groups, as their members see them."""

from __future__ import annotations

import pytest

from kqueue.base import errors
from kqueue.base.errors import KqueueError
from kqueue.groups import errors as group_errors
from kqueue.groups.classic.member import LeavingMember
from kqueue.tests.groups.consumer.consumers import T, commit, indexes, two_members
from kqueue.tests.groups.support import World, committed_offsets
from kqueue.tests.tables import for_each


def test_a_member_gets_everything_then_shares_it() -> None:
    world = World()
    assert indexes(world.consume("m").assigned) == {0, 1, 2, 3}
    assert indexes(world.consume("n").assigned) == set()
    world.advance(1000)
    first = world.consume("m", 2)
    assert (indexes(first.assigned), first.member_epoch) == ({0, 1}, 2), "it revokes in its epoch"
    assert world.consume("n", 2).assigned is None, "nothing is free yet"
    confirmed = world.consume("m", 2, owned={T: frozenset({0, 1})})
    assert (confirmed.assigned, confirmed.member_epoch) == (None, 3)
    assert indexes(world.consume("n", 3).assigned) == {2, 3}
    assert world.consumer_group().state.value == "Stable"


def test_partitions_of_a_member_that_leaves_go_to_the_others() -> None:
    world = World()
    two_members(world)
    assert world.consume("n", -1).member_epoch == -1
    world.advance(1000)
    assert indexes(world.consume("m", 3).assigned) == {0, 1, 2, 3}


def test_a_group_has_as_many_members_as_it_may_have() -> None:
    world = World(group_consumer_max_size=2)
    world.consume("m")
    world.consume("n")
    with pytest.raises(errors.GroupMaxSizeReached, match="maximum capacity of 2 members"):
        world.consume("o")
    world.consume("m")
    world.consume("n", -1)
    world.consume("o")


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    world = World()
    world.consume("m", instance_id="i")
    epoch = world.consumer_group().epoch
    with pytest.raises(group_errors.UnreleasedInstanceId):
        world.consume("n", instance_id="i")
    assert world.consume("m", -2, instance_id="i").member_epoch == -2
    again = world.consume("n", instance_id="i")
    assert (indexes(again.assigned), world.consumer_group().epoch) == ({0, 1, 2, 3}, epoch)
    with pytest.raises(errors.FencedInstanceId):
        world.consume("m", 2, instance_id="i")


def test_requests_of_the_other_protocol_are_refused() -> None:
    world = World()
    world.consume("m")
    for call in (
        lambda: world.groups.heartbeat("g", 2, "m", None),
        lambda: world.groups.sync("g", 2, "m", None, {}).result(),
    ):
        with pytest.raises(errors.UnknownMember):
            call()
    with pytest.raises(errors.GroupIdNotFound, match="Group g is not a classic group."):
        world.groups.describe("g")
    world.join("c", protocol_type="connect")
    for epoch, error in ((0, errors.GroupIdNotFound), (-1, errors.UnknownMember)):
        with pytest.raises(error, match="is not a consumer group"):
            world.consume("m", epoch, group_id="c")
    with pytest.raises(errors.GroupIdNotFound, match="is not a consumer group"):
        world.groups.consumer.describe("c").result()


def test_an_administrator_removes_members() -> None:
    world = World()
    two_members(world)
    world.consume("s", instance_id="i")
    leaving = [LeavingMember("", "i"), LeavingMember("m"), LeavingMember("m"), LeavingMember("x")]
    outcomes = world.groups.leave("g", leaving).result()
    assert [outcome is None for outcome in outcomes] == [True, True, False, False]
    assert set(world.consumer_group().members) == {"n"}


# --- offsets


def test_members_commit_in_their_epoch() -> None:
    world = World()
    two_members(world)
    assert commit(world, "m", 3).result() == [None]
    assert committed_offsets(world) == {("t", 0): 7}
    for member_id, epoch, error in (
        ("m", 4, errors.StaleMemberEpoch),
        ("m", 1, errors.StaleMemberEpoch),
        ("x", 3, errors.UnknownMember),
        ("", -1, errors.UnknownMember),
    ):
        with pytest.raises(error):
            commit(world, member_id, epoch)


def test_an_older_epoch_may_commit_what_it_has_had_since() -> None:
    world = World()
    two_members(world)
    assert commit(world, "m", 2, partition=1).result() == [None]
    with pytest.raises(errors.StaleMemberEpoch):
        commit(world, "m", 2, partition=2)
    with pytest.raises(errors.StaleMemberEpoch):
        commit(world, "n", 2, partition=2)


def test_an_administrator_commits_for_an_empty_group() -> None:
    world = World()
    world.consume("m")
    world.consume("m", -1)
    assert commit(world, "", -1).result() == [None]


@for_each(
    "member_id, epoch, error",
    [
        (None, -1, None),
        ("m", 2, None),
        ("m", 1, errors.StaleMemberEpoch),
        ("m", 3, errors.StaleMemberEpoch),
        ("x", 2, errors.UnknownMember),
    ],
)
def test_who_may_fetch_offsets(member_id: str | None, epoch: int, error: type[KqueueError] | None) -> None:
    world = World()
    world.consume("m")
    if error is None:
        world.groups.consumer.check_offset_fetch("g", member_id, epoch)
    else:
        with pytest.raises(error):
            world.groups.consumer.check_offset_fetch("g", member_id, epoch)
    world.groups.consumer.check_offset_fetch("h", member_id, epoch)


def test_offsets_of_topics_that_members_read_stay() -> None:
    world = World()
    world.consume("m")
    commit(world, "m", 2)
    outcomes = world.groups.delete_offsets("g", [("t", 0), ("u", 0)]).result()
    assert [type(outcome) for outcome in outcomes] == [group_errors.GroupSubscribedToTopic, type(None)]
