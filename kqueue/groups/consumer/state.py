"""The states of consumer groups. Source: KIP-848.

A group's state follows from its epochs and members:

    Empty        there are no members
    Assigning    the target assignment is older than the group epoch
    Reconciling  not all members have reached the target assignment
    Stable       all members have
    Dead         it is being deleted
"""

from __future__ import annotations

import enum


class ConsumerGroupState(enum.Enum):
    """State of a group; the value is its name in the protocol."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


def group_state(member_count: int, group_epoch: int, target_epoch: int, reconciled_count: int) -> ConsumerGroupState:
    """Return the state of a group that is not being deleted."""
    if not member_count:
        return ConsumerGroupState.EMPTY
    if group_epoch > target_epoch:
        return ConsumerGroupState.ASSIGNING
    return ConsumerGroupState.STABLE if reconciled_count == member_count else ConsumerGroupState.RECONCILING
