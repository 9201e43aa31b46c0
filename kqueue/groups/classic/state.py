"""The state machine of a classic group.

                 REBALANCE                 ALL_JOINED                     ASSIGNED
EMPTY ----------------------> PREPARING ----------------> COMPLETING ----------------> STABLE
  ^  ^                          |  ^  ^                    |                             |
  |  |  NOBODY_JOINED           |  |  |     REBALANCE      |                             |
  |  +--------------------------+  |  +--------------------+                             |
  |                                +-----------------------------------------------------+
  +---- KEPT ---- DEAD <---- REMOVED (from every other state)
"""

from __future__ import annotations

import enum


class ClassicGroupState(enum.Enum):
    """State of a group; the value is its name in the protocol."""

    EMPTY = "Empty"
    """No members; may have offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """The join phase: each member must join (again)."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The generation has begun; the leader's assignment is missing."""
    STABLE = "Stable"
    """Every member can get its assignment."""
    DEAD = "Dead"
    """Being deleted, or moved to another coordinator."""


class GroupEvent(enum.Enum):
    """The events that change a group's state."""

    REBALANCE = "rebalance"
    """Members were added, removed or changed: all must join again."""
    ALL_JOINED = "all joined"
    """The join phase ended with members."""
    NOBODY_JOINED = "nobody joined"
    """The join phase ended without any."""
    ASSIGNED = "assigned"
    """The leader's assignment is in the log."""
    REMOVED = "removed"
    """The group is being deleted."""
    KEPT = "kept"
    """The deletion could not be written to the log."""


TRANSITIONS: dict[ClassicGroupState, dict[GroupEvent, ClassicGroupState]] = {
    ClassicGroupState.EMPTY: {
        GroupEvent.REBALANCE: ClassicGroupState.PREPARING_REBALANCE,
        GroupEvent.REMOVED: ClassicGroupState.DEAD,
    },
    ClassicGroupState.PREPARING_REBALANCE: {
        GroupEvent.ALL_JOINED: ClassicGroupState.COMPLETING_REBALANCE,
        GroupEvent.NOBODY_JOINED: ClassicGroupState.EMPTY,
        GroupEvent.REMOVED: ClassicGroupState.DEAD,
    },
    ClassicGroupState.COMPLETING_REBALANCE: {
        GroupEvent.REBALANCE: ClassicGroupState.PREPARING_REBALANCE,
        GroupEvent.ASSIGNED: ClassicGroupState.STABLE,
        GroupEvent.REMOVED: ClassicGroupState.DEAD,
    },
    ClassicGroupState.STABLE: {
        GroupEvent.REBALANCE: ClassicGroupState.PREPARING_REBALANCE,
        GroupEvent.REMOVED: ClassicGroupState.DEAD,
    },
    ClassicGroupState.DEAD: {
        GroupEvent.KEPT: ClassicGroupState.EMPTY,
    },
}
CAN_REBALANCE = frozenset(state for state, events in TRANSITIONS.items() if GroupEvent.REBALANCE in events)


def after(state: ClassicGroupState, event: GroupEvent) -> ClassicGroupState:
    """Return the next state. An event that can't happen in `state` is a bug (AssertionError)."""
    assert event in TRANSITIONS[state], f"a group that is {state.value} can't be {event.value}"
    return TRANSITIONS[state][event]
