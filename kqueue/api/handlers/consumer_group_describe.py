"""ConsumerGroupDescribe (key 69): state, members and assignments of consumer groups (KIP-848).

Versions 0 to 1:

    0       current and target assignment of each member
    1       whether a member uses the classic protocol (KIP-1099)
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
from kqueue.groups.consumer.member import ConsumerGroupDescription, Subscription, all_owned
from kqueue.groups.group import GroupType
from kqueue.groups.modern.member import ModernMemberDescription
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

VERSIONS = (0, 1)
ACCESS = (
    on_each(AclOperation.DESCRIBE, ResourceType.GROUP),
    on_each(AclOperation.DESCRIBE, ResourceType.TOPIC, "one that is denied refuses the group that has it"),
)
ITEM_WEIGHT = 4
CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def handle(
    request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse | DelayedOperation[ConsumerGroupDescribeResponse]:
    """Describe each group once, so that a small request cannot repeat a large group."""
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(
    request: ConsumerGroupDescribeRequest, context: RequestContext
) -> SlicedWork[ConsumerGroupDescribeResponse]:
    requested = request.include_authorized_operations

    def describe(group_id: str, group: ConsumerGroupDescription) -> SlicedWork[DescribedGroup]:
        described = DescribedGroup(
            **common_fields(context, group_id, group, requested=requested), assignor_name=group.assignor
        )
        for one in group.members:
            described.members.append(_member(one, context.broker.topics))
            yield None
        require_visible(context, _topics(described))
        return described

    of_group = context.broker.coordinators.groups.consumer.describe
    groups = yield from describe_each(request.group_ids, context, GroupType.CONSUMER, of_group, describe, _refused)
    return ConsumerGroupDescribeResponse(groups=groups)


def error_response(
    request: ConsumerGroupDescribeRequest, version: int, error: BaseException
) -> ConsumerGroupDescribeResponse:
    """Return `error` for each group."""
    return ConsumerGroupDescribeResponse(groups=[_refused(group_id, error) for group_id in request.group_ids])


def _refused(group_id: str, error: BaseException) -> DescribedGroup:
    return DescribedGroup(**refusal_fields(group_id, error))


def _topics(described: DescribedGroup) -> Iterator[str]:
    """Yield all topics that the description of a group names."""
    for member in described.members:
        yield from member.subscribed_topic_names
        for assignment in (member.assignment, member.target_assignment):
            yield from (topic.topic_name for topic in assignment.topic_partitions)


def _member(one: ModernMemberDescription[Subscription, bytes], topics: Topics) -> Member:
    member = one.member
    subscription, current = member.metadata, member.current
    return Member(
        member_id=member.member_id,
        instance_id=subscription.instance_id,
        rack_id=subscription.rack_id,
        member_epoch=current.epoch,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=list(subscription.topics),
        subscribed_topic_regex=subscription.regex,
        assignment=Assignment(topic_partitions=named_partitions(TopicPartitions, all_owned(current), topics)),
        target_assignment=Assignment(topic_partitions=named_partitions(TopicPartitions, one.target, topics)),
        member_type=CONSUMER_MEMBER if subscription.classic is None else CLASSIC_MEMBER,
    )
