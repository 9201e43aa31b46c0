"""What all modern groups have: epochs, members and their deadlines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import Any, Generic, Protocol, TypeVar

from kqueue.base.errors import UnknownMember
from kqueue.groups.group import GroupType, RetentionStart
from kqueue.groups.lazy_timer import LazyTimer
from kqueue.groups.limits import GroupLimits
from kqueue.groups.modern.assignment import CurrentAssignment
from kqueue.groups.modern.changes import Changes

FIRST_EPOCH = 1
"""Epoch of a new group and its empty target assignment. Members do not have epoch 0."""


class ModernMember(Protocol):
    """A member of a modern group."""

    @property
    def current(self) -> CurrentAssignment[Any]:
        """What it owns."""
        ...

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long it may take to revoke."""
        ...


M = TypeVar("M", bound=ModernMember)


class ModernGroup(ABC, Generic[M]):
    """A group of the consumer or streams protocol.

    Attributes:
        epoch: grows with each change of the members, of what they read, or of its topics.
        metadata_hash: of the topics that they read, see `modern.topics`.
        target_epoch: the group epoch of which the target assignment is.
        target_ms: when that was computed (wall clock).
        sessions, revocations: deadlines by member id; not in the log.
        deadlines: all of them.
        member_bytes: size of what members sent, see `limits`.
        topics_version: version of the topics' metadata of which `metadata_hash` is.
        is_assigning: whether a target assignment is being computed.
    """

    type: GroupType
    is_consumer = True
    protocol_type: str

    def __init__(self, group_id: str, limits: GroupLimits) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = FIRST_EPOCH
        self.target_ms = 0
        self.members: dict[str, M] = {}
        self.sessions: dict[str, LazyTimer] = {}
        self.revocations: dict[str, LazyTimer] = {}
        self.deadlines: tuple[dict[str, LazyTimer], ...] = (self.sessions, self.revocations)
        self.member_bytes = 0
        self.is_dead = False
        self.topics_version = -1
        self.is_assigning = False
        self._limits = limits
        self._reconciled: Counter[int] = Counter()

    @property
    @abstractmethod
    def state(self) -> Any:
        """The state, an enum of the group's type."""

    @abstractmethod
    def reads_topic(self, topic: str) -> bool:
        """Return whether the members read this topic."""

    @abstractmethod
    def remove(self, changes: Changes) -> None:
        """Remove all records of the group, whose members stay in memory."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    def check_member(self, member_id: str) -> M:
        """Return a member. Raises: UnknownMember."""
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMember(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def retention_start(self) -> RetentionStart | None:
        """Return when the retention of offsets starts: with their commit. Source: Kafka."""
        return None if self.is_dead else lambda committed: committed.committed_ms

    def release(self) -> None:
        """Subtract a removed group from the limits."""
        self._limits.member_bytes -= self.member_bytes
        self.member_bytes = 0

    def stop_timers(self) -> None:
        """Stop all timers, of a group that is removed from memory."""
        for timers in self.deadlines:
            for timer in timers.values():
                timer.clear()
            timers.clear()

    def _count_bytes(self, size: int) -> None:
        self.member_bytes += size
        self._limits.member_bytes += size

    def _count_reconciled(self, current: CurrentAssignment[Any], step: int) -> None:
        if current.is_reconciled(current.epoch):
            add_count(self._reconciled, current.epoch, step)


C = TypeVar("C", str, int)


def add_count(counter: Counter[C], key: C, step: int) -> None:
    """Add to a count; a key without a count is removed."""
    counter[key] += step
    if not counter[key]:
        del counter[key]
