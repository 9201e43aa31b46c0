"""The partitions that are read at each endpoint: where interactive queries of a key are answered.
Source: KIP-1071, Kafka EndpointToPartitionsManager.
"""

from __future__ import annotations

from kqueue.groups.modern.topics import TopicsMetadata
from kqueue.groups.streams.group import StreamsGroup
from kqueue.groups.streams.member import EndpointPartitions, StreamsGroupMember, TaskRole, tasks_of

ENDPOINTS_MAX = 1000
"""Endpoints in one answer: about 20 ms of the loop. Members of a larger group learn none."""
COMPUTED_MAX = 200
"""Endpoints that one heartbeat computes."""


def endpoints_of(group: StreamsGroup, topics: TopicsMetadata) -> list[EndpointPartitions] | None:
    """Return the endpoints of all members that have one; empty while the topology is not ready.

    None: they are more than one heartbeat computes; the next one goes on.
    """
    missing = [
        member_id
        for member_id, member in group.members.items()
        if member.metadata.endpoint is not None and member_id not in group.endpoints
    ]
    if len(missing) + len(group.endpoints) > ENDPOINTS_MAX:
        return []
    if group.configured is None or not group.configured.is_ready or group.topology is None:
        return []
    for member_id in missing[:COMPUTED_MAX]:
        member = group.members[member_id]
        endpoint = member.metadata.endpoint
        if endpoint is not None:
            group.endpoints[member_id] = EndpointPartitions(
                endpoint,
                partitions_of(group, member, TaskRole.ACTIVE, topics),
                partitions_of(group, member, TaskRole.STANDBY, topics),
            )
    return list(group.endpoints.values()) if len(missing) <= COMPUTED_MAX else None


def partitions_of(
    group: StreamsGroup, member: StreamsGroupMember, role: TaskRole, topics: TopicsMetadata
) -> dict[str, list[int]]:
    """Return topic -> partitions that a member reads in a role; a topic may have fewer partitions
    than its subtopology has tasks.
    """
    tasks = tasks_of(member.current.assigned, role)
    partitions: dict[str, list[int]] = {}
    for one in group.topology.subtopologies if group.topology is not None and tasks else ():
        for name in one.topics() if one.id in tasks else ():
            topic = topics.find(name)
            if topic is not None:
                partitions[name] = [task for task in tasks[one.id] if task < topic.partition_count]
    return partitions
