"""Groups of a running broker, of all types, for tests: members, offsets and lag."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kqueue.base.errors import GroupIdNotFound, KqueueError, MalformedMessage, NotCoordinator
from kqueue.broker.coordinators.group_topics import GroupTopics
from kqueue.embedded.inspection.broker_calls import NoSuchName, RunOnBroker, appended_visible
from kqueue.groups.classic.group import MemberDescription
from kqueue.groups.consumer.member import ConsumerGroupMember
from kqueue.groups.group import GroupType
from kqueue.groups.log.schemas import VERSION, ConsumerProtocolAssignment
from kqueue.groups.share.member import ShareMember
from kqueue.groups.streams.endpoints import partitions_of
from kqueue.groups.streams.group import StreamsGroup
from kqueue.groups.streams.member import StreamsGroupMember, TaskRole
from kqueue.schema import reader
from kqueue.share.share_state import NO_OFFSET, SharePartitionKey, ShareState

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
    """A group at one moment.

    `state`: as in Kafka: Empty, Stable or Dead; PreparingRebalance or CompletingRebalance of the
    classic protocol, Assigning or Reconciling of the consumer and the streams protocol, NotReady of
    the streams protocol.
    `assignor`: name of the partition assignor; None: not chosen yet, or the type has none.
    `offsets`: topic -> partition -> committed offset, that of the next record to read. Of a share
    group: its start offset, below which all records are done.
    `lag`: topic -> partition -> offsets up to the end; deleted topics, and partitions of which the
    broker has no replica, are left out. Of a share
    group: without the records that are done.
    `type`: classic, consumer, share or streams.
    """

    id: str
    state: str
    assignor: str | None
    members: tuple[Member, ...]
    offsets: ByPartition
    lag: ByPartition
    type: str = "classic"

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
        """The sum of `lag`: offsets to be read, of the partitions with an offset."""
        return sum(lag for partitions in self.lag.values() for lag in partitions.values())


class Groups(Mapping[str, Group]):
    """All groups by name, at the present moment. A `Group` is a snapshot and does not change."""

    def __init__(self, ask: RunOnBroker) -> None:
        self._ask = ask

    def __getitem__(self, name: str) -> Group:
        async def work(server: Server) -> Group:
            _check_coordinator(server, name)
            topics = [server.broker.topics.find(topic) for topic in await committed(server, name)]
            partitions = [one for topic in topics if topic is not None for one in topic.partitions if one.has_replica]
            await appended_visible(server, partitions)
            return await group_of(server, name)

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
    return sorted(listed.group_id for listed in server.broker.coordinators.groups.groups())


async def group_of(server: Server, name: str) -> Group:
    """Return a group at the present moment. Thread: the broker's own. Raises NoSuchName."""
    _check_coordinator(server, name)
    _described(server, name)
    states = await _share_states(server, name)
    described = _described(server, name)  # again, as it may have changed while the states were read
    offsets = _offsets(server, name, states)
    lag = {
        topic: _lag(server, topic, partitions, states)
        for topic, partitions in offsets.items()
        if server.broker.topics.find(topic) is not None
    }
    return Group(name, described.state, described.assignor, described.members, offsets, lag, described.type)


class OtherCoordinator(NoSuchName):
    """The group may exist, but another broker of the cluster has it."""

    def __init__(self, name: str) -> None:
        KeyError.__init__(
            self, f"there is no group {name!r} on this broker, which is not its coordinator; look at cluster.groups"
        )


def _check_coordinator(server: Server, name: str) -> None:
    """Raise OtherCoordinator, of a member of a cluster."""
    try:
        server.broker.coordinators.groups.offsets(name)
    except NotCoordinator:
        raise OtherCoordinator(name) from None


class _Described(NamedTuple):
    """A group without its offsets."""

    type: str
    state: str
    assignor: str | None
    members: tuple[Member, ...]


def _described(server: Server, name: str) -> _Described:
    """Return type, state, assignor and members of a group. Raises NoSuchName."""
    groups = server.broker.coordinators.groups
    if (consumer := groups.consumer.find(name)) is not None:
        assignor = consumer.preferred_assignor(groups.config.assignors)
        members = tuple(_consumer(server, one) for one in consumer.members.values())
        return _Described(consumer.type.value, consumer.state.value, assignor, members)
    if (streams := groups.streams.find(name)) is not None:
        members = tuple(_streams(server, streams, one) for one in streams.members.values())
        return _Described(streams.type.value, streams.state.value, None, members)
    if (share := groups.share.find(name)) is not None:
        members = tuple(_share(server, one) for one in share.members.values())
        return _Described(share.type.value, share.state.value, None, members)
    try:
        classic = groups.describe(name)
    except GroupIdNotFound:
        raise NoSuchName("group", name, names(server)) from None
    members = tuple(_member(one) for one in classic.members)
    return _Described(GroupType.CLASSIC.value, classic.state.value, classic.protocol_name or None, members)


def _consumer(server: Server, member: ConsumerGroupMember) -> Member:
    subscription = member.metadata
    assignment = _by_name(server, member.current.assigned)
    host = subscription.client_host.lstrip("/")
    return Member(member.member_id, subscription.client_id, host, subscription.instance_id, assignment)


def _share(server: Server, member: ShareMember) -> Member:
    subscription = member.metadata
    host = subscription.client_host.lstrip("/")
    assignment = _by_name(server, member.current.assigned)
    return Member(member.member_id, subscription.client_id, host, None, assignment)


def _by_name(server: Server, assigned: Mapping[bytes, Iterable[int]]) -> dict[str, tuple[int, ...]]:
    """Return topic -> partitions of an assignment by topic ids, without deleted topics."""
    return {
        topic.name: tuple(sorted(indexes))
        for id, indexes in assigned.items()
        if (topic := server.broker.topics.find_by_id(id)) is not None
    }


def _streams(server: Server, group: StreamsGroup, member: StreamsGroupMember) -> Member:
    """Return a member with the partitions that its active tasks read."""
    metadata = member.metadata
    partitions = partitions_of(
        group, member, TaskRole.ACTIVE, GroupTopics(server.broker.topics, server.broker.metadata.cluster)
    )
    assignment = {name: tuple(indexes) for name, indexes in partitions.items()}
    host = metadata.client_host.lstrip("/")
    return Member(member.member_id, metadata.client_id, host, metadata.instance_id, assignment)


async def committed(server: Server, name: str) -> ByPartition:
    """Return topic -> partition -> offset of a group, sorted; empty: none. Of a share group: its
    start offsets.

    Thread: the broker's own.
    """
    return _offsets(server, name, await _share_states(server, name))


ShareStates = dict[str, dict[int, ShareState]]
"""Topic -> partition -> what is persisted of a share partition that has a start offset."""


async def _share_states(server: Server, name: str) -> ShareStates | None:
    """Return the states of a share group; None: it is of another type."""
    group = server.broker.coordinators.groups.share.find(name)
    if group is None:
        return None
    states: ShareStates = {}
    for id, topic in sorted(group.state_partitions.initialized.items(), key=lambda item: item[1].name):
        for index in sorted(topic.partitions):
            with contextlib.suppress(KqueueError):  # deleted meanwhile, or its coordinator does not answer
                state = await server.result(server.broker.share.summary(SharePartitionKey(name, id, index)))
                if state is not None and state.start_offset != NO_OFFSET:
                    states.setdefault(topic.name, {})[index] = state
    return states


def _offsets(server: Server, name: str, states: ShareStates | None) -> ByPartition:
    if states is not None:
        return {
            topic: {index: one.start_offset for index, one in partitions.items()}
            for topic, partitions in states.items()
        }
    offsets = server.broker.coordinators.groups.offsets(name)
    return {
        topic: {index: offsets[topic][index].offset for index in sorted(offsets[topic])} for topic in sorted(offsets)
    }


def _lag(server: Server, topic: str, offsets: dict[int, int], states: ShareStates | None) -> dict[int, int]:
    partitions = server.broker.topics.get(topic).partitions
    done = {index: max(one.delivery_complete_count, 0) for index, one in (states or {}).get(topic, {}).items()}
    return {
        index: max(partitions[index].high_watermark - offset - done.get(index, 0), 0)
        for index, offset in offsets.items()
        if index < len(partitions) and partitions[index].has_replica
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
