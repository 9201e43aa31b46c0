"""The description of a group of any type, with the partitions of its members."""

from __future__ import annotations

from kqueue.admin.group_partitions import CLASSIC
from kqueue.base.errors import MalformedMessage
from kqueue.client import Client, GroupDescription, GroupMember, TopicPartition
from kqueue.groups.log.schemas import VERSION, ConsumerProtocolAssignment
from kqueue.schema import reader

CONSUMER_PROTOCOL = "consumer"


def describe_group(client: Client, name: str, type: str, *, timeout_ms: int | None = None) -> GroupDescription:
    """Return the state, epochs and members of a group; the state Dead: there is no such group.

    Args:
        type: as ListGroups has it; "": of a group that it lacks, and before Kafka 3.8.
    Raises: BrokerRefused: GROUP_ID_NOT_FOUND of a group that is not classic. ClientError.
    """
    if type not in ("", CLASSIC):
        return client.describe_group(name, type, timeout_ms=timeout_ms)
    group = client.describe_classic_group(name, timeout_ms=timeout_ms)
    is_consumers = group.protocol_type == CONSUMER_PROTOCOL
    members = tuple(
        GroupMember(
            member.member_id,
            member.client_id,
            member.host,
            member.instance_id,
            assigned=assigned_partitions(member.assignment) if is_consumers else (),
        )
        for member in group.members
    )
    return GroupDescription(name, CLASSIC, group.state, members, assignor=group.protocol or None)


def assigned_partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions of a consumer's assignment, sorted; none if it can't be decoded.

    Reads only the fields of version 0, which every version begins with.
    """
    if len(assignment) < VERSION.size:
        return ()
    try:
        read, _ = reader(ConsumerProtocolAssignment, 0)(memoryview(assignment), VERSION.size)
    except MalformedMessage:
        return ()
    return tuple(
        sorted(TopicPartition(topic.topic, index) for topic in read.assigned_partitions for index in topic.partitions)
    )
