from __future__ import annotations

import pytest

from kqueue.base import errors
from kqueue.base.errors import KqueueError
from kqueue.groups import errors as group_errors
from kqueue.tests.groups.consumer.consumers import commit, two_members
from kqueue.tests.groups.support import World, committed_offsets


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


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        (None, -1, None),
        ("m", 2, None),
        ("m", 1, errors.StaleMemberEpoch),
        ("m", 3, errors.StaleMemberEpoch),
        ("x", 2, errors.UnknownMember),
    ],
)
def test_offset_fetch_checks_member_and_epoch(
    member_id: str | None, epoch: int, error: type[KqueueError] | None
) -> None:
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
