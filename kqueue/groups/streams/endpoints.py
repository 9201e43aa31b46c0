"""Which partitions are read at which endpoint: where interactive queries of a key are answered.
Source: KIP-1071, Kafka EndpointToPartitionsManager.
"""

from __future__ import annotations

from kqueue.groups.modern.topics import TopicsMetadata
from kqueue.groups.streams.group import StreamsGroup
from kqueue.groups.streams.member import EndpointPartitions, StreamsGroupMember, TaskRole, tasks_of


def endpoints_of(group: StreamsGroup, topics: TopicsMetadata) -> list[EndpointPartitions]:
    """Return the endpoints of all members that have one; empty while the topology is not ready."""
    if group.configured is None or not group.configured.is_ready or group.topology is None:
        return []
    reads = {one.id: tuple(dict.fromkeys(one.topics())) for one in group.topology.subtopologies}
    for member_id, member in group.members.items():
        endpoint = member.metadata.endpoint
        if endpoint is not None and member_id not in group.endpoints:
            group.endpoints[member_id] = EndpointPartitions(
                endpoint,
                _partitions(member, TaskRole.ACTIVE, reads, topics),
                _partitions(member, TaskRole.STANDBY, reads, topics),
            )
    return list(group.endpoints.values())


def _partitions(
    member: StreamsGroupMember, role: TaskRole, reads: dict[str, tuple[str, ...]], topics: TopicsMetadata
) -> dict[str, list[int]]:
    """Return topic -> partitions; a topic may have fewer partitions than its subtopology tasks."""
    partitions: dict[str, list[int]] = {}
    for subtopology, tasks in tasks_of(member.current.assigned, role).items():
        for name in reads.get(subtopology, ()):
            topic = topics.find(name)
            if topic is not None:
                partitions[name] = [task for task in tasks if task < topic.partition_count]
    return partitions
