"""One streams group: its topology, and which members have which tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kqueue.groups.group import GroupType
from kqueue.groups.limits import MEMBER_BYTES, GroupLimits
from kqueue.groups.log.changes import Changes
from kqueue.groups.modern.group import ModernGroup
from kqueue.groups.modern.records import RecordType
from kqueue.groups.modern.state import ModernGroupState
from kqueue.groups.streams import records
from kqueue.groups.streams.internal_topics import ConfiguredTopology
from kqueue.groups.streams.member import (
    EndpointPartitions,
    OwnedTasks,
    StreamsGroupMember,
    StreamsMemberMetadata,
    SubtopologyRole,
    TaskAssignment,
    TaskRole,
    roles_of,
)
from kqueue.groups.streams.topology import Topology, topology_bytes

NO_TASKS: TaskAssignment = {}
PROTOCOL_TYPE = "streams"
INITIAL_DELAY = "initial delay"
"""A timer that runs until the first assignment of a group that was empty."""


class StreamsGroup(ModernGroup[StreamsMemberMetadata, SubtopologyRole]):
    """A group and its members.

    Attributes:
        topology: None: no member has sent one.
        configured: the topology against the topics of `topics_version`; None: not looked at yet.
        shutdown_by: the member that asked all to stop; not in the log.
        endpoint_epoch: grows as members with an endpoint get other tasks; not in the log.
        endpoints: by member id, computed on demand.
    """

    type = GroupType.STREAMS
    protocol_type = PROTOCOL_TYPE
    records = records.RECORDS
    no_metadata = StreamsMemberMetadata()

    def __init__(self, group_id: str, limits: GroupLimits) -> None:
        super().__init__(group_id, limits)
        self.topology: Topology | None = None
        self.configured: ConfiguredTopology | None = None
        self.shutdown_by: str | None = None
        self.endpoint_epoch = 0
        self.endpoints: dict[str, EndpointPartitions] = {}
        self._subtopology_of: dict[str, str] = {}
        self._holders: dict[SubtopologyRole, dict[int, set[str]]] = {}

    # --- what follows from the records

    def _state_of_members(self) -> ModernGroupState:
        if self.topology is None or self.topology.epoch != self.group_epoch.validated_topology_epoch:
            return ModernGroupState.NOT_READY
        return super()._state_of_members()

    @property
    def assignment_configs(self) -> tuple[tuple[str, str], ...]:
        """The settings of the last assignment."""
        return self.group_epoch.configs

    @property
    def is_delayed(self) -> bool:
        """Whether the first assignment waits for more members."""
        delay = self.timers.get(INITIAL_DELAY)
        return delay is not None and delay.due_ms is not None

    def subtopology_of(self, topic: str) -> str | None:
        """Return the id of the subtopology that reads a topic; None: none does."""
        return self._subtopology_of.get(topic)

    def reads_topic(self, topic: str) -> bool:
        """Return whether the members read this topic."""
        return bool(self.members) and topic in self._subtopology_of

    def is_unreleased(self, process_id: str, key: SubtopologyRole, task: int) -> bool:
        """Return whether a process must wait for a task: an active one until no member has it; any
        until no other member of the process has it in any role.
        """
        for role in roles_of(key.subtopology):
            tasks = self._holders.get(role)
            if tasks is None or task not in tasks:
                continue
            if role == key and key.role is TaskRole.ACTIVE:
                return True
            if any(self.members[holder].metadata.process_id == process_id for holder in tasks[task]):
                return True
        return False

    def holders(self, key: SubtopologyRole, task: int) -> frozenset[str]:
        """Return the members that have, or still revoke, a task in this role."""
        return frozenset(self._holders.get(key, {}).get(task, ()))

    # --- changes

    def set_topology(self, changes: Changes, topology: Topology) -> None:
        """Set the topology."""
        former = self.topology
        self._set_topology(topology)
        self._log(changes, records.TOPOLOGY, topology, lambda: self._set_topology(former))

    def set_configured(self, changes: Changes, configured: ConfiguredTopology) -> None:
        """Set what follows from the topology and the topics; no record says it."""
        former = self.configured
        self.configured = configured
        self.endpoints.clear()
        changes.add_unlogged(lambda: setattr(self, "configured", former))

    def forget_configured(self) -> None:
        """Look at the topics again with the next heartbeat.

        As Kafka after the heartbeat that makes a group. Its initial delay then ends without an
        assignment, unless another heartbeat came: the next one assigns at once, where an assignment
        of no tasks, while topics are missing, would begin an assignment interval.
        """
        self.configured = None

    def remove_member(self, changes: Changes, member_id: str) -> None:
        """Remove a member; its tasks are free. The last one ends a shutdown of the application."""
        super().remove_member(changes, member_id)
        shutdown_by = self.shutdown_by
        if not self.members:
            self.shutdown_by = None
        changes.add_unlogged(lambda: setattr(self, "shutdown_by", shutdown_by))

    def remove_records(self, changes: Changes) -> None:
        """Remove all records of the group, whose members stay in memory."""
        super().remove_records(changes)
        self._add_tombstone(changes, records.TOPOLOGY.number)  # after the epoch, as in Kafka

    def setters(self) -> list[tuple[RecordType[Any], Callable[[str, Any], None]]]:
        """Return what sets what each record says."""
        return [*super().setters(), (records.TOPOLOGY, lambda _, topology: self._set_topology(topology))]

    # --- indexes

    def _set_topology(self, topology: Topology | None) -> None:
        if self.topology is not None:
            self._count_bytes(-topology_bytes(self.topology))
        if topology is not None:
            self._count_bytes(topology_bytes(topology))
        self.topology = topology
        self._subtopology_of = {} if topology is None else topology.source_topics()

    def size_of(self, member: StreamsGroupMember) -> int:
        """Return the size of a member and of what it sent, in bytes."""
        metadata = member.metadata
        texts = (member.member_id, metadata.instance_id, metadata.rack_id, metadata.client_id, metadata.process_id)
        size = sum(len(text) for text in texts if text) + sum(len(key) + len(value) for key, value in metadata.tags)
        return MEMBER_BYTES + size + (0 if metadata.endpoint is None else len(metadata.endpoint.host))

    def _index(self, member: StreamsGroupMember, step: int) -> None:
        self.endpoints.pop(member.member_id, None)
        if step < 0:
            self._release_tasks(member)
            return
        for key, task in _tasks(member):
            self._holders.setdefault(key, {}).setdefault(task, set()).add(member.member_id)

    def _release_tasks(self, member: StreamsGroupMember) -> None:
        for key, task in _tasks(member):
            holders = self._holders[key]
            holders[task].discard(member.member_id)
            if not holders[task]:
                del holders[task]
            if not holders:
                del self._holders[key]


def _tasks(member: StreamsGroupMember) -> Iterator[tuple[SubtopologyRole, int]]:
    """Yield each task that a member has or revokes, once."""
    yield from _each(member.current.assigned)
    for key, task in _each(member.current.revoking):
        if task not in member.current.assigned.get(key, ()):
            yield key, task


def _each(owned: OwnedTasks) -> Iterator[tuple[SubtopologyRole, int]]:
    for key, tasks in owned.items():
        for task in tasks:
            yield key, task
