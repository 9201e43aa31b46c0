"""The interface of a group of any type, for the coordinator."""

from __future__ import annotations

import enum
from collections.abc import Callable, MutableMapping
from typing import Any, NamedTuple, Protocol

from kqueue.groups.log.changes import Changes
from kqueue.groups.log.records import CommittedOffset

RetentionStart = Callable[[CommittedOffset], int]
"""When the retention of a committed offset starts (wall clock, ms)."""


class GroupType(enum.Enum):
    """Type of a group; the value is its name in the protocol."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Committer(NamedTuple):
    """The client that commits offsets.

    Attributes:
        epoch: of the member, in a classic group its generation; -1: it is no member.
        in_transaction: the offsets are part of a producer's transaction.
    """

    epoch: int
    member_id: str
    instance_id: str | None
    in_transaction: bool = False

    @property
    def is_anonymous(self) -> bool:
        """Whether it names no member."""
        return self.epoch < 0 and not self.member_id and self.instance_id is None

    @property
    def is_producer(self) -> bool:
        """Whether it is the producer of a transaction that leaves its member away, as before
        KIP-447.
        """
        return self.in_transaction and self.is_anonymous and self.epoch == -1


class Group(Protocol):
    """A group. `state.value` is the name of its state in the protocol."""

    group_id: str

    @property
    def type(self) -> GroupType:
        """The protocol that its members use."""
        ...

    @property
    def state(self) -> Any:
        """The state, an enum of the group's type."""
        ...

    @property
    def protocol_type(self) -> str | None:
        """``consumer`` for consumers; None: it never had members."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        ...

    @property
    def member_count(self) -> int:
        """The number of its members."""
        ...

    @property
    def keeps_offsets(self) -> bool:
        """Whether its members commit offsets: those of share groups do not."""
        ...

    @property
    def can_expire(self) -> bool:
        """Whether it is removed when it has no offsets any more."""
        ...

    @property
    def is_consumer(self) -> bool:
        """Whether its members are consumers, whose subscriptions are known."""
        ...

    @property
    def is_dead(self) -> bool:
        """Whether it is being deleted."""
        ...

    def reads_topic(self, topic: str) -> bool:
        """Return whether the members may read this topic, so that its offsets must stay."""
        ...

    def remove_records(self, changes: Changes) -> None:
        """Remove all records of the group, whose members stay in memory."""
        ...

    def put_back(self, groups: MutableMapping[str, Group]) -> None:
        """Take its place again, after the group in its place could not be written."""
        ...

    def release(self) -> None:
        """Subtract a removed group from the limits."""
        ...

    def retention_start(self) -> RetentionStart | None:
        """Return when the retention of the group's offsets starts; None: it is paused."""
        ...
