"""Brings a member one step nearer to its target assignment.

A member first revokes what it shall not keep, and says so in a heartbeat. Then it takes what
nobody else owns, and waits for the rest until the former owners have revoked it. So a partition
has one owner at any time. Pure functions. Source: KIP-848, Kafka CurrentAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple

from kqueue.groups.errors import FencedMemberEpoch
from kqueue.groups.modern.assignment import CurrentAssignment, K, ModernMemberState, Owned, Wanted

NO_PARTITIONS: frozenset[int] = frozenset()


class Target(NamedTuple, Generic[K]):
    """The partitions or tasks that a member shall own.

    Attributes:
        assignment: without keys that the member has left.
        is_owned: tells whether a partition has an owner.
        owned: what the member says it owns; None: it did not say.
    """

    epoch: int
    assignment: Wanted[K]
    is_owned: Callable[[K, int], bool]
    owned: Wanted[K] | None


def reconcile(current: CurrentAssignment[K], target: Target[K], *, changed: bool = False) -> CurrentAssignment[K]:
    """Return the next assignment of a member; the same one if there is nothing to do.

    Args:
        changed: the member's subscription has changed, so it may own what it shall not.
    Raises: FencedMemberEpoch: the member is in a state that this version does not know.
    """
    if current.state is ModernMemberState.STABLE:
        if current.epoch == target.epoch and not (changed and _has_others(current, target)):
            return current
        return _next(current, target, current.epoch)
    if current.state is ModernMemberState.UNREVOKED_PARTITIONS:
        # Not revoked yet, or the heartbeat did not say. Until it is confirmed no other member may
        # get these.
        if _owns_any(target.owned, current.revoking):
            return current
        # It has revoked, so its epoch moves on, even if it has to revoke more for a newer target.
        return _next(current, target, min(current.epoch + 1, target.epoch))
    if current.state is ModernMemberState.UNRELEASED_PARTITIONS:
        # Tried again with each heartbeat: the former owners may have released by now.
        return _next(current, target, current.epoch)
    # A later version of Kafka has written a state of its own. Safe is only a member that owns
    # nothing.
    if target.owned is None or any(target.owned.values()):
        raise FencedMemberEpoch("The member's state is unknown: it must abandon all its partitions and rejoin.")
    return _next(current, target, target.epoch)


def _next(current: CurrentAssignment[K], target: Target[K], epoch: int) -> CurrentAssignment[K]:
    """Return the next assignment; `epoch`: of a member that has to revoke first."""
    kept: dict[K, dict[int, int]] = {}
    revoking: dict[K, dict[int, int]] = {}
    for key, partitions in current.assigned.items():
        wanted = target.assignment.get(key, NO_PARTITIONS)
        for partition, since in partitions.items():
            into = kept if partition in wanted else revoking
            into.setdefault(key, {})[partition] = since
    # Nothing new is given in this step: the heartbeat that confirms the revocation brings it. A
    # member that says it owns none of these has nothing to confirm.
    if revoking and _owns_any(target.owned, revoking):
        return CurrentAssignment(epoch, current.epoch, ModernMemberState.UNREVOKED_PARTITIONS, kept, revoking)
    waits = False
    for key, wanted in target.assignment.items():
        mine = current.assigned.get(key, {})
        for partition in wanted:
            if partition in mine:
                continue
            # Another member owns it, or has not confirmed its revocation: a later heartbeat takes
            # it.
            if target.is_owned(key, partition):
                waits = True
            else:
                kept.setdefault(key, {})[partition] = target.epoch
    state = ModernMemberState.UNRELEASED_PARTITIONS if waits else ModernMemberState.STABLE
    return CurrentAssignment(target.epoch, current.epoch, state, kept)


def _has_others(current: CurrentAssignment[K], target: Target[K]) -> bool:
    """Return whether the member owns partitions outside of its target."""
    return any(
        not target.assignment.get(key, NO_PARTITIONS).issuperset(indexes) for key, indexes in current.assigned.items()
    )


def _owns_any(owned: Wanted[K] | None, partitions: Owned[K]) -> bool:
    """Return whether the member may own any of these; one that did not say may own all."""
    if owned is None:
        return True
    return any(not owned.get(key, NO_PARTITIONS).isdisjoint(indexes) for key, indexes in partitions.items())
