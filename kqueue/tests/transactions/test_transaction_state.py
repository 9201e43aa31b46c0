from __future__ import annotations

import itertools

import pytest

from kqueue.tests.tables import for_each
from kqueue.transactions.transaction_state import (
    IDLE,
    PREPARED,
    STATE_IDS,
    TRANSITIONS,
    TransactionEvent,
    TransactionState,
    after,
)

S = TransactionState
KAFKAS = {
    S.EMPTY: {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
    S.ONGOING: {S.ONGOING, S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
    S.PREPARE_COMMIT: {S.ONGOING},
    S.PREPARE_ABORT: {S.ONGOING, S.PREPARE_EPOCH_FENCE, S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
    S.COMPLETE_COMMIT: {S.PREPARE_COMMIT},
    S.COMPLETE_ABORT: {S.PREPARE_ABORT},
    S.DEAD: {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
    S.PREPARE_EPOCH_FENCE: {S.ONGOING},
}
"""The valid previous states of each state, as Kafka has them."""


@for_each("state, event", list(itertools.product(TransactionState, TransactionEvent)))
def test_every_pair_has_a_next_state_or_is_a_bug(state: TransactionState, event: TransactionEvent) -> None:
    if event in TRANSITIONS[state]:
        assert state in KAFKAS[after(state, event)]
    else:
        with pytest.raises(AssertionError, match="can't be"):
            after(state, event)


def test_the_transitions_are_kafkas() -> None:
    previous = {state: {before for before, events in TRANSITIONS.items() if state in events.values()} for state in S}
    assert previous == KAFKAS
    assert set(IDLE) == {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}
    assert set(PREPARED) == {S.PREPARE_COMMIT, S.PREPARE_ABORT}
    assert sorted(STATE_IDS.values()) == list(range(8))
