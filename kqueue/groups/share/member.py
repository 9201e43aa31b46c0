"""A member of a share group, and what it sends and receives."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

Assignment = Mapping[bytes, frozenset[int]]
"""Topic id -> partitions."""
NOTHING: Assignment = MappingProxyType({})
EPOCH_JOIN = 0
EPOCH_LEAVE = -1


class ShareSubscription(NamedTuple):
    """What a member subscribes to. `topics`: sorted names."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()


class ShareMember(NamedTuple):
    """One member. `epoch`: of the target assignment that it has received."""

    member_id: str
    subscription: ShareSubscription = ShareSubscription()
    epoch: int = 0
    previous_epoch: int = 0
    assigned: Assignment = NOTHING


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
    assigned: Assignment | None = None


class ShareGroupDescription(NamedTuple):
    """A group, for tools."""

    state: str
    epoch: int
    target_epoch: int
    members: list[ShareMember]
