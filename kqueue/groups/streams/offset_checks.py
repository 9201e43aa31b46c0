"""The checks of who may commit the offsets of a streams group. Source: Kafka StreamsGroup."""

from __future__ import annotations

from collections.abc import Iterable

from kqueue.base.errors import StaleMemberEpoch
from kqueue.groups.modern.assignment import CurrentAssignment
from kqueue.groups.streams.group import StreamsGroup
from kqueue.groups.streams.member import SubtopologyRole, TaskRole


def check_commit(group: StreamsGroup, epoch: int, member_id: str, partitions: Iterable[tuple[str, int]]) -> None:
    """Check the member epoch of a commit; an empty group accepts one without a member.

    An older epoch is accepted if the member has had the active tasks of all partitions since then:
    its heartbeat and its commit have overtaken each other.

    Raises: UnknownMember, StaleMemberEpoch.
    """
    if epoch < 0 and group.is_empty:
        return
    current = group.check_member(member_id).current
    if epoch == current.epoch:
        return
    if epoch > current.epoch:
        raise StaleMemberEpoch(f"Received member epoch {epoch} is newer than current member epoch {current.epoch}.")
    if epoch < 0 or not all(_owned_since(group, current, each, epoch) for each in partitions):
        raise StaleMemberEpoch(
            f"member {member_id!r} of group {group.group_id!r} has epoch {current.epoch}, the commit has {epoch}"
        )


def _owned_since(
    group: StreamsGroup, current: CurrentAssignment[SubtopologyRole], partition: tuple[str, int], epoch: int
) -> bool:
    topic, task = partition
    subtopology = group.subtopology_of(topic)
    if subtopology is None:
        return False
    key = SubtopologyRole(TaskRole.ACTIVE, subtopology)
    since = current.assigned.get(key, {}).get(task, current.revoking.get(key, {}).get(task))
    return since is not None and since <= epoch
