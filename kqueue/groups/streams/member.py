"""The data that members of streams groups send, own and receive."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from kqueue.groups.modern.assignment import CurrentAssignment, Owned, Wanted
from kqueue.groups.modern.member import ModernMember, ModernMemberDescription
from kqueue.groups.streams.topology import InternalTopic, Topology


class TaskRole(enum.IntEnum):
    """The roles that a member can have for a task."""

    ACTIVE = 0
    """It processes records. One member has a task in this role."""
    STANDBY = 1
    """It keeps a copy of the state, on another process than the active task."""
    WARMUP = 2
    """It copies the state, to become active. Kafka 4.3 assigns none."""


class SubtopologyRole(NamedTuple):
    """A role of the tasks of one subtopology."""

    role: TaskRole
    subtopology: str


@lru_cache(maxsize=1024)
def roles_of(subtopology: str) -> tuple[SubtopologyRole, ...]:
    """Return all roles of the tasks of a subtopology."""
    return tuple(SubtopologyRole(role, subtopology) for role in TaskRole)


TasksBySubtopology = Mapping[str, frozenset[int]]
"""Subtopology id -> tasks; a task has the index of the partitions that it reads."""
TaskAssignment = Wanted[SubtopologyRole]
OwnedTasks = Owned[SubtopologyRole]


def tasks_of(assigned: OwnedTasks, role: TaskRole) -> dict[str, list[int]]:
    """Return subtopology id -> tasks that a member has in one role, in order."""
    return {key.subtopology: sorted(assigned[key]) for key in sorted(assigned) if key.role is role and assigned[key]}


def with_epochs_of_active(current: CurrentAssignment[SubtopologyRole]) -> CurrentAssignment[SubtopologyRole]:
    """Return an assignment in which only active tasks have epochs of their own, as in records."""

    def of(owned: OwnedTasks) -> OwnedTasks:
        return {
            key: tasks if key.role is TaskRole.ACTIVE else dict.fromkeys(tasks, current.epoch)
            for key, tasks in owned.items()
        }

    return current._replace(assigned=of(current.assigned), revoking=of(current.revoking))


class MemberEndpoint(NamedTuple):
    """The address at which a member answers interactive queries."""

    host: str
    port: int


class StreamsMemberMetadata(NamedTuple):
    """The data that a member sends of itself.

    Attributes:
        process_id: of the process (JVM) in which it is a thread. Copies of a task's state are on
            different processes.
    """

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: MemberEndpoint | None = None
    tags: tuple[tuple[str, str], ...] = ()


StreamsGroupMember = ModernMember[StreamsMemberMetadata, SubtopologyRole]


class StreamsHeartbeat(NamedTuple):
    """A StreamsGroupHeartbeat. None: not sent, so unchanged.

    Attributes:
        endpoint_epoch: of the endpoints that the member knows.
        active, standby, warmup: the tasks that it owns: all of them are sent, or none.
        has_offsets, has_end_offsets: whether it sent offsets of tasks.
        has_patterns: whether its topology has patterns of source topics.
        shutdown: the member asks all others to stop.
    """

    group_id: str
    member_id: str
    member_epoch: int
    endpoint_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: Topology | None = None
    active: TasksBySubtopology | None = None
    standby: TasksBySubtopology | None = None
    warmup: TasksBySubtopology | None = None
    process_id: str | None = None
    endpoint: MemberEndpoint | None = None
    tags: tuple[tuple[str, str], ...] | None = None
    has_offsets: bool = False
    has_end_offsets: bool = False
    has_patterns: bool = False
    shutdown: bool = False
    client_id: str = ""
    client_host: str = ""

    def owned(self) -> TaskAssignment | None:
        """Return the tasks that the member says it owns; None: it did not say."""
        if self.active is None or self.standby is None or self.warmup is None:
            return None
        roles = zip(TaskRole, (self.active, self.standby, self.warmup), strict=True)
        return {SubtopologyRole(role, one): tasks for role, owned in roles for one, tasks in owned.items() if tasks}


class StatusCode(enum.IntEnum):
    """The statuses that a group tells its members beside their tasks. Source: Kafka
    StreamsGroupHeartbeatResponse.
    """

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Status(NamedTuple):
    """A status, with words that the client prints."""

    code: StatusCode
    detail: str


class EndpointPartitions(NamedTuple):
    """The partitions that a member reads; `active`, `standby`: topic -> partitions."""

    endpoint: MemberEndpoint
    active: Mapping[str, list[int]]
    standby: Mapping[str, list[int]]


class StreamsHeartbeatResult(NamedTuple):
    """The answer to a heartbeat.

    Attributes:
        assigned: None: unchanged since the last answer.
        endpoints: None: the member knows them.
        missing: internal topics to create.
    """

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    statuses: tuple[Status, ...] = ()
    assigned: OwnedTasks | None = None
    endpoint_epoch: int = 0
    endpoints: list[EndpointPartitions] | None = None
    missing: tuple[InternalTopic, ...] = ()


class StreamsGroupDescription(NamedTuple):
    """A group, for tools.

    `topic_counts`: partitions of its internal topics, once they are there.
    """

    state: str
    epoch: int
    target_epoch: int
    topology: Topology | None
    topic_counts: Mapping[str, int]
    members: list[ModernMemberDescription[StreamsMemberMetadata, SubtopologyRole]]
