"""Consumer groups of a running broker, for tests: members, committed offsets and lag."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kqueue.base.errors import GroupIdNotFound, MalformedMessage
from kqueue.broker.group_topics import GroupTopics
from kqueue.embedded.inspection.broker_calls import NoSuchName, RunOnBroker, appended_visible
from kqueue.groups.classic.group import MemberDescription
from kqueue.groups.consumer.member import ConsumerGroupMember
from kqueue.groups.log.schemas import VERSION, ConsumerProtocolAssignment
from kqueue.groups.streams.endpoints import partitions_of
from kqueue.groups.streams.group import StreamsGroup
from kqueue.groups.streams.member import StreamsGroupMember, TaskRole
from kqueue.schema import reader

if TYPE_CHECKING:
    from kqueue.app import Server

ByPartition = dict[str, dict[int, int]]


@dataclass(frozen=True, slots=True, repr=False)
class Member:
    """A member of a group, at one moment.

    `host`: the address that it connects from. `instance_id`: None unless it is a static member.
    `assignment`: topic -> its partitions; empty before the end of the first rebalance, and for
    groups of other clients than consumers (Kafka Connect's workers).
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

    `state`: as in Kafka: Empty, Stable or Dead; PreparingRebalance or CompletingRebalance of the
    classic protocol, Assigning or Reconciling of the consumer protocol.
    `assignor`: name of the partition assignor; None: not chosen yet.
    `offsets`: topic -> partition -> committed offset, that of the next record to read.
    `lag`: topic -> partition -> offsets up to the end; deleted topics are left out.
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
        """The sum of `lag`: offsets to be read, of the partitions with a committed offset."""
        return sum(lag for partitions in self.lag.values() for lag in partitions.values())


class Groups(Mapping[str, Group]):
    """All groups by name, at the present moment. A `Group` is a snapshot and does not change."""

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
    """Return the names of all groups. Thread: the broker's own."""
    return sorted(listed.group_id for listed in server.broker.groups.groups())


def group_of(server: Server, name: str) -> Group:
    """Return a group at the present moment. Thread: the broker's own. Raises NoSuchName."""
    state, assignor, members = _described(server, name)
    offsets = committed(server, name)
    lag = {
        topic: _lag(server, topic, partitions)
        for topic, partitions in offsets.items()
        if server.broker.topics.find(topic) is not None
    }
    return Group(name, state, assignor, members, offsets, lag)


def _described(server: Server, name: str) -> tuple[str, str | None, tuple[Member, ...]]:
    """Return state, assignor and members of a group. Raises NoSuchName."""
    groups = server.broker.groups
    consumer = groups.consumer.find(name)
    if consumer is not None:
        assignor = consumer.preferred_assignor(groups.config.assignors)
        return consumer.state.value, assignor, tuple(_consumer(server, one) for one in consumer.members.values())
    streams = groups.streams.find(name)
    if streams is not None:
        return streams.state.value, None, tuple(_streams(server, streams, one) for one in streams.members.values())
    try:
        described = groups.describe(name)
    except GroupIdNotFound:
        raise NoSuchName("group", name, names(server)) from None
    return described.state.value, described.protocol_name or None, tuple(_member(one) for one in described.members)


def _consumer(server: Server, member: ConsumerGroupMember) -> Member:
    subscription = member.subscription
    assignment = {
        topic.name: tuple(sorted(indexes))
        for id, indexes in member.current.assigned.items()
        if (topic := server.broker.topics.find_by_id(id)) is not None
    }
    host = subscription.client_host.lstrip("/")
    return Member(member.member_id, subscription.client_id, host, subscription.instance_id, assignment)


def _streams(server: Server, group: StreamsGroup, member: StreamsGroupMember) -> Member:
    """Return a member with the partitions that its active tasks read."""
    metadata = member.metadata
    partitions = partitions_of(group, member, TaskRole.ACTIVE, GroupTopics(server.broker.topics, server.broker.cluster))
    assignment = {name: tuple(indexes) for name, indexes in partitions.items()}
    host = metadata.client_host.lstrip("/")
    return Member(member.member_id, metadata.client_id, host, metadata.instance_id, assignment)


def committed(server: Server, name: str) -> ByPartition:
    """Return topic -> partition -> committed offset of a group, sorted; empty: none committed.

    Thread: the broker's own.
    """
    offsets = server.broker.groups.offsets(name)
    return {
        topic: {index: offsets[topic][index].offset for index in sorted(offsets[topic])} for topic in sorted(offsets)
    }


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
    """Decode a consumer's assignment; every version begins with the fields of version 0."""
    if len(data) < VERSION.size:
        return {}
    try:
        assignment, _ = reader(ConsumerProtocolAssignment, 0)(memoryview(data), VERSION.size)
    except MalformedMessage:
        return {}
    return {
        one.topic: tuple(sorted(one.partitions))
        for one in sorted(assignment.assigned_partitions, key=lambda one: one.topic)
    }
