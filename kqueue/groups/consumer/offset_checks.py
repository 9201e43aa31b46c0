"""The checks of who may commit and fetch the offsets of a consumer group. Source: Kafka
ConsumerGroup.
"""

from __future__ import annotations

from collections.abc import Iterable

from kqueue.base.errors import IllegalGeneration, StaleMemberEpoch
from kqueue.groups.consumer.group import ConsumerGroup
from kqueue.groups.modern.assignment import CurrentAssignment
from kqueue.groups.modern.topics import TopicsMetadata


def check_commit(
    group: ConsumerGroup,
    topics: TopicsMetadata,
    epoch: int,
    member_id: str,
    partitions: Iterable[tuple[str, int]],
) -> None:
    """Check the member epoch of a commit; an empty group accepts one without a member.

    An older epoch is accepted if the member has had all of the partitions since then: its
    heartbeat and its commit have overtaken each other (KIP-1251).

    Raises: UnknownMember, StaleMemberEpoch; IllegalGeneration: the member is a classic one.
    """
    if epoch < 0 and group.is_empty:
        return
    member = group.check_member(member_id)
    current = member.current
    if epoch == current.epoch:
        return
    if member.metadata.classic is not None:
        raise IllegalGeneration(f"member {member_id!r} is at epoch {current.epoch}, not {epoch}")
    if not 0 <= epoch < current.epoch or not all(_owned_since(current, topics, each, epoch) for each in partitions):
        raise StaleMemberEpoch(
            f"member {member_id!r} of group {group.group_id!r} has epoch {current.epoch}, the commit has {epoch}"
        )


def _owned_since(
    current: CurrentAssignment[bytes], topics: TopicsMetadata, partition: tuple[str, int], epoch: int
) -> bool:
    name, index = partition
    topic = topics.find(name)
    if topic is None:
        return False
    since = current.assigned.get(topic.id, {}).get(index, current.revoking.get(topic.id, {}).get(index))
    return since is not None and since <= epoch
