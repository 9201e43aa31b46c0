"""Metadata (key 3): brokers, topics, and the leader of each partition; may create topics.

Versions 0 to 13:

    0       an empty list of topics stands for all
    1       null stands for all; controller, racks, internal topics
    2       cluster id (KIP-78)
    3       throttle time
    4       whether to create topics (KIP-204)
    5       offline replicas (KIP-112)
    6       clients throttle themselves (KIP-219)
    7       leader epochs (KIP-320)
    8       authorized operations (KIP-430)
    9       flexible encoding (KIP-482)
    10      topic ids in the response (KIP-516)
    11      no authorized operations of the cluster (KIP-700)
    12      topics by id (KIP-516)
    13      an error of the whole response (KIP-1102)

Brokers are those that are not fenced, without one this broker, at the address of the client's own
listener. The controller is the elected one, or without one this broker: each can do what is asked
of a controller. Not emulated: REBOOTSTRAP_REQUIRED.
"""

from __future__ import annotations

from collections.abc import Iterable

from kqueue.api.access import on_each
from kqueue.api.authorized_operations import authorized_operations, cluster_operations
from kqueue.api.cluster_view import ClusterView
from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext, wait_for_all
from kqueue.api.slices import collect, in_slices
from kqueue.base.errors import InvalidRequest, KqueueError, ThrottlingQuotaExceeded
from kqueue.base.names import INTERNAL_TOPICS, UUID_ZERO, check_topic
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topics import COORDINATOR_TOPICS, Topic
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

VERSIONS = (0, 13)
ACCESS = (
    on_each(AclOperation.DESCRIBE, ResourceType.TOPIC, "left out of all topics; by id as an unknown id"),
    on_each(AclOperation.CREATE, ResourceType.TOPIC, "to create it on demand; or CREATE of the cluster"),
    on_each(AclOperation.DESCRIBE, ResourceType.CLUSTER, "for its authorized operations only: 0 without it"),
)
VERSION_AUTO_CREATION_FLAG = 4
VERSION_IDS = 12  # 10 and 11 have the field, but must not use it
VERSION_LISTENER_ERRORS = 6  # before, a leader without the client's listener is LEADER_NOT_AVAILABLE
CREATION_WAIT_MS = 5_000

TopicOutcome = Topic | Promise[Topic] | ErrorCode
"""Errors are not kept: their tracebacks hold the request's frames."""


def handle(request: MetadataRequest, context: RequestContext) -> MetadataResponse | DelayedOperation[MetadataResponse]:
    """Respond when topics that the request creates are stored, so that the response has their
    leaders.
    """
    return in_slices(context, _handle_sliced(request, context))


def error_response(request: MetadataRequest, version: int, error: BaseException) -> MetadataResponse:
    """Return `error`, for every topic too."""
    topics = [
        MetadataResponseTopic(error_code=code_of(error), name=topic.name or "", topic_id=topic.topic_id)
        for topic in request.topics or ()
    ]
    return MetadataResponse(topics=topics, error_code=code_of(error))


def _handle_sliced(
    request: MetadataRequest, context: RequestContext
) -> SlicedWork[MetadataResponse | DelayedOperation[MetadataResponse]]:
    outcomes = yield from _find_all(request, context)
    promises = tuple(outcome for _, outcome in outcomes if isinstance(outcome, Promise))
    if not promises:
        return (yield from _respond(request, context, outcomes))
    return wait_for_all(
        promises,
        lambda: in_slices(context, _respond(request, context, outcomes)),
        context.deadline_ms(CREATION_WAIT_MS),
    )


def _find_all(
    request: MetadataRequest, context: RequestContext
) -> SlicedWork[list[tuple[MetadataRequestTopic, TopicOutcome]]]:
    if request.topics is None or (context.api_version == 0 and not request.topics):
        visible: list[tuple[MetadataRequestTopic, TopicOutcome]] = []
        for topic in list(context.broker.topics):
            if context.describes(topic.name):
                visible.append((MetadataRequestTopic(name=topic.name), topic))
            yield None
        return visible
    if context.api_version < VERSION_IDS and any(
        requested.topic_id != UUID_ZERO or requested.name is None for requested in request.topics
    ):
        raise InvalidRequest(f"topics are requested by id from version {VERSION_IDS} on, this is {context.api_version}")
    creates = request.allow_auto_topic_creation or context.api_version < VERSION_AUTO_CREATION_FLAG
    once = {(requested.name, requested.topic_id): requested for requested in request.topics}
    return (
        yield from collect(lambda requested: (requested, _find(requested, context, creates=creates)), once.values())
    )


def _find(requested: MetadataRequestTopic, context: RequestContext, *, creates: bool) -> TopicOutcome:
    topics = context.broker.topics
    try:
        if requested.topic_id != UUID_ZERO:
            return context.topic_with_id(AclOperation.DESCRIBE, requested.topic_id)
        context.require(AclOperation.DESCRIBE, ResourceType.TOPIC, requested.name or "")
        topic = topics.find(requested.name or "")
        if topic is not None:
            return topic
        name = check_topic(requested.name)
        if (
            creates
            and context.broker.config["auto.create.topics.enable"]
            and (name in COORDINATOR_TOPICS or name not in INTERNAL_TOPICS)
        ):
            context.require_or_cluster(AclOperation.CREATE, ResourceType.TOPIC, name)
            return _create(name, context)
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    except KqueueError as error:
        return code_of(error)


def _create(name: str, context: RequestContext) -> TopicOutcome:
    """Return the promise of a topic that is created on demand, which counts for the client's quota.

    Above the quota there is no such topic, as in Kafka, and clients ask again.
    """
    try:
        return context.broker.topics.create_on_demand(name, context.mutation_quota(strict_from=0).count)
    except ThrottlingQuotaExceeded:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _respond(
    request: MetadataRequest, context: RequestContext, outcomes: Iterable[tuple[MetadataRequestTopic, TopicOutcome]]
) -> SlicedWork[MetadataResponse]:
    broker = context.broker
    view = context.cluster_view()
    topics = []
    for requested, outcome in outcomes:
        response = yield from _topic_response(requested, outcome, view, context.api_version)
        if request.include_topic_authorized_operations and response.error_code == ErrorCode.NONE:
            response.topic_authorized_operations = authorized_operations(
                context, ResourceType.TOPIC, response.name or ""
            )
        topics.append(response)
        if request.topics is not None and isinstance(outcome, Topic) and not broker.upkeep.recovery.is_done:
            for partition in outcome.partitions:
                broker.upkeep.recovery.hurry(partition.topic, partition.index)
        yield None
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=id, host=host, port=port, rack=rack)
            for id, host, port, rack in view.bootstrap.values()
        ],
        cluster_id=broker.identity.cluster_id,
        controller_id=view.controller_id,
        topics=topics,
        cluster_authorized_operations=cluster_operations(
            context, requested=request.include_cluster_authorized_operations
        ),
    )


def _topic_response(
    requested: MetadataRequestTopic, outcome: TopicOutcome, view: ClusterView, version: int
) -> SlicedWork[MetadataResponseTopic]:
    if isinstance(outcome, Promise):
        if not outcome.done:
            return _error(requested, ErrorCode.LEADER_NOT_AVAILABLE)
        outcome = code_of(outcome.error) if outcome.error is not None else outcome.result()
    if isinstance(outcome, ErrorCode):
        return _error(requested, outcome)
    partitions = yield from collect(lambda partition: _partition_response(partition, view, version), outcome.partitions)
    return MetadataResponseTopic(
        name=outcome.name,
        topic_id=outcome.id,
        is_internal=outcome.is_internal,
        partitions=partitions,
    )


def _error(requested: MetadataRequestTopic, code: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code, name=requested.name, topic_id=requested.topic_id, is_internal=requested.name in INTERNAL_TOPICS
    )


def _partition_response(partition: Partition, view: ClusterView, version: int) -> MetadataResponsePartition:
    error, leader, leader_epoch, replicas, isr, offline, _ = view.partition(partition)
    if error is ErrorCode.LISTENER_NOT_FOUND and version < VERSION_LISTENER_ERRORS:
        error = ErrorCode.LEADER_NOT_AVAILABLE
    if version == 0 and error is ErrorCode.NONE and offline:
        replicas = [node for node in replicas if node not in offline]
        isr = [node for node in isr if node not in offline]
        error = ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=partition.index,
        leader_id=leader,
        leader_epoch=leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline,
    )
