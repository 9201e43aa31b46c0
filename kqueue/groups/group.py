"""What the coordinator asks of a group of any type."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Protocol

from kqueue.groups.log.records import CommittedOffset

RetentionStart = Callable[[CommittedOffset], int]
"""When the retention of a committed offset starts (wall clock, ms)."""


class GroupType(enum.Enum):
    """Type of a group; the value is its name in the protocol."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Group(Protocol):
    """A group. `state.value` is the name of its state in the protocol."""

    group_id: str

    @property
    def type(self) -> GroupType:
        """Which protocol its members use."""
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

    def retention_start(self) -> RetentionStart | None:
        """Return when the retention of the group's offsets starts; None: it is paused."""
        ...
