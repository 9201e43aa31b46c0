"""The states of modern groups; `modern.assignment` has those of members.

A group's state follows from its epochs and members:

    Empty        there are no members
    NotReady     streams groups: topics are missing, or have other numbers of partitions
    Assigning    the target assignment is older than the group epoch
    Reconciling  not all members have reached the target assignment
    Stable       all members have; a share group with members always is
    Dead         it is being deleted

Source: KIP-848, KIP-932, KIP-1071.
"""

from __future__ import annotations

import enum


class ModernGroupState(enum.Enum):
    """State of a group; the value is its name in the protocol."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"
