"""Computes the target assignment of a group with one of the server-side assignors.

The work is a generator on a copy of the group's state: heartbeats go on while a large group is
being assigned. Source: KIP-848, Kafka TargetAssignmentBuilder.
"""

from __future__ import annotations

import contextlib

from kqueue.base.clock import Clock
from kqueue.base.errors import KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.groups.assignors import ASSIGNORS, AssignorMember, AssignorTopic
from kqueue.groups.assignors.result_check import InvalidAssignment, check_assignment
from kqueue.groups.consumer.group import ConsumerGroup
from kqueue.groups.consumer.member import Assignment, ConsumerGroupMember
from kqueue.groups.modern.group import NOTHING
from kqueue.groups.modern.target_assignment import TargetAssignment, changed_targets
from kqueue.groups.modern.topics import TopicsMetadata


class AssignmentFailed(KqueueError):
    """An assignor raised, or returned what it must not. The former assignment stays."""


def work_size(group: ConsumerGroup, topics: TopicsMetadata) -> int:
    """Return the number of members and partitions of a group."""
    known_topics = (topics.find(name) for name in group.subscribed_topics())
    return len(group.members) + sum(topic.partition_count for topic in known_topics if topic is not None)


def compute_target(group: ConsumerGroup, topics: TopicsMetadata, assignor: str) -> SlicedWork[TargetAssignment[bytes]]:
    """Return the target assignment of the group as it is at the first step.

    Raises: AssignmentFailed. PluginError: no assignor has this name.
    """
    epoch, members, targets = group.epoch, sorted(group.members.items()), dict(group.targets)
    regexes = dict(group.regexes)
    by_name: dict[str, AssignorTopic] = {}
    for name in group.subscribed_topics():
        topic = topics.find(name)
        if topic is not None:
            by_name[name] = AssignorTopic(*topic)
    ids_of: dict[frozenset[str], frozenset[bytes]] = {}
    assignor_members = []
    for member_id, member in members:
        wanted = frozenset(member.metadata.topics)
        regex = regexes.get(member.metadata.regex)
        if regex is not None:
            wanted |= regex.topics
        if wanted not in ids_of:
            ids_of[wanted] = frozenset(by_name[name].id for name in wanted if name in by_name)
        assignor_members.append(_assignor_member(member, ids_of[wanted], targets.get(member_id, NOTHING)))
        yield None
    by_id = {topic.id: topic for topic in by_name.values()}
    try:
        result = yield from ASSIGNORS.get(assignor)().assign(assignor_members, by_id)
        yield from check_assignment(result, {member.member_id: member for member in assignor_members}, by_id)
    except InvalidAssignment as error:
        raise AssignmentFailed(f"{ASSIGNORS.entry(assignor).title('assignor')} broke its contract: {error}") from error
    except KqueueError:
        raise
    except Exception as error:
        raise AssignmentFailed(
            f"{ASSIGNORS.entry(assignor).title('assignor')} failed: {type(error).__name__}: {error}"
        ) from error
    assigned = {member_id: result.get(member_id, {}) for member_id, _ in members}
    return (yield from changed_targets(group, epoch, targets, assigned))


def within_time(
    work: SlicedWork[TargetAssignment[bytes]], clock: Clock, time_ms: float
) -> SlicedWork[TargetAssignment[bytes]]:
    """Return the result of `work`. Raises AssignmentFailed: it takes too long."""
    end_ms = clock.monotonic_ms() + time_ms
    while True:
        try:
            next(work)
        except StopIteration as end:
            target: TargetAssignment[bytes] = end.value
            return target
        if clock.monotonic_ms() >= end_ms:
            with contextlib.suppress(Exception):  # a plugin may object
                work.close()
            raise AssignmentFailed(f"the assignor did not end within {time_ms // 1000:.0f} s")
        yield None


def _assignor_member(member: ConsumerGroupMember, topics: frozenset[bytes], current: Assignment) -> AssignorMember:
    subscription = member.metadata
    return AssignorMember(member.member_id, subscription.instance_id, subscription.rack_id, topics, current)
