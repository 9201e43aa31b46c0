"""A member of a consumer group: two immutable parts, as its two records have them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from kqueue.groups.consumer.state import ConsumerMemberState

Partitions = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> the member epoch at which it was assigned (KIP-1251)."""
Assignment = Mapping[bytes, frozenset[int]]
"""Topic id -> partitions."""
NO_PARTITIONS: Partitions = MappingProxyType({})
EPOCH_JOIN = 0
EPOCH_LEAVE = -1
EPOCH_LEAVE_STATIC = -2


class ClassicProtocols(NamedTuple):
    """What a member of the classic protocol sent: its protocols, name -> metadata."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class Subscription(NamedTuple):
    """What a member sends. `regex` "": none. `classic` None: it uses the consumer protocol."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    regex: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicProtocols | None = None


class CurrentAssignment(NamedTuple):
    """What a member owns.

    Attributes:
        epoch: of the target assignment that it has reached; -2: a static member that is away.
        assigned: what it owns, or shall take.
        revoking: what it must revoke first.
    """

    epoch: int = 0
    previous_epoch: int = 0
    state: ConsumerMemberState = ConsumerMemberState.STABLE
    assigned: Partitions = NO_PARTITIONS
    revoking: Partitions = NO_PARTITIONS


def all_owned(current: CurrentAssignment) -> Assignment:
    """Return what a member has: also what it must revoke and has not yet."""
    owned = {topic: frozenset(indexes) for topic, indexes in current.assigned.items()}
    for topic, indexes in current.revoking.items():
        owned[topic] = owned.get(topic, frozenset()) | indexes.keys()
    return owned


class ConsumerGroupMember(NamedTuple):
    """One member."""

    member_id: str
    subscription: Subscription = Subscription()
    current: CurrentAssignment = CurrentAssignment()

    def is_reconciled(self, target_epoch: int) -> bool:
        """Return whether it has reached the target assignment of this epoch."""
        return self.current.state is ConsumerMemberState.STABLE and self.current.epoch == target_epoch


class HeartbeatRequest(NamedTuple):
    """A ConsumerGroupHeartbeat. None: not sent, so unchanged.

    Attributes:
        id_required: the member must choose its id (version 1 and later).
        owned: the partitions that it owns, topic id -> partitions.
    """

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: list[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Assignment | None = None
    client_id: str = ""
    client_host: str = ""
    id_required: bool = True


class HeartbeatResult(NamedTuple):
    """The answer to a heartbeat. `assigned` None: unchanged since the last answer."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    assigned: Partitions | None = None


class ConsumerMemberDescription(NamedTuple):
    """A member, for tools. `target`: what it shall own in the end."""

    member: ConsumerGroupMember
    target: Assignment


class ConsumerGroupDescription(NamedTuple):
    """A group, for tools."""

    state: str
    epoch: int
    target_epoch: int
    assignor: str
    members: list[ConsumerMemberDescription]
