"""Computes the target assignment of a group with one of the server-side assignors.

The work is a generator on a copy of the group's state: heartbeats go on while a large group is
being assigned. Source: KIP-848, Kafka TargetAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kqueue.base.errors import KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.groups.assignors import ASSIGNORS, AssignorMember, AssignorTopic
from kqueue.groups.assignors.result_check import InvalidAssignment, check_assignment
from kqueue.groups.consumer.group import NOTHING, ConsumerGroup
from kqueue.groups.consumer.member import Assignment, ConsumerGroupMember
from kqueue.groups.log.consumer_records import Record
from kqueue.groups.modern.topics import TopicMetadata, TopicsMetadata

FindTopic = Callable[[str], TopicMetadata | None]


class TargetAssignment(NamedTuple):
    """The result: the members whose target changes, each with its record."""

    epoch: int
    changed: Mapping[str, tuple[Assignment, Record]]


class AssignmentFailed(KqueueError):
    """An assignor raised, or returned what it must not. The former assignment stays."""


def work_size(group: ConsumerGroup, topics: TopicsMetadata) -> int:
    """Return the number of members and partitions of a group."""
    found = (topics.find(name) for name in group.subscribed_topics())
    return len(group.members) + sum(topic.partition_count for topic in found if topic is not None)


def compute_target(group: ConsumerGroup, topics: TopicsMetadata, assignor: str) -> SlicedWork[TargetAssignment]:
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
        wanted = frozenset(member.subscription.topics)
        regex = regexes.get(member.subscription.regex)
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
    changed: dict[str, tuple[Assignment, Record]] = {}
    for member_id, _ in members:
        assigned = result.get(member_id, {})
        target = {topic: frozenset(indexes) for topic, indexes in assigned.items() if indexes}
        if target != targets.get(member_id):
            changed[member_id] = target, group.target_record(member_id, target)
        yield None
    return TargetAssignment(epoch, changed)


def _assignor_member(member: ConsumerGroupMember, topics: frozenset[bytes], current: Assignment) -> AssignorMember:
    subscription = member.subscription
    return AssignorMember(member.member_id, subscription.instance_id, subscription.rack_id, topics, current)
