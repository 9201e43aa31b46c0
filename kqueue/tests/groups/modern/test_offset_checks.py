from __future__ import annotations

import pytest

from kqueue.base import errors
from kqueue.groups.modern.offset_checks import check_fetch
from kqueue.tests.groups.support import World


def test_a_member_fetches_in_its_epoch_and_others_without_one() -> None:
    world = World()
    world.consume("m")
    group = world.consumer_group()
    check_fetch(group, None, -1)
    check_fetch(group, "m", 2)
    with pytest.raises(errors.StaleMemberEpoch):
        check_fetch(group, "m", 1)
    with pytest.raises(errors.UnknownMember):
        check_fetch(group, None, 2)
