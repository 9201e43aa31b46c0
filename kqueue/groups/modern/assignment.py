"""The assignment of a member of a modern group: what it owns, shall own and must revoke.

What is owned has a key and an index: a topic's id and a partition in a consumer group, a role of a
subtopology and a task in a streams group.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)
Owned = Mapping[K, Mapping[int, int]]
"""Key -> index -> the member epoch at which it was assigned (KIP-1251)."""
Wanted = Mapping[K, frozenset[int]]
"""Key -> indexes."""
NOTHING_OWNED: Mapping[Any, Mapping[int, int]] = MappingProxyType({})


class ModernMemberState(enum.IntEnum):
    """State of a member; the value is its number in the records of consumer groups.

                                it owns what it must revoke
        STABLE ----------------------------------------------> UNREVOKED_PARTITIONS
          ^  ^                                                    |             |
          |  |            its heartbeat says that it has revoked  |             |
          |  +----------------------------------------------------+             |
          |                                                                     |
          |  the former owners have revoked               revoked, but others still own partitions
          +------------------------------- UNRELEASED_PARTITIONS <--------------+

    In a streams group, tasks are what partitions are here.
    """

    STABLE = 0
    """It owns its target assignment."""
    UNREVOKED_PARTITIONS = 1
    """It must revoke partitions before it gets others."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that other members have not revoked yet."""
    UNKNOWN = 127
    """A state that this version does not know: the member must rejoin."""


class CurrentAssignment(NamedTuple, Generic[K]):
    """The partitions or tasks that a member owns.

    Attributes:
        epoch: of the target assignment that it has reached; -2: a static member that is away.
        assigned: what it owns, or shall take.
        revoking: what it must revoke first.
    """

    epoch: int = 0
    previous_epoch: int = 0
    state: ModernMemberState = ModernMemberState.STABLE
    assigned: Owned[K] = NOTHING_OWNED
    revoking: Owned[K] = NOTHING_OWNED

    def is_reconciled(self, target_epoch: int) -> bool:
        """Return whether the member has reached the target assignment of this epoch."""
        return self.state is ModernMemberState.STABLE and self.epoch == target_epoch

    def is_owned_since(self, key: K, index: int, epoch: int) -> bool:
        """Return whether the member has had an index since this epoch, or longer, and still has."""
        since = self.assigned.get(key, {}).get(index, self.revoking.get(key, {}).get(index))
        return since is not None and since <= epoch


def must_revoke(current: CurrentAssignment[K], epoch: int) -> bool:
    """Return whether a member still has to revoke what it had to at this epoch."""
    return bool(current.revoking) and current.epoch == epoch


def same_owned(one: Owned[K], other: Owned[K]) -> bool:
    """Return whether both have the same indexes, whatever their epochs."""
    return one.keys() == other.keys() and all(one[key].keys() == other[key].keys() for key in one)


def is_contained(owned: Wanted[K], assigned: Owned[K]) -> bool:
    """Return whether all that a member says it owns is assigned to it."""
    return all(indexes <= assigned.get(key, NOTHING_OWNED).keys() for key, indexes in owned.items())
