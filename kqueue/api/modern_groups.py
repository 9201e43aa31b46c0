"""The steps that the handlers of consumer, share and streams groups share: the check that the
protocol is served, the wait for a heartbeat, and the description of groups one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from kqueue.api.authorized_operations import authorized_operations
from kqueue.api.errors import code_of, message_of
from kqueue.api.request_context import RequestContext, hidden_topic, wait_for_write
from kqueue.api.slices import settled
from kqueue.base.errors import KqueueError, UnsupportedVersion
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.metadata.features import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.topics.topics import Topics
from kqueue.groups.group import GroupType
from kqueue.security.operations import AclOperation, ResourceType

FEATURES = {
    GroupType.CONSUMER: GROUP_VERSION,
    GroupType.SHARE: SHARE_VERSION,
    GroupType.STREAMS: STREAMS_VERSION,
}
"""The feature without which a broker does not serve the protocol of a type of groups."""
R = TypeVar("R")
D = TypeVar("D")
T = TypeVar("T")
P = TypeVar("P")


def check_served(context: RequestContext, kind: GroupType) -> None:
    """Check that this broker serves the protocol. Raises: UnsupportedVersion."""
    protocols = context.broker.coordinators.groups.config.protocols
    # Share groups are switched by their feature alone, as in Kafka 4.3.
    if kind is not GroupType.SHARE and kind.value not in protocols:
        raise UnsupportedVersion(f"group.coordinator.rebalance.protocols does not have {kind.value}")
    if context.broker.metadata.features.level(FEATURES[kind]) < 1:
        raise UnsupportedVersion(f"the feature {FEATURES[kind]} is off")


def answer_heartbeat(
    context: RequestContext,
    send: Callable[[], Promise[T]],
    respond: Callable[[T], R],
    refuse: Callable[[KqueueError], R],
) -> R | DelayedOperation[R]:
    """Respond when what a heartbeat changes is in the log.

    Args:
        send: checks the request, and gives it to the coordinator.
        respond, refuse: make the response.
    """

    def answer(promise: Promise[T]) -> R:
        try:
            result = promise.result()
        except KqueueError as error:
            return refuse(error)
        return respond(result)

    try:
        promise = send()
    except KqueueError as error:
        return refuse(error)
    return wait_for_write(promise, answer, context)


def describe_each(
    group_ids: Iterable[str],
    context: RequestContext,
    kind: GroupType,
    find: Callable[[str], Promise[D]],
    describe: Callable[[str, D], SlicedWork[R]],
    refuse: Callable[[str, BaseException], R],
) -> SlicedWork[list[R]]:
    """Describe each group once, so that a small request cannot repeat a large group.

    Args:
        find: returns a promise of what is in the log of a group.
        describe: raises, where the client may not see the group.
    """
    described: list[R] = []
    for group_id in dict.fromkeys(group_ids):
        yield None
        try:
            check_served(context, kind)
            context.require(AclOperation.DESCRIBE, ResourceType.GROUP, group_id)
            persisted = yield from settled(find(group_id))
            described.append((yield from describe(group_id, persisted)))
        except KqueueError as error:
            described.append(refuse(group_id, error))
    return described


def common_fields(context: RequestContext, group_id: str, group: Any, *, requested: bool) -> dict[str, Any]:
    """Return the fields that the descriptions of all types have. `requested`: the operations."""
    return {
        "group_id": group_id,
        "group_state": group.state,
        "group_epoch": group.epoch,
        "assignment_epoch": group.target_epoch,
        "authorized_operations": authorized_operations(context, ResourceType.GROUP, group_id, requested=requested),
    }


def refusal_fields(group_id: str, error: BaseException) -> dict[str, Any]:
    """Return the fields of a group that is not described."""
    return {"error_code": code_of(error), "error_message": message_of(error), "group_id": group_id}


def require_visible(context: RequestContext, topics: Iterable[str]) -> None:
    """Raise TopicAuthorizationFailed if a group has a topic that the client may not describe."""
    error = hidden_topic(context, topics)
    if error is not None:
        raise error


def named_partitions(make: Callable[..., P], partitions: Mapping[bytes, Collection[int]], topics: Topics) -> list[P]:
    """Return an assignment with the names of topics, without those that were deleted."""
    return [
        make(topic_id=id, topic_name=topic.name, partitions=sorted(indexes))
        for id, indexes in partitions.items()
        if (topic := topics.find_by_id(id)) is not None
    ]
