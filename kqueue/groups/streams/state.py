"""The states of streams groups; `modern.assignment` has those of members. Source: KIP-1071.

Empty        there are no members
NotReady     source topics or internal topics are missing, or have other numbers of partitions
Assigning    the target assignment is older than the group epoch
Reconciling  not all members have reached the target assignment
Stable       all members have
Dead         it is being deleted
"""

from __future__ import annotations

import enum


class StreamsGroupState(enum.Enum):
    """State of a group; the value is its name in the protocol."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"
