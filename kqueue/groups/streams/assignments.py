"""Group epoch, ready topology and target assignment: what follows from members and topics."""

from __future__ import annotations

from collections.abc import Callable

from kqueue.base.errors import GroupMaxSizeReached
from kqueue.base.sliced_task import SlicedWork
from kqueue.groups.lazy_timer import LazyTimer
from kqueue.groups.log.changes import Changes
from kqueue.groups.modern.environment import Environment
from kqueue.groups.modern.records import GroupEpoch
from kqueue.groups.modern.target_assignment import TargetAssignment, TargetAssignments, changed_targets
from kqueue.groups.modern.topics import metadata_hash
from kqueue.groups.streams.group import INITIAL_DELAY, StreamsGroup
from kqueue.groups.streams.internal_topics import ConfiguredTopology, configure
from kqueue.groups.streams.member import Status, StatusCode, SubtopologyRole
from kqueue.groups.streams.task_assignor import TaskGroup, TaskMember, assign_tasks
from kqueue.groups.streams.topology import Topology

DELAYED_FIRST = Status(
    StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay."
)
DELAYED = Status(StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured assignment interval.")
STANDBY_REPLICAS = "num.standby.replicas"
"""Its name in the records of groups."""


def work_size(group: StreamsGroup, standby_replicas: int) -> int:
    """Return the number of members and tasks of a group."""
    tasks = 0 if group.configured is None else sum(group.configured.task_counts.values())
    return len(group.members) + tasks * (1 + standby_replicas)


def compute_target(group: StreamsGroup, standby_replicas: int) -> SlicedWork[TargetAssignment[SubtopologyRole]]:
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
    result = {member.member_id: assigned.get(member.member_id, {}) for member in members}
    return (yield from changed_targets(group, epoch, targets, result))


class StreamsAssignments:
    """The assignments of all streams groups. On the owner thread."""

    def __init__(self, environment: Environment, see_topics: Callable[[Changes, StreamsGroup], None]) -> None:
        """Take the parts. `see_topics`: notes that the hash of the topics is the present one."""
        self._config = environment.config.streams
        self._clock = environment.clock
        self._timers = environment.timers
        self._limits = environment.limits
        self._groups = environment.groups
        self._queue = environment.queue
        self._topics = environment.topics
        self._settings = environment.settings
        self._see_topics = see_topics
        self._assignments: TargetAssignments[StreamsGroup] = TargetAssignments(
            environment,
            self._config.assignment_interval,
            lambda group: compute_target(group, self._standby_replicas(group.group_id)),
            lambda group: work_size(group, self._standby_replicas(group.group_id)),
        )

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
        epoch = group.group_epoch
        configs = self.assignment_configs(group.group_id)
        has_new_configs = bool(epoch.configs) and configs != epoch.configs
        is_same = topics_hash == epoch.metadata_hash and validated == epoch.validated_topology_epoch
        if changed or has_new_configs or not is_same:
            group.set_epoch(changes, GroupEpoch(group.epoch + 1, topics_hash, validated, configs))
        return configured

    def assignment_configs(self, group_id: str) -> tuple[tuple[str, str], ...]:
        """Return the settings of a group that its assignment depends on."""
        return ((STANDBY_REPLICAS, str(self._standby_replicas(group_id))),)

    def _standby_replicas(self, group_id: str) -> int:
        return self._config.standby_replicas_of(self._settings(group_id))

    def _configure(self, changes: Changes, group: StreamsGroup, topology: Topology) -> int:
        """Look at the topics again. Returns the hash of those that are there."""
        topics_hash = metadata_hash(topology.required_topics(), self._topics)
        if group.configured is None or topics_hash != group.metadata_hash:
            configured = configure(topology, self._partition_count)
            self._check_size(group.group_id, configured)
            group.set_configured(changes, configured)
        self._see_topics(changes, group)
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
        timer = group.timers.get(INITIAL_DELAY)
        if timer is None:
            timer = group.timers[INITIAL_DELAY] = LazyTimer(self._timers, lambda: self._end_delay(group))
        timer.set(self._clock.monotonic_ms() + delay_ms)
        changes.add_unlogged(timer.clear)

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
        return None if self._assignments.assign_if_due(changes, group) else DELAYED
