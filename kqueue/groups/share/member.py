"""A member of a share group, and what it sends and receives."""

from __future__ import annotations

from typing import NamedTuple

from kqueue.groups.modern.assignment import CurrentAssignment, Owned, Wanted
from kqueue.groups.modern.member import ModernMember

Assignment = Wanted[bytes]
"""Topic id -> partitions."""


class ShareSubscription(NamedTuple):
    """The subscription of a member. `topics`: sorted names."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()

    @property
    def rebalance_timeout_ms(self) -> int:
        """The time that it may take to revoke: it has nothing to revoke."""
        return 0


ShareMember = ModernMember[ShareSubscription, bytes]


def current_of(epoch: int, previous_epoch: int, assigned: Assignment) -> CurrentAssignment[bytes]:
    """Return what a member reads. Its epoch is that of the target assignment that it has received;
    it never waits and revokes nothing, since a partition may have several members.
    """
    since = {id: dict.fromkeys(indexes, epoch) for id, indexes in assigned.items()}
    return CurrentAssignment(epoch, previous_epoch, assigned=since)


class ShareHeartbeat(NamedTuple):
    """A ShareGroupHeartbeat. None: not sent, so unchanged."""

    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None = None
    topics: list[str] | None = None
    client_id: str = ""
    client_host: str = ""


class ShareHeartbeatResult(NamedTuple):
    """The answer to a heartbeat. `assigned` None: unchanged since the last answer."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    assigned: Owned[bytes] | None = None


class ShareGroupDescription(NamedTuple):
    """A group, for tools."""

    state: str
    epoch: int
    target_epoch: int
    members: list[ShareMember]
