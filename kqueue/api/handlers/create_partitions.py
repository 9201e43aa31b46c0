"""CreatePartitions (key 37): raise topics' numbers of partitions (KIP-195).

Versions 0 to 3:

    0       count and assignments per topic; validate only
    1       clients throttle themselves (KIP-219)
    2       flexible encoding (KIP-482)
    3       THROTTLING_QUOTA_EXCEEDED is known (KIP-599)

From version 3 on partitions above the client's quota of them are refused; before, they are created,
and the client is held back.
"""

from __future__ import annotations

from collections import Counter

from kqueue.api.access import on_each
from kqueue.api.errors import code_of, message_of
from kqueue.api.request_context import RequestContext, error_of, wait_for_all
from kqueue.api.slices import collect, in_slices
from kqueue.base.errors import InvalidRequest, KqueueError
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.access.mutation_quota import MutationQuota
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.topics.topics import Topic
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

VERSIONS = (0, 3)
VERSION_STRICT_QUOTA = 3
ACCESS = (on_each(AclOperation.ALTER, ResourceType.TOPIC),)
LATE = "the partitions were not stored in time; they may still be created"

Outcome = Promise[Topic] | CreatePartitionsTopicResult


def handle(
    request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse | DelayedOperation[CreatePartitionsResponse]:
    """Respond when all are stored, or after `timeout_ms`: unfinished changes may still succeed."""
    return in_slices(context, _handle_sliced(request, context))


def error_response(request: CreatePartitionsRequest, version: int, error: BaseException) -> CreatePartitionsResponse:
    """Return `error` for every topic."""
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreatePartitionsResponse(results=[_result(name, error) for name in names])


def _handle_sliced(
    request: CreatePartitionsRequest, context: RequestContext
) -> SlicedWork[CreatePartitionsResponse | DelayedOperation[CreatePartitionsResponse]]:
    counts = Counter(topic.name for topic in request.topics)
    quota = context.mutation_quota(VERSION_STRICT_QUOTA)
    outcomes: dict[str, Outcome] = {}
    for name, topic in {topic.name: topic for topic in request.topics}.items():
        outcomes[name] = (
            _grow(topic, context, quota, validate_only=request.validate_only) if counts[name] == 1 else _repeated(name)
        )
        yield None
    promises = tuple(outcome for outcome in outcomes.values() if isinstance(outcome, Promise))
    return wait_for_all(
        promises, lambda: in_slices(context, _respond(outcomes, quota)), context.change_deadline_ms(request.timeout_ms)
    )


def _grow(
    requested: CreatePartitionsTopic, context: RequestContext, quota: MutationQuota, *, validate_only: bool
) -> Outcome:
    assignments = (
        None if requested.assignments is None else [assignment.broker_ids for assignment in requested.assignments]
    )
    try:
        context.require(AclOperation.ALTER, ResourceType.TOPIC, requested.name)
        topics = context.broker.topics
        if validate_only or quota.is_bounded:
            topics.check_growth(requested.name, requested.count, assignments)
            quota.count(requested.count - len(topics.get(requested.name).partitions))
        if validate_only:
            return _result(requested.name, None)
        return topics.add_partitions(requested.name, requested.count, assignments)
    except KqueueError as error:
        return _result(requested.name, error)


def _repeated(name: str) -> CreatePartitionsTopicResult:
    return _result(name, InvalidRequest(f"topic {name!r} is twice in the request"))


def _respond(outcomes: dict[str, Outcome], quota: MutationQuota) -> SlicedWork[CreatePartitionsResponse]:
    results = yield from collect(_settled, outcomes.items())
    return CreatePartitionsResponse(throttle_time_ms=quota.throttle_ms, results=results)


def _settled(named: tuple[str, Outcome]) -> CreatePartitionsTopicResult:
    name, outcome = named
    return _result(name, error_of(outcome, LATE)) if isinstance(outcome, Promise) else outcome


def _result(name: str, error: BaseException | None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=code_of(error), error_message=message_of(error))
