"""The states of consumer groups and of their members. Source: KIP-848.

A group's state follows from its epochs and members:

    Empty        there are no members
    Assigning    the target assignment is older than the group epoch
    Reconciling  not all members have reached the target assignment
    Stable       all members have
    Dead         it is being deleted

A member's state follows from what it owns and what it shall own:

                            it owns what it must revoke
    STABLE ----------------------------------------------> UNREVOKED_PARTITIONS
      ^  ^                                                    |             |
      |  |            its heartbeat says that it has revoked  |             |
      |  +----------------------------------------------------+             |
      |                                                                     |
      |  the former owners have revoked               revoked, but others still own partitions
      +------------------------------- UNRELEASED_PARTITIONS <--------------+
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


class ConsumerMemberState(enum.IntEnum):
    """State of a member; the value is its number in records."""

    STABLE = 0
    """It owns its target assignment."""
    UNREVOKED_PARTITIONS = 1
    """It must revoke partitions before it gets others."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that other members have not revoked yet."""
    UNKNOWN = 127
    """A state that this version does not know: the member must rejoin."""


def group_state(member_count: int, group_epoch: int, target_epoch: int, reconciled_count: int) -> ConsumerGroupState:
    """Return the state of a group that is not being deleted."""
    if not member_count:
        return ConsumerGroupState.EMPTY
    if group_epoch > target_epoch:
        return ConsumerGroupState.ASSIGNING
    return ConsumerGroupState.STABLE if reconciled_count == member_count else ConsumerGroupState.RECONCILING
