"""The state machine of a transactional id.

              ADD             COMMIT                  WRITTEN
    EMPTY ------------> ONGOING -----> PREPARE_COMMIT -------> COMPLETE_COMMIT
                          |  |                                        |
                          |  | ABORT                   WRITTEN        |
                    FENCE |  +-------> PREPARE_ABORT --------> COMPLETE_ABORT
                          |               ^
                          +-> PREPARE_EPOCH_FENCE (ABORT)

From EMPTY and both COMPLETE states: ADD begins a transaction, INIT gives a producer a new epoch,
ABORT ends a transaction without partitions (KIP-890), EXPIRE removes the id. Source: Kafka
TransactionState.
"""

from __future__ import annotations

import enum


class TransactionState(enum.Enum):
    """State of a transactional id; the value is its name in the protocol."""

    EMPTY = "Empty"
    """A producer has the id, and no transaction yet."""
    ONGOING = "Ongoing"
    """The transaction has partitions."""
    PREPARE_COMMIT = "PrepareCommit"
    """The commit is decided; markers are being written."""
    PREPARE_ABORT = "PrepareAbort"
    """The abort is decided; markers are being written."""
    COMPLETE_COMMIT = "CompleteCommit"
    """Every partition has its commit marker."""
    COMPLETE_ABORT = "CompleteAbort"
    """Every partition has its abort marker."""
    DEAD = "Dead"
    """The id has expired and is being removed. Not in the log."""
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    """The producer's epoch is raised, to abort its transaction. Not in the log."""


class TransactionEvent(enum.Enum):
    """The events of a transactional id."""

    INIT = "initialized"
    """A producer asked for its id and epoch."""
    ADD = "extended"
    """Partitions were added to its transaction."""
    COMMIT = "committed"
    ABORT = "aborted"
    FENCE = "fenced"
    """Another producer, or the timeout, ends the transaction."""
    WRITTEN = "completed"
    """Every partition has its end marker."""
    EXPIRE = "expired"


_IDLE = {
    TransactionEvent.INIT: TransactionState.EMPTY,
    TransactionEvent.ADD: TransactionState.ONGOING,
    TransactionEvent.ABORT: TransactionState.PREPARE_ABORT,
    TransactionEvent.EXPIRE: TransactionState.DEAD,
}

TRANSITIONS: dict[TransactionState, dict[TransactionEvent, TransactionState]] = {
    TransactionState.EMPTY: _IDLE,
    TransactionState.ONGOING: {
        TransactionEvent.ADD: TransactionState.ONGOING,
        TransactionEvent.COMMIT: TransactionState.PREPARE_COMMIT,
        TransactionEvent.ABORT: TransactionState.PREPARE_ABORT,
        TransactionEvent.FENCE: TransactionState.PREPARE_EPOCH_FENCE,
    },
    TransactionState.PREPARE_COMMIT: {TransactionEvent.WRITTEN: TransactionState.COMPLETE_COMMIT},
    TransactionState.PREPARE_ABORT: {TransactionEvent.WRITTEN: TransactionState.COMPLETE_ABORT},
    TransactionState.COMPLETE_COMMIT: _IDLE,
    TransactionState.COMPLETE_ABORT: _IDLE,
    TransactionState.DEAD: {},
    TransactionState.PREPARE_EPOCH_FENCE: {TransactionEvent.ABORT: TransactionState.PREPARE_ABORT},
}
IDLE = frozenset(state for state, events in TRANSITIONS.items() if TransactionEvent.EXPIRE in events)
"""States without a transaction."""
PREPARED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""States in which the end is decided and markers may be missing."""

STATE_IDS: dict[TransactionState, int] = {
    TransactionState.EMPTY: 0,
    TransactionState.ONGOING: 1,
    TransactionState.PREPARE_COMMIT: 2,
    TransactionState.PREPARE_ABORT: 3,
    TransactionState.COMPLETE_COMMIT: 4,
    TransactionState.COMPLETE_ABORT: 5,
    TransactionState.DEAD: 6,
    TransactionState.PREPARE_EPOCH_FENCE: 7,
}
"""The numbers of states in the log."""


def after(state: TransactionState, event: TransactionEvent) -> TransactionState:
    """Return the next state. An event that can't happen in `state` is a bug (AssertionError)."""
    assert event in TRANSITIONS[state], f"a transactional id that is {state.value} can't be {event.value}"
    return TRANSITIONS[state][event]
