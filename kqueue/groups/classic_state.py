"""The states of a classic group and how it goes from one to another.

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
    """The value is the name that clients see."""

    EMPTY = "Empty"
    """No members; offsets may be there."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are awaited: each has to join (again)."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The generation is made; the leader's assignment is awaited."""
    STABLE = "Stable"
    """Every member can have its assignment."""
    DEAD = "Dead"
    """Being removed, or handed to another coordinator."""


class GroupEvent(enum.Enum):
    """What happens to a group."""

    REBALANCE = "rebalance"
    """Members came, went or changed: everybody has to join again."""
    ALL_JOINED = "all joined"
    """The join phase ended with members."""
    NOBODY_JOINED = "nobody joined"
    """The join phase ended without any."""
    ASSIGNED = "assigned"
    """The leader's assignment is in the log."""
    REMOVED = "removed"
    """The group is being deleted."""
    KEPT = "kept"
    """The deletion could not be written."""


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
    """The state that follows. An event that can't happen in `state` is our bug (AssertionError)."""
    assert event in TRANSITIONS[state], f"a group that is {state.value} can't be {event.value}"
    return TRANSITIONS[state][event]
