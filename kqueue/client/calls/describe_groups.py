"""ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe of one group.

Classic groups have a request of their own (DescribeGroups), which this module does not send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from kqueue.client.retry_policy import bad_answer, response_error
from kqueue.client.topic_partition import TopicPartition
from kqueue.client_protocol.versions import Versions
from kqueue.wire.apis import BY_MODULE, Api
from kqueue.wire.messages import consumer_group_describe, share_group_describe, streams_group_describe

CONSUMER, SHARE, STREAMS = "consumer", "share", "streams"


class TaskId(NamedTuple):
    """A task of a streams group; its text is the one of Kafka Streams, ``0_2``."""

    subtopology: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"


class GroupMember(NamedTuple):
    """A member of a group.

    `epoch`: the epoch of the assignment that it has; None in a classic group.
    `assigned`: its partitions. In a streams group: those that its active tasks read; of a source
    topic with fewer partitions than the subtopology has tasks, the highest do not exist.
    `active`, `standby`, `warmup`: its tasks; empty in other groups.
    """

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None
    epoch: int | None = None
    assigned: tuple[TopicPartition, ...] = ()
    active: tuple[TaskId, ...] = ()
    standby: tuple[TaskId, ...] = ()
    warmup: tuple[TaskId, ...] = ()


class GroupDescription(NamedTuple):
    """A group and its members.

    `epoch`, `assignment_epoch`: of the membership, and of the assignment computed last; a group
    whose epochs differ is about to get a new assignment. None in a classic group.
    `assignor`: None in a streams group.
    """

    name: str
    type: str
    state: str
    members: tuple[GroupMember, ...] = ()
    epoch: int | None = None
    assignment_epoch: int | None = None
    assignor: str | None = None


class GroupRequest(NamedTuple):
    """The request that describes groups of one type."""

    api: Api
    versions: Versions
    request: Callable[..., object]


REQUESTS = {
    CONSUMER: GroupRequest(
        BY_MODULE["consumer_group_describe"], (0, 1), consumer_group_describe.ConsumerGroupDescribeRequest
    ),
    SHARE: GroupRequest(BY_MODULE["share_group_describe"], (1, 1), share_group_describe.ShareGroupDescribeRequest),
    STREAMS: GroupRequest(
        BY_MODULE["streams_group_describe"], (0, 0), streams_group_describe.StreamsGroupDescribeRequest
    ),
}


class DescribeGroup:
    """The describe request of a group's type. `type`: a key of `REQUESTS`."""

    repeatable = True

    def __init__(self, name: str, type: str) -> None:
        self.name = name
        self.type = type
        self.api, self.versions, self._request = REQUESTS[type]

    def request(self, version: int) -> object:
        return self._request(group_ids=[self.name])

    def result(self, version: int, response: Any, broker: str) -> GroupDescription:
        if [group.group_id for group in response.groups] != [self.name]:
            raise bad_answer(self.api.name, broker, f"is not about group {self.name!r}")
        [group] = response.groups
        if group.error_code:
            about = f"group {self.name!r}"
            raise response_error(
                group.error_code, self.api.name, broker, message=group.error_message or None, about=about
            )
        is_streams = self.type == STREAMS
        return GroupDescription(
            name=self.name,
            type=self.type,
            state=group.group_state,
            members=tuple(_streams_members(group)) if is_streams else tuple(map(_member, group.members)),
            epoch=group.group_epoch,
            assignment_epoch=group.assignment_epoch,
            assignor=None if is_streams else group.assignor_name,
        )


def _member(member: consumer_group_describe.Member | share_group_describe.Member) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        instance_id=member.instance_id if isinstance(member, consumer_group_describe.Member) else None,
        epoch=member.member_epoch,
        assigned=tuple(
            sorted(
                TopicPartition(topic.topic_name, index)
                for topic in member.assignment.topic_partitions
                for index in topic.partitions
            )
        ),
    )


def _streams_members(group: streams_group_describe.DescribedGroup) -> Iterable[GroupMember]:
    subtopologies = (group.topology.subtopologies or []) if group.topology else []
    sources = {
        one.subtopology_id: [*one.source_topics, *(topic.name for topic in one.repartition_source_topics)]
        for one in subtopologies
    }
    for member in group.members:
        active, standby, warmup = (
            tuple(TaskId(tasks.subtopology_id, index) for tasks in role for index in tasks.partitions)
            for role in (
                member.assignment.active_tasks,
                member.assignment.standby_tasks,
                member.assignment.warmup_tasks,
            )
        )
        read = {TopicPartition(topic, task.partition) for task in active for topic in sources.get(task.subtopology, ())}
        yield GroupMember(
            member_id=member.member_id,
            client_id=member.client_id,
            host=member.client_host,
            instance_id=member.instance_id,
            epoch=member.member_epoch,
            assigned=tuple(sorted(read)),
            active=active,
            standby=standby,
            warmup=warmup,
        )
