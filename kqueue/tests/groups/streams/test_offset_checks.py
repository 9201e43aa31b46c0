from __future__ import annotations

from typing import Any

import pytest

from kqueue.base import errors
from kqueue.groups import errors as group_errors
from kqueue.groups.log.group_log import TransactionalProducer
from kqueue.groups.offsets.offset_manager import OffsetToCommit
from kqueue.tests.groups.streams.applications import beat, epoch_of, new_world, sync
from kqueue.tests.groups.support import World, committed_offsets


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


def test_offset_fetch_checks_member_and_epoch() -> None:
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
