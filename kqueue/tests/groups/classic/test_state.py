"""The table of states, every pair of it."""

from __future__ import annotations

import itertools

import pytest

from kqueue.groups.classic.state import CAN_REBALANCE, TRANSITIONS, ClassicGroupState, GroupEvent, after
from kqueue.tests.tables import for_each

ALLOWED = {
    (ClassicGroupState.EMPTY, GroupEvent.REBALANCE): ClassicGroupState.PREPARING_REBALANCE,
    (ClassicGroupState.EMPTY, GroupEvent.REMOVED): ClassicGroupState.DEAD,
    (ClassicGroupState.PREPARING_REBALANCE, GroupEvent.ALL_JOINED): ClassicGroupState.COMPLETING_REBALANCE,
    (ClassicGroupState.PREPARING_REBALANCE, GroupEvent.NOBODY_JOINED): ClassicGroupState.EMPTY,
    (ClassicGroupState.PREPARING_REBALANCE, GroupEvent.REMOVED): ClassicGroupState.DEAD,
    (ClassicGroupState.COMPLETING_REBALANCE, GroupEvent.REBALANCE): ClassicGroupState.PREPARING_REBALANCE,
    (ClassicGroupState.COMPLETING_REBALANCE, GroupEvent.ASSIGNED): ClassicGroupState.STABLE,
    (ClassicGroupState.COMPLETING_REBALANCE, GroupEvent.REMOVED): ClassicGroupState.DEAD,
    (ClassicGroupState.STABLE, GroupEvent.REBALANCE): ClassicGroupState.PREPARING_REBALANCE,
    (ClassicGroupState.STABLE, GroupEvent.REMOVED): ClassicGroupState.DEAD,
    (ClassicGroupState.DEAD, GroupEvent.KEPT): ClassicGroupState.EMPTY,
}


@for_each("state, event", list(itertools.product(ClassicGroupState, GroupEvent)))
def test_every_pair(state: ClassicGroupState, event: GroupEvent) -> None:
    if (state, event) in ALLOWED:
        assert after(state, event) is ALLOWED[state, event]
    else:
        with pytest.raises(AssertionError, match=f"{state.value} can't be {event.value}"):
            after(state, event)


def test_the_table_names_every_state() -> None:
    assert set(TRANSITIONS) == set(ClassicGroupState)


def test_a_rebalance_begins_where_none_is_under_way() -> None:
    assert {ClassicGroupState.EMPTY, ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE} == CAN_REBALANCE


def test_names_are_those_that_clients_see() -> None:
    assert [state.value for state in ClassicGroupState] == [
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
        "Dead",
    ]
