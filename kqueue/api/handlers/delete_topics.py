"""DeleteTopics (key 20): each topic of the request succeeds or fails by itself (KIP-4).

Versions 0 to 6:

    0       topics by name
    1       throttle time
    2       clients throttle themselves (KIP-219)
    3       TOPIC_DELETION_DISABLED is known; before, INVALID_REQUEST
    4       flexible encoding (KIP-482)
    5       error messages (KIP-599)
    6       topics by id (KIP-516)

From version 5 on a topic above the client's quota of changed partitions is refused; before, it is
deleted, and the client is held back.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from kqueue.api.access import on_each
from kqueue.api.errors import code_of, message_of
from kqueue.api.request_context import RequestContext, error_of, wait_for_all
from kqueue.api.slices import collect, in_slices
from kqueue.base.errors import InvalidRequest, KqueueError, TopicDeletionDisabled
from kqueue.base.names import UUID_ZERO
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.access.mutation_quota import MutationQuota
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

VERSIONS = (0, 6)
ACCESS = (
    on_each(AclOperation.DELETE, ResourceType.TOPIC, "or DELETE of the cluster"),
    on_each(AclOperation.DESCRIBE, ResourceType.TOPIC, "by id as an unknown id"),
)
VERSION_IDS = 6
VERSION_STRICT_QUOTA = 5
VERSION_DELETION_DISABLED = 3  # older clients do not know this code
LATE = "the deletion was not stored in time; it may still happen"


class TopicReference(NamedTuple):
    """A topic of the request: a name, or an id with `name` None until it is known; both or neither
    is invalid.
    """

    name: str | None
    id: bytes


Outcome = tuple[TopicReference, Promise[None]] | DeletableTopicResult
"""A started deletion, or the result. Errors are not kept: their tracebacks hold the request's
frames.
"""


def handle(
    request: DeleteTopicsRequest, context: RequestContext
) -> DeleteTopicsResponse | DelayedOperation[DeleteTopicsResponse]:
    """Respond when all are stored, or after `timeout_ms`: unfinished deletions may still happen."""
    return in_slices(context, _handle_sliced(request, context))


def error_response(request: DeleteTopicsRequest, version: int, error: BaseException) -> DeleteTopicsResponse:
    """Return `error` for every topic."""
    return DeleteTopicsResponse(responses=[_result(named, error) for named in dict.fromkeys(_asked(request, version))])


def _handle_sliced(
    request: DeleteTopicsRequest, context: RequestContext
) -> SlicedWork[DeleteTopicsResponse | DelayedOperation[DeleteTopicsResponse]]:
    counts = Counter(_asked(request, context.api_version))
    topics = yield from collect(lambda named: _find(named, context), counts)
    repeated = {topic for topic, count in Counter(topics).items() if count > 1}  # by name and by id
    quota = context.mutation_quota(VERSION_STRICT_QUOTA)
    outcomes: list[Outcome] = [_repeated(topic) for topic in repeated]
    for (named, count), topic in zip(counts.items(), topics, strict=True):
        if topic not in repeated:
            outcomes.append(_repeated(named) if count > 1 else _delete(named, topic, context, quota))
        yield None
    promises = tuple(outcome[1] for outcome in outcomes if isinstance(outcome, tuple))
    return wait_for_all(
        promises, lambda: in_slices(context, _respond(outcomes, quota)), context.change_deadline_ms(request.timeout_ms)
    )


def _asked(request: DeleteTopicsRequest, version: int) -> list[TopicReference]:
    states = request.topics if version >= VERSION_IDS else [DeleteTopicState(name=name) for name in request.topic_names]
    return [TopicReference(state.name, state.topic_id) for state in states]


def _find(named: TopicReference, context: RequestContext) -> TopicReference:
    """Return both name and id of a topic; what the request has if there is none."""
    topics = context.broker.topics
    topic = topics.find(named.name) if named.name is not None else topics.find_by_id(named.id)
    if topic is None or not (context.describes(topic.name) or _may_delete_all(context)):
        return named
    return TopicReference(topic.name, topic.id)


def _may_delete_all(context: RequestContext) -> bool:
    return context.allows(AclOperation.DELETE, ResourceType.CLUSTER)


def _repeated(named: TopicReference) -> DeletableTopicResult:
    return _result(named, InvalidRequest("the topic is twice in the request"))


def _delete(named: TopicReference, topic: TopicReference, context: RequestContext, quota: MutationQuota) -> Outcome:
    """Start the deletion of `topic`, which the request calls `named`."""
    topics = context.broker.topics
    try:
        if (named.name is None) == (named.id == UUID_ZERO):
            raise InvalidRequest("a topic is named by its name or by its id, not by both or neither")
        if topic.name is None:
            context.topic_with_id(AclOperation.DESCRIBE, topic.id)  # raises
        if not _may_delete_all(context):
            context.require(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name or "")
            topics.get(topic.name or "")
        context.require_or_cluster(AclOperation.DELETE, ResourceType.TOPIC, topic.name or "")
        if quota.is_bounded:
            quota.count(len(topics.get(topic.name or "").partitions))
        return topic, topics.delete(topic.name or "")
    except TopicDeletionDisabled as error:
        return _result(topic, error if context.api_version >= VERSION_DELETION_DISABLED else InvalidRequest(str(error)))
    except KqueueError as error:
        return _result(topic, error)


def _respond(outcomes: list[Outcome], quota: MutationQuota) -> SlicedWork[DeleteTopicsResponse]:
    results = yield from collect(
        lambda outcome: _result(outcome[0], error_of(outcome[1], LATE)) if isinstance(outcome, tuple) else outcome,
        outcomes,
    )
    return DeleteTopicsResponse(throttle_time_ms=quota.throttle_ms, responses=results)


def _result(named: TopicReference, error: BaseException | None) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=named.name, topic_id=named.id, error_code=code_of(error), error_message=message_of(error)
    )
