"""ShareGroupDescribe (key 77): state, members and assignments of share groups (KIP-932).

Version 1 only: version 0 was early access.
"""

from __future__ import annotations

from collections.abc import Iterator

from kqueue.api.access import on_each
from kqueue.api.modern_groups import common_fields, describe_each, named_partitions, refusal_fields, require_visible
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import in_slices
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.topics.topics import Topics
from kqueue.groups.group import GroupType
from kqueue.groups.share.member import ShareGroupDescription, ShareMember
from kqueue.groups.share.simple_assignor import NAME
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)

VERSIONS = (1, 1)
ACCESS = (
    on_each(AclOperation.DESCRIBE, ResourceType.GROUP),
    on_each(AclOperation.DESCRIBE, ResourceType.TOPIC, "one that is denied refuses the group that has it"),
)
ITEM_WEIGHT = 4


def handle(
    request: ShareGroupDescribeRequest, context: RequestContext
) -> ShareGroupDescribeResponse | DelayedOperation[ShareGroupDescribeResponse]:
    """Describe each group once, so that a small request cannot repeat a large group."""
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(
    request: ShareGroupDescribeRequest, context: RequestContext
) -> SlicedWork[ShareGroupDescribeResponse]:
    requested = request.include_authorized_operations

    def describe(group_id: str, group: ShareGroupDescription) -> SlicedWork[DescribedGroup]:
        described = DescribedGroup(**common_fields(context, group_id, group, requested=requested), assignor_name=NAME)
        for member in group.members:
            described.members.append(_member(member, context.broker.topics))
            yield None
        require_visible(context, _topics(described))
        return described

    of_group = context.broker.coordinators.groups.share.describe
    groups = yield from describe_each(request.group_ids, context, GroupType.SHARE, of_group, describe, _refused)
    return ShareGroupDescribeResponse(groups=groups)


def error_response(
    request: ShareGroupDescribeRequest, version: int, error: BaseException
) -> ShareGroupDescribeResponse:
    """Return `error` for each group."""
    return ShareGroupDescribeResponse(groups=[_refused(group_id, error) for group_id in request.group_ids])


def _refused(group_id: str, error: BaseException) -> DescribedGroup:
    return DescribedGroup(**refusal_fields(group_id, error))


def _topics(described: DescribedGroup) -> Iterator[str]:
    """Yield all topics that the description of a group names."""
    for member in described.members:
        yield from member.subscribed_topic_names
        yield from (topic.topic_name for topic in member.assignment.topic_partitions)


def _member(member: ShareMember, topics: Topics) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.metadata.rack_id,
        member_epoch=member.current.epoch,
        client_id=member.metadata.client_id,
        client_host=member.metadata.client_host,
        subscribed_topic_names=list(member.metadata.topics),
        assignment=Assignment(topic_partitions=named_partitions(TopicPartitions, member.current.assigned, topics)),
    )
