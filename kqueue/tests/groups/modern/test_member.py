from __future__ import annotations

import pytest

from kqueue.groups.errors import FencedMemberEpoch
from kqueue.groups.group import GroupType
from kqueue.groups.modern.assignment import CurrentAssignment
from kqueue.groups.modern.member import check_epoch, is_repeat
from kqueue.tests.tables import for_each

CURRENT = CurrentAssignment(5, 4, assigned={"t": {1: 4, 2: 5}})


@for_each("epoch, owned", [(5, None), (4, {"t": frozenset({1})})])
def test_a_member_stays_that_may_have_missed_an_answer(epoch: int, owned: dict[str, frozenset[int]] | None) -> None:
    check_epoch(GroupType.STREAMS, CURRENT, epoch, is_repeat=is_repeat(CURRENT, epoch, owned))


@for_each("epoch, owned", [(4, None), (4, {"t": frozenset({3})}), (3, {}), (6, {})])
def test_a_member_of_another_epoch_is_fenced(epoch: int, owned: dict[str, frozenset[int]] | None) -> None:
    with pytest.raises(FencedMemberEpoch, match="The streams group member has a (greater|smaller) member epoch"):
        check_epoch(GroupType.STREAMS, CURRENT, epoch, is_repeat=is_repeat(CURRENT, epoch, owned))
