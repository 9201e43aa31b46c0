"""Consumer groups of a running broker, for tests: who is in them, and how far they have come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kqueue.base.errors import GroupIdNotFound, MalformedMessage
from kqueue.embedded.inspection.broker_calls import NoSuchName, RunOnBroker, appended_visible
from kqueue.groups.coordinator import MemberDescription
from kqueue.groups.schemas import VERSION, ConsumerProtocolAssignment
from kqueue.schema import reader

if TYPE_CHECKING:
    from kqueue.app import Server

ByPartition = dict[str, dict[int, int]]


@dataclass(frozen=True, slots=True, repr=False)
class Member:
    """A member of a group, at one moment. `host`: the address that it connects from; `instance_id`:
    None unless it is a static member.

    `assignment`: topic -> the partitions that it was given; empty before the first rebalance has
    ended, and for groups that are no consumers' (Kafka Connect's workers, say).
    """

    id: str
    client_id: str
    host: str
    instance_id: str | None
    assignment: dict[str, tuple[int, ...]]

    def __repr__(self) -> str:
        parts = [f"{topic}-{','.join(map(str, partitions))}" for topic, partitions in self.assignment.items()]
        return f"<member {self.client_id} at {self.host}: {' '.join(parts) or 'nothing assigned'}>"


@dataclass(frozen=True, slots=True, repr=False)
class Group:
    """A consumer group at one moment.

    `state`: Kafka's word for it: Empty, PreparingRebalance, CompletingRebalance, Stable or Dead.
    `assignor`: the way in which the members share the partitions, None while that is not settled.
    `offsets`: topic -> partition -> committed offset, which is the one of the next record to read.
    `lag`: topic -> partition -> how far that is from the end; topics that are gone are left out.
    """

    id: str
    state: str
    assignor: str | None
    members: tuple[Member, ...]
    offsets: ByPartition
    lag: ByPartition

    def __repr__(self) -> str:
        count = len(self.members)
        members = f"{count} member{'s' * (count != 1)}"
        places = [
            f"{topic}-{partition} at {offset}"
            + (f" (lag {self.lag[topic][partition]})" if partition in self.lag.get(topic, {}) else "")
            for topic, partitions in self.offsets.items()
            for partition, offset in partitions.items()
        ]
        return f"<group {self.id}: {self.state}, {members}; {', '.join(places) or 'nothing committed'}>"

    @property
    def total_lag(self) -> int:
        """Records (offsets) that the group has still to read, of all partitions for which it has
        committed an offset.
        """
        return sum(lag for partitions in self.lag.values() for lag in partitions.values())


class Groups(Mapping[str, Group]):
    """All groups by name, as they are now; a `Group` that was taken out stays as it was."""

    def __init__(self, ask: RunOnBroker) -> None:
        self._ask = ask

    def __getitem__(self, name: str) -> Group:
        async def work(server: Server) -> Group:
            topics = (server.broker.topics.find(topic) for topic in committed(server, name))
            await appended_visible(
                server, [partition for topic in topics if topic is not None for partition in topic.partitions]
            )
            return group_of(server, name)

        return self._ask(work)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __repr__(self) -> str:
        return f"<groups: {', '.join(self._names()) or 'none'}>"

    def _names(self) -> list[str]:
        async def work(server: Server) -> list[str]:
            return names(server)

        return self._ask(work)


def names(server: Server) -> list[str]:
    """The groups that there are. On the broker's thread."""
    return sorted(listed.group_id for listed in server.broker.groups.groups())


def group_of(server: Server, name: str) -> Group:
    """A group as it is now. On the broker's thread. Raises NoSuchName."""
    groups = server.broker.groups
    try:
        described = groups.describe(name)
    except GroupIdNotFound:
        raise NoSuchName("group", name, names(server)) from None
    offsets = committed(server, name)
    lag = {
        topic: _lag(server, topic, partitions)
        for topic, partitions in offsets.items()
        if server.broker.topics.find(topic) is not None
    }
    members = tuple(_member(one) for one in described.members)
    return Group(name, described.state.value, described.protocol_name or None, members, offsets, lag)


def committed(server: Server, name: str) -> ByPartition:
    """Topic -> partition -> committed offset of a group, in order; empty where there is none. On
    the broker's thread.
    """
    found = server.broker.groups.offsets(name)
    return {topic: {index: found[topic][index].offset for index in sorted(found[topic])} for topic in sorted(found)}


def _lag(server: Server, topic: str, offsets: dict[int, int]) -> dict[int, int]:
    partitions = server.broker.topics.get(topic).partitions
    return {
        index: max(partitions[index].high_watermark - offset, 0)
        for index, offset in offsets.items()
        if index < len(partitions)
    }


def _member(member: MemberDescription) -> Member:
    return Member(
        member.member_id,
        member.client_id,
        member.client_host.lstrip("/"),
        member.instance_id,
        _assignment(member.assignment),
    )


def _assignment(data: bytes) -> dict[str, tuple[int, ...]]:
    """What a consumer was given; every version begins with what version 0 has."""
    if len(data) < VERSION.size:
        return {}
    try:
        found, _ = reader(ConsumerProtocolAssignment, 0)(memoryview(data), VERSION.size)
    except MalformedMessage:
        return {}
    return {
        one.topic: tuple(sorted(one.partitions)) for one in sorted(found.assigned_partitions, key=lambda one: one.topic)
    }
