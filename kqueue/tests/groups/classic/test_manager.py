from __future__ import annotations

import pytest

from kqueue.base.errors import IllegalGeneration, UnknownMember
from kqueue.groups.group import Committer
from kqueue.tests.groups.support import World


def test_only_members_of_a_group_commit_and_producers_speak_for_theirs() -> None:
    world = World()
    [joined] = world.stable()
    manager = world.groups._classic
    group = manager.find("g")
    assert group is not None
    manager.check_commit(group, Committer(joined.generation, joined.member_id, None), ())
    manager.check_commit(group, Committer(-1, "", None, in_transaction=True), ())
    with pytest.raises(UnknownMember, match="has members: only they may commit"):
        manager.check_commit(group, Committer(-1, "", None), ())
    for in_transaction in (False, True):
        with pytest.raises(IllegalGeneration):
            manager.check_commit(group, Committer(9, joined.member_id, None, in_transaction), ())


def test_groups_of_other_types_are_no_classic_groups() -> None:
    world = World()
    world.consume("m")
    assert world.groups._classic.find("g") is None
    assert world.groups._classic.find("h") is None
