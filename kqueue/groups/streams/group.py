"""One streams group: what its records say, and indexes of it. Data only: no clock, no log.

Each change is made in memory and added to `Changes` with its record and its reverse.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

from kqueue.groups.group import GroupType
from kqueue.groups.lazy_timer import LazyTimer
from kqueue.groups.limits import MEMBER_BYTES, GroupLimits
from kqueue.groups.log import streams_records as records
from kqueue.groups.log.streams_records import GroupEpoch
from kqueue.groups.modern.assignment import CurrentAssignment
from kqueue.groups.modern.changes import Changes
from kqueue.groups.modern.group import ModernGroup
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


# The states of streams groups; `modern.assignment` has those of members. Source: KIP-1071.
#
# Empty        there are no members
# NotReady     source topics or internal topics are missing, or have other numbers of partitions
# Assigning    the target assignment is older than the group epoch
# Reconciling  not all members have reached the target assignment
# Stable       all members have
# Dead         it is being deleted


class StreamsGroupState(enum.Enum):
    """State of a group; the value is its name in the protocol."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class StreamsGroup(ModernGroup[StreamsGroupMember]):
    """A group and its members.

    Attributes:
        topology: None: no member has sent one.
        configured: the topology against the topics of `topics_version`; None: not looked at yet.
        validated_topology_epoch: of the topology whose topics are there; -1: some are missing.
        assignment_configs: settings of the last assignment.
        targets: by member id.
        shutdown_by: the member that asked all to stop; not in the log.
        endpoint_epoch: grows as members with an endpoint get other tasks; not in the log.
        endpoints: by member id, computed on demand.
        initial_delay: runs until the first assignment of a group that was empty.
    """

    type = GroupType.STREAMS
    protocol_type = PROTOCOL_TYPE

    def __init__(self, group_id: str, limits: GroupLimits) -> None:
        super().__init__(group_id, limits)
        self.topology: Topology | None = None
        self.configured: ConfiguredTopology | None = None
        self.validated_topology_epoch = 0
        self.assignment_configs: tuple[tuple[str, str], ...] = ()
        self.targets: dict[str, TaskAssignment] = {}
        self.shutdown_by: str | None = None
        self.endpoint_epoch = 0
        self.endpoints: dict[str, EndpointPartitions] = {}
        self.initial_delay: LazyTimer | None = None
        self._subtopology_of: dict[str, str] = {}
        self._holders: dict[SubtopologyRole, dict[int, set[str]]] = {}

    # --- what follows from the records

    @property
    def state(self) -> StreamsGroupState:
        """The state of the group."""
        if self.is_dead:
            return StreamsGroupState.DEAD
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.target_epoch:
            return StreamsGroupState.ASSIGNING
        is_stable = self._reconciled[self.target_epoch] == len(self.members)
        return StreamsGroupState.STABLE if is_stable else StreamsGroupState.RECONCILING

    @property
    def is_delayed(self) -> bool:
        """Whether the first assignment waits for more members."""
        return self.initial_delay is not None and self.initial_delay.due_ms is not None

    def subtopology_of(self, topic: str) -> str | None:
        """Return the id of the subtopology that reads a topic; None: none does."""
        return self._subtopology_of.get(topic)

    def reads_topic(self, topic: str) -> bool:
        """Return whether the members read this topic."""
        return bool(self.members) and topic in self._subtopology_of

    def target_of(self, member_id: str) -> TaskAssignment:
        """Return the target assignment of a member."""
        return self.targets.get(member_id, NO_TASKS)

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

    def set_epoch(self, changes: Changes, epoch: GroupEpoch) -> None:
        """Set the group epoch, and what it was raised for."""
        former = GroupEpoch(self.epoch, self.metadata_hash, self.validated_topology_epoch, self.assignment_configs)
        self._set_epoch(epoch)
        key = records.key(records.GROUP_EPOCH, self.group_id)
        changes.add(key, records.epoch_value(epoch), lambda: self._set_epoch(former))

    def set_target_epoch(self, changes: Changes, epoch: int, now_ms: int) -> None:
        """Record that `targets` are the assignment of this epoch."""
        former = self.target_epoch, self.target_ms

        def undo() -> None:
            self.target_epoch, self.target_ms = former

        self.target_epoch, self.target_ms = epoch, now_ms
        key = records.key(records.TARGET_EPOCH, self.group_id)
        changes.add(key, records.target_epoch_value(epoch, now_ms), undo)

    def set_topology(self, changes: Changes, topology: Topology) -> None:
        """Set the topology."""
        former = self.topology
        self._set_topology(topology)
        key = records.key(records.TOPOLOGY, self.group_id)
        changes.add(key, records.topology_value(topology), lambda: self._set_topology(former))

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

    def put_metadata(self, changes: Changes, member_id: str, metadata: StreamsMemberMetadata) -> None:
        """Set what a member sent; adds the member if it is new."""
        former = self.members.get(member_id)
        member = StreamsGroupMember(member_id) if former is None else former
        self._replace(member_id, member._replace(metadata=metadata))
        key = records.key(records.MEMBER_METADATA, self.group_id, member_id)
        changes.add(key, records.metadata_value(metadata), lambda: self._replace(member_id, former))

    def put_current(self, changes: Changes, member_id: str, current: CurrentAssignment[SubtopologyRole]) -> None:
        """Set what a member owns; adds the member if it is new."""
        former = self.members.get(member_id)
        member = StreamsGroupMember(member_id) if former is None else former
        self._replace(member_id, member._replace(current=current))
        key = records.key(records.MEMBER_CURRENT, self.group_id, member_id)
        changes.add(key, records.current_value(current), lambda: self._replace(member_id, former))

    def put_target(
        self, changes: Changes, member_id: str, assignment: TaskAssignment, record: records.Record | None = None
    ) -> None:
        """Set the target assignment of a member; `record`: the same, encoded before."""
        former = self.targets.get(member_id)
        self.targets[member_id] = assignment
        if record is None:
            record = self.target_record(member_id, assignment)
        changes.add(*record, lambda: self._restore_target(member_id, former))

    def target_record(self, member_id: str, assignment: TaskAssignment) -> records.Record:
        """Return the record of a target assignment."""
        return records.key(records.MEMBER_TARGET, self.group_id, member_id), records.target_value(assignment)

    def remove_member(self, changes: Changes, member_id: str) -> None:
        """Remove a member; its tasks are free."""
        former, target = self.members[member_id], self.targets.pop(member_id, None)
        shutdown_by = self.shutdown_by
        self._add_tombstone(changes, records.MEMBER_CURRENT, member_id)
        self._add_tombstone(changes, records.MEMBER_TARGET, member_id)
        self._add_tombstone(changes, records.MEMBER_METADATA, member_id)
        self._replace(member_id, None)
        if not self.members:
            self.shutdown_by = None

        def undo() -> None:
            self._replace(member_id, former)
            self._restore_target(member_id, target)
            self.shutdown_by = shutdown_by

        changes.add_unlogged(undo)

    def remove(self, changes: Changes) -> None:
        """Remove all records of the group, whose members stay in memory."""
        for type in (records.MEMBER_CURRENT, records.MEMBER_TARGET):
            for member_id in self.members:
                self._add_tombstone(changes, type, member_id)
        self._add_tombstone(changes, records.TARGET_EPOCH)
        for member_id in self.members:
            self._add_tombstone(changes, records.MEMBER_METADATA, member_id)
        self._add_tombstone(changes, records.GROUP_EPOCH)
        self._add_tombstone(changes, records.TOPOLOGY)

    def release(self) -> None:
        """Subtract a removed group from the limits, and stop its timer."""
        super().release()
        if self.initial_delay is not None:
            self.initial_delay.clear()

    def _add_tombstone(self, changes: Changes, type: int, name: str = "") -> None:
        changes.add(records.key(type, self.group_id, name), None, lambda: None)

    # --- indexes

    def _set_epoch(self, epoch: GroupEpoch) -> None:
        self.epoch, self.metadata_hash = epoch.epoch, epoch.metadata_hash
        self.validated_topology_epoch, self.assignment_configs = epoch.validated_topology_epoch, epoch.configs

    def _set_topology(self, topology: Topology | None) -> None:
        if self.topology is not None:
            self._count_bytes(-topology_bytes(self.topology))
        if topology is not None:
            self._count_bytes(topology_bytes(topology))
        self.topology = topology
        self._subtopology_of = {} if topology is None else topology.source_topics()

    def _restore_target(self, member_id: str, former: TaskAssignment | None) -> None:
        if former is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = former

    def _replace(self, member_id: str, member: StreamsGroupMember | None) -> None:
        former = self.members.pop(member_id, None)
        self.endpoints.pop(member_id, None)
        if former is not None:
            self._count_bytes(-member_bytes(member_id, former.metadata))
            self._count_reconciled(former.current, -1)
            self._release_tasks(former)
        if member is not None:
            self.members[member_id] = member
            self._count_bytes(member_bytes(member_id, member.metadata))
            self._count_reconciled(member.current, 1)
            for key, task in _tasks(member):
                self._holders.setdefault(key, {}).setdefault(task, set()).add(member_id)

    def _release_tasks(self, member: StreamsGroupMember) -> None:
        for key, task in _tasks(member):
            holders = self._holders[key]
            holders[task].discard(member.member_id)
            if not holders[task]:
                del holders[task]
            if not holders:
                del self._holders[key]


def member_bytes(member_id: str, metadata: StreamsMemberMetadata) -> int:
    """Return the size of a member and of what it sent, in bytes."""
    texts = (member_id, metadata.instance_id, metadata.rack_id, metadata.client_id, metadata.process_id)
    size = sum(len(text) for text in texts if text) + sum(len(key) + len(value) for key, value in metadata.tags)
    return MEMBER_BYTES + size + (0 if metadata.endpoint is None else len(metadata.endpoint.host))


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
