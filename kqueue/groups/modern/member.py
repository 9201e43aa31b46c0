"""A member of a modern group: two immutable parts, as its two records have them."""

from __future__ import annotations

from typing import Generic, NamedTuple, Protocol, TypeVar

from kqueue.groups.errors import FencedMemberEpoch
from kqueue.groups.group import GroupType
from kqueue.groups.modern.assignment import CurrentAssignment, K, Wanted, is_contained

EPOCH_JOIN = 0
EPOCH_LEAVE = -1
EPOCH_LEAVE_STATIC = -2
"""Of a static member that leaves for a while."""


class ModernMemberMetadata(Protocol):
    """The data that a member sends of itself."""

    @property
    def rebalance_timeout_ms(self) -> int:
        """The time that it may take to revoke."""
        ...


S = TypeVar("S", bound=ModernMemberMetadata)


class ModernMember(NamedTuple, Generic[S, K]):
    """One member."""

    member_id: str
    metadata: S
    current: CurrentAssignment[K] = CurrentAssignment()


class ModernMemberDescription(NamedTuple, Generic[S, K]):
    """A member, for tools. `target`: what it shall own in the end."""

    member: ModernMember[S, K]
    target: Wanted[K]


def check_epoch(kind: GroupType, current: CurrentAssignment[K], epoch: int, *, is_repeat: bool) -> None:
    """Check the epoch of a member that does not join.

    Args:
        is_repeat: the previous epoch is accepted, too: the member has not received the last answer.
    Raises: FencedMemberEpoch, worded as Kafka's.
    """
    if epoch == current.epoch or (is_repeat and epoch == current.previous_epoch):
        return
    size = "greater" if epoch > current.epoch else "smaller"
    raise FencedMemberEpoch(
        f"The {kind.value} group member has a {size} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({current.epoch}). The member must abandon all its partitions and rejoin."
    )


def is_repeat(current: CurrentAssignment[K], epoch: int, owned: Wanted[K] | None) -> bool:
    """Return whether a member may have missed an answer: it owns only what it is assigned."""
    return epoch < current.epoch and owned is not None and is_contained(owned, current.assigned)
