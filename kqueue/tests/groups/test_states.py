"""The table of states, every pair of it."""

from __future__ import annotations

import itertools

import pytest

from kqueue.groups.states import CAN_REBALANCE, TRANSITIONS, Event, State, after

ALLOWED = {
    (State.EMPTY, Event.REBALANCE): State.PREPARING_REBALANCE,
    (State.EMPTY, Event.REMOVED): State.DEAD,
    (State.PREPARING_REBALANCE, Event.ALL_JOINED): State.COMPLETING_REBALANCE,
    (State.PREPARING_REBALANCE, Event.NOBODY_JOINED): State.EMPTY,
    (State.PREPARING_REBALANCE, Event.REMOVED): State.DEAD,
    (State.COMPLETING_REBALANCE, Event.REBALANCE): State.PREPARING_REBALANCE,
    (State.COMPLETING_REBALANCE, Event.ASSIGNED): State.STABLE,
    (State.COMPLETING_REBALANCE, Event.REMOVED): State.DEAD,
    (State.STABLE, Event.REBALANCE): State.PREPARING_REBALANCE,
    (State.STABLE, Event.REMOVED): State.DEAD,
    (State.DEAD, Event.KEPT): State.EMPTY,
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)))
def test_every_pair(state: State, event: Event) -> None:
    if (state, event) in ALLOWED:
        assert after(state, event) is ALLOWED[state, event]
    else:
        with pytest.raises(AssertionError, match=f"{state.value} can't be {event.value}"):
            after(state, event)


def test_the_table_names_every_state() -> None:
    assert set(TRANSITIONS) == set(State)


def test_a_rebalance_begins_where_none_is_under_way() -> None:
    assert {State.EMPTY, State.COMPLETING_REBALANCE, State.STABLE} == CAN_REBALANCE


def test_names_are_those_that_clients_see() -> None:
    assert [state.value for state in State] == ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"]
