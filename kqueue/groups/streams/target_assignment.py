"""Computes the target assignment of a streams group.

The work is a generator on a copy of the group's state: heartbeats go on while a large group is
being assigned. Source: KIP-1071, Kafka TargetAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kqueue.base.sliced_task import SlicedWork
from kqueue.groups.log.streams_records import Record
from kqueue.groups.streams.group import StreamsGroup
from kqueue.groups.streams.member import SubtopologyRole, TaskAssignment
from kqueue.groups.streams.task_assignor import TaskGroup, TaskMember, assign_tasks


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
