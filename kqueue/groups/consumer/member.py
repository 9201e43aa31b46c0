"""The data that members of consumer groups send and receive."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from kqueue.groups.modern.assignment import NOTHING_OWNED, CurrentAssignment, Owned, Wanted
from kqueue.groups.modern.member import ModernMember, ModernMemberDescription

Partitions = Owned[bytes]
"""Topic id -> partition -> the member epoch at which it was assigned (KIP-1251)."""
Assignment = Wanted[bytes]
"""Topic id -> partitions."""
NO_PARTITIONS: Partitions = NOTHING_OWNED


class ClassicProtocols(NamedTuple):
    """The data that a member of the classic protocol sent: its protocols, name -> metadata."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class Subscription(NamedTuple):
    """The subscription that a member sends. `regex` "": none. `classic` None: it uses the consumer
    protocol.
    """

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    regex: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicProtocols | None = None


def all_owned(current: CurrentAssignment[bytes]) -> Assignment:
    """Return what a member has: also what it must revoke and has not yet."""
    owned = {topic: frozenset(indexes) for topic, indexes in current.assigned.items()}
    for topic, indexes in current.revoking.items():
        owned[topic] = owned.get(topic, frozenset()) | indexes.keys()
    return owned


ConsumerGroupMember = ModernMember[Subscription, bytes]
TopicFilter = Callable[[Iterable[str]], Collection[str]]
"""Returns those of some topics that a client may know of."""


def every_topic(names: Iterable[str]) -> Collection[str]:
    """Return all names: the filter without access control."""
    return frozenset(names)


class HeartbeatRequest(NamedTuple):
    """A ConsumerGroupHeartbeat. None: not sent, so unchanged.

    Attributes:
        visible: the topics that the member's pattern may find. It is kept until the member's next
            heartbeat.
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
    visible: TopicFilter = every_topic


class HeartbeatResult(NamedTuple):
    """The answer to a heartbeat. `assigned` None: unchanged since the last answer."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    assigned: Partitions | None = None


class ConsumerGroupDescription(NamedTuple):
    """A group, for tools."""

    state: str
    epoch: int
    target_epoch: int
    assignor: str
    members: list[ModernMemberDescription[Subscription, bytes]]
