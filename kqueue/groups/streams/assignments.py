"""What follows from members, topology and topics: group epoch, ready topology, target assignment.

Small groups are assigned within the heartbeat, as in Kafka. A large assignment runs in slices
beside other requests; its result is a step of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from kqueue.base.errors import CoordinatorLoadInProgress, GroupMaxSizeReached, KqueueError, NotCoordinator
from kqueue.base.promise import Promise
from kqueue.base.slice_queue import SliceQueue
from kqueue.base.sliced_task import SlicedWork, run_slice
from kqueue.groups.lazy_timer import LazyTimer
from kqueue.groups.log.streams_records import GroupEpoch, Record
from kqueue.groups.modern.changes import Changes
from kqueue.groups.modern.environment import Environment
from kqueue.groups.modern.topics import metadata_hash
from kqueue.groups.streams.group import StreamsGroup
from kqueue.groups.streams.internal_topics import ConfiguredTopology, configure
from kqueue.groups.streams.member import Status, StatusCode, SubtopologyRole, TaskAssignment
from kqueue.groups.streams.task_assignor import TaskGroup, TaskMember, assign_tasks
from kqueue.groups.streams.topology import Topology

logger = logging.getLogger("kqueue.groups")
INLINE_SIZE_MAX = 500
"""Members and tasks of a group that is assigned within a heartbeat, unless it takes longer than
`INLINE_MS`.
"""
INLINE_MS = 5
PART_MEMBERS = 500
"""Members of whom one step sets the target."""
DELAYED_FIRST = Status(
    StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay."
)
DELAYED = Status(StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured assignment interval.")
STANDBY_REPLICAS = "num.standby.replicas"
"""Its name in the records of groups."""


# Computes the target assignment of a streams group.
#
# The work is a generator on a copy of the group's state: heartbeats go on while a large group is
# being assigned. Source: KIP-1071, Kafka TargetAssignmentBuilder.


class TaskTarget(NamedTuple):
    """The result: the members whose target changes, each with its record."""

    epoch: int
    changed: Mapping[str, tuple[TaskAssignment, Record]]


def work_size(group: StreamsGroup, standby_replicas: int) -> int:
    """Return the number of members and tasks of a group."""
    tasks = 0 if group.configured is None else sum(group.configured.task_counts.values())
    return len(group.members) + tasks * (1 + standby_replicas)


def compute_target(group: StreamsGroup, standby_replicas: int) -> SlicedWork[TaskTarget]:
    """Return the target assignment of the group as it is at the first step. A group whose topology
    is not ready has no tasks.
    """
    epoch, configured, targets = group.epoch, group.configured, dict(group.targets)
    members = [
        TaskMember(member_id, member.metadata.process_id, group.target_of(member_id))
        for member_id, member in sorted(group.members.items())
    ]
    assigned: dict[str, dict[SubtopologyRole, set[int]]] = {}
    if configured is not None and configured.is_ready:
        work = assign_tasks(TaskGroup(members, configured.task_counts, configured.stateful, standby_replicas))
        assigned = yield from work
    changed: dict[str, tuple[TaskAssignment, Record]] = {}
    for member in members:
        target = {key: frozenset(tasks) for key, tasks in assigned.get(member.member_id, {}).items()}
        if target != targets.get(member.member_id):
            changed[member.member_id] = target, group.target_record(member.member_id, target)
        yield None
    return TaskTarget(epoch, changed)


class StreamsAssignments:
    """The assignments of all streams groups. On the owner thread."""

    def __init__(self, environment: Environment) -> None:
        self._config = environment.config.streams
        self._clock = environment.clock
        self._timers = environment.timers
        self._limits = environment.limits
        self._groups = environment.groups
        self._queue = environment.queue
        self._topics = environment.topics
        self._settings = environment.settings
        self._slices = SliceQueue(environment.timers, environment.clock)

    # --- topology and epoch

    def refresh(self, changes: Changes, group: StreamsGroup, *, changed: bool) -> ConfiguredTopology | None:
        """Look whether the group needs another epoch: its members `changed`, its topics did, or its
        settings. Returns: its topology; None: it has none.

        Raises: StreamsInvalidTopology: no topics would do. GroupMaxSizeReached: too many tasks.
        """
        if group.topology is None:
            return None
        topics_hash = group.metadata_hash
        if group.configured is None or group.topics_version != self._topics.version:
            topics_hash = self._configure(changes, group, group.topology)
        configured = group.configured
        assert configured is not None
        validated = group.topology.epoch if configured.is_ready else -1
        configs = self.assignment_configs(group.group_id)
        has_new_configs = bool(group.assignment_configs) and configs != group.assignment_configs
        is_same = topics_hash == group.metadata_hash and validated == group.validated_topology_epoch
        if changed or has_new_configs or not is_same:
            group.set_epoch(changes, GroupEpoch(group.epoch + 1, topics_hash, validated, configs))
        return configured

    def bump_epoch(self, changes: Changes, group: StreamsGroup) -> None:
        """Begin a new epoch: a member is gone."""
        epoch = GroupEpoch(
            group.epoch + 1, group.metadata_hash, group.validated_topology_epoch, group.assignment_configs
        )
        group.set_epoch(changes, epoch)

    def assignment_configs(self, group_id: str) -> tuple[tuple[str, str], ...]:
        """Return the settings of a group that its assignment depends on."""
        return ((STANDBY_REPLICAS, str(self._config.standby_replicas_of(self._settings(group_id)))),)

    def _configure(self, changes: Changes, group: StreamsGroup, topology: Topology) -> int:
        """Look at the topics again. Returns the hash of those that are there."""
        version = group.topics_version
        topics_hash = metadata_hash(topology.required_topics(), self._topics)
        if group.configured is None or topics_hash != group.metadata_hash:
            configured = configure(topology, self._partition_count)
            self._check_size(group.group_id, configured)
            group.set_configured(changes, configured)
        group.topics_version = self._topics.version
        changes.add_unlogged(lambda: setattr(group, "topics_version", version))
        return topics_hash

    def _check_size(self, group_id: str, configured: ConfiguredTopology) -> None:
        count = sum(configured.task_counts.values())
        if count > self._config.tasks_max:
            what = f"group {group_id!r}: its topology has {count} tasks"
            raise GroupMaxSizeReached(self._limits.refused("kqueue.max.group.tasks", what))

    def _partition_count(self, name: str) -> int | None:
        topic = self._topics.find(name)
        return None if topic is None else topic.partition_count

    # --- target assignment

    def delay_first(self, changes: Changes, group: StreamsGroup) -> None:
        """Wait for more members, after the first one has joined an empty group."""
        delay_ms = self._config.initial_delay.of(self._settings(group.group_id))
        if delay_ms <= 0 or group.is_delayed:
            return
        if group.initial_delay is None:
            group.initial_delay = LazyTimer(self._timers, lambda: self._end_delay(group))
        group.initial_delay.set(self._clock.monotonic_ms() + delay_ms)
        changes.add_unlogged(group.initial_delay.clear)

    def _end_delay(self, group: StreamsGroup) -> None:
        if self._groups.get(group.group_id) is group and not group.is_dead:
            self._queue.submit_late(group.group_id, lambda changes: self._assign_delayed(changes, group))

    def _assign_delayed(self, changes: Changes, group: StreamsGroup) -> None:
        is_known = self._groups.get(group.group_id) is group and group.configured is not None
        if is_known and not group.is_empty:
            self.assign_if_due(changes, group)

    def assign_if_due(self, changes: Changes, group: StreamsGroup) -> Status | None:
        """Compute the target assignment of a new epoch. Returns why it waits; None: it does not."""
        if group.is_delayed:
            return DELAYED_FIRST
        if group.epoch <= group.target_epoch or group.is_assigning:
            return None
        interval_ms = self._config.assignment_interval.of(self._settings(group.group_id))
        if 0 <= self._clock.wall_ms() - group.target_ms < interval_ms:
            return DELAYED
        replicas = self._config.standby_replicas_of(self._settings(group.group_id))
        work = compute_target(group, replicas)
        if work_size(group, replicas) <= INLINE_SIZE_MAX:
            try:
                run_slice(work, self._clock, INLINE_MS)
            except StopIteration as end:
                self._put_targets(changes, group, end.value)
                group.set_target_epoch(changes, end.value.epoch, self._clock.wall_ms())
                return None
        group.is_assigning = True
        self._slices.add(self._assign(group, work))
        return None

    def _assign(self, group: StreamsGroup, work: SlicedWork[TaskTarget]) -> SlicedWork[None]:
        """Compute a large assignment and apply it in parts; the epoch comes last."""
        try:
            target = yield from work
            changed = list(target.changed.items())
            parts: list[Promise[None]] = []
            for start in range(0, len(changed), PART_MEMBERS):
                part = TaskTarget(target.epoch, dict(changed[start : start + PART_MEMBERS]))
                parts.append(self._queue.submit(group.group_id, partial(self._put_targets, group=group, target=part)))
                yield None
            self._queue.submit(group.group_id, lambda changes: self._finish(changes, group, target.epoch, parts))
        except (NotCoordinator, CoordinatorLoadInProgress):  # another broker assigns
            group.is_assigning = False
        except KqueueError as error:
            logger.error("group %r keeps its assignment: %s", group.group_id, error)
            group.is_assigning = False
        except Exception:
            group.is_assigning = False
            raise

    def _finish(self, changes: Changes, group: StreamsGroup, epoch: int, parts: Sequence[Promise[None]]) -> None:
        """Begin the epoch, unless a part could not be written: then all is computed again."""
        group.is_assigning = False
        is_whole = all(part.error is None for part in parts)
        if is_whole and self._groups.get(group.group_id) is group and epoch > group.target_epoch:
            group.set_target_epoch(changes, epoch, self._clock.wall_ms())

    def _put_targets(self, changes: Changes, group: StreamsGroup, target: TaskTarget) -> None:
        if self._groups.get(group.group_id) is not group or target.epoch <= group.target_epoch:
            return
        for member_id, (assignment, record) in target.changed.items():
            if member_id in group.members:
                group.put_target(changes, member_id, assignment, record)
