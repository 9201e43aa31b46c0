"""Metadata: brokers, topics, and which broker leads each partition. Topics may come to be by being
asked for.
"""

from __future__ import annotations

from collections.abc import Iterable

from kqueue.api.authorized_operations import CLUSTER_OPERATIONS, NOT_REQUESTED, TOPIC_OPERATIONS
from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext, wait_for_all
from kqueue.api.slices import collect, in_slices
from kqueue.base.errors import InvalidRequest, KqueueError
from kqueue.base.names import INTERNAL_TOPICS, UUID_ZERO, check_topic
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.partition import Partition
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.topics import OFFSETS_TOPIC, Topic
from kqueue.log.log_state import LogState
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
VERSION_AUTO_CREATION_FLAG = 4
VERSION_IDS = 12  # 10 and 11 have the field, but nobody may use it
CREATION_WAIT_MS = 5_000
NO_LEADER = -1

Found = Topic | Promise[Topic] | ErrorCode
"""Errors are not kept: each holds its traceback, and with it the frames of the request."""


def handle(request: MetadataRequest, context: RequestContext) -> MetadataResponse | DelayedOperation[MetadataResponse]:
    """Topics that are created on demand are waited for, so that the answer already names their
    leaders.
    """
    return in_slices(context, _handle_sliced(request, context))


def error_response(request: MetadataRequest, version: int, error: BaseException) -> MetadataResponse:
    topics = [
        MetadataResponseTopic(error_code=code_of(error), name=one.name or "", topic_id=one.topic_id)
        for one in request.topics or ()
    ]
    return MetadataResponse(topics=topics, error_code=code_of(error))


def _handle_sliced(
    request: MetadataRequest, context: RequestContext
) -> SlicedWork[MetadataResponse | DelayedOperation[MetadataResponse]]:
    found = yield from _find_all(request, context)
    promises = tuple(what for _, what in found if isinstance(what, Promise))
    if not promises:
        return (yield from _respond(request, context, found))
    return wait_for_all(
        promises, lambda: in_slices(context, _respond(request, context, found)), context.deadline_ms(CREATION_WAIT_MS)
    )


def _find_all(
    request: MetadataRequest, context: RequestContext
) -> SlicedWork[list[tuple[MetadataRequestTopic, Found]]]:
    if request.topics is None or (context.api_version == 0 and not request.topics):
        return [(MetadataRequestTopic(name=topic.name), topic) for topic in context.broker.topics]
    if context.api_version < VERSION_IDS and any(
        one.topic_id != UUID_ZERO or one.name is None for one in request.topics
    ):
        raise InvalidRequest(f"topics are asked for by id from version {VERSION_IDS} on, this is {context.api_version}")
    creates = request.allow_auto_topic_creation or context.api_version < VERSION_AUTO_CREATION_FLAG
    once = {(one.name, one.topic_id): one for one in request.topics}
    return (yield from collect(lambda one: (one, _find(one, context, creates=creates)), once.values()))


def _find(asked: MetadataRequestTopic, context: RequestContext, *, creates: bool) -> Found:
    topics = context.broker.topics
    try:
        if asked.topic_id != UUID_ZERO:
            return topics.by_id(asked.topic_id)
        topic = topics.find(asked.name or "")
        if topic is not None:
            return topic
        name = check_topic(asked.name)
        if (
            creates
            and context.broker.config["auto.create.topics.enable"]
            and (name == OFFSETS_TOPIC or name not in INTERNAL_TOPICS)
        ):
            return topics.create_on_demand(name)
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    except KqueueError as error:
        return code_of(error)


def _respond(
    request: MetadataRequest, context: RequestContext, found: Iterable[tuple[MetadataRequestTopic, Found]]
) -> SlicedWork[MetadataResponse]:
    broker = context.broker
    host, port = context.endpoint()
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_REQUESTED
    topics = []
    for asked, what in found:
        topics.append((yield from _topic(asked, what, operations)))
        yield None
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=broker.node_id, host=host, port=port, rack=broker.rack)],
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else NOT_REQUESTED,
    )


def _topic(asked: MetadataRequestTopic, what: Found, operations: int) -> SlicedWork[MetadataResponseTopic]:
    if isinstance(what, Promise):
        if not what.done:
            return _without(asked, ErrorCode.LEADER_NOT_AVAILABLE)
        what = code_of(what.error) if what.error is not None else what.result()
    if isinstance(what, ErrorCode):
        return _without(asked, what)
    partitions = yield from collect(_partition, what.partitions)
    return MetadataResponseTopic(
        name=what.name,
        topic_id=what.id,
        is_internal=what.is_internal,
        partitions=partitions,
        topic_authorized_operations=operations,
    )


def _without(asked: MetadataRequestTopic, code: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code, name=asked.name, topic_id=asked.topic_id, is_internal=asked.name in INTERNAL_TOPICS
    )


def _partition(partition: Partition) -> MetadataResponsePartition:
    leader = partition.leader
    if partition.is_open and partition.log.state is LogState.OFFLINE:
        return MetadataResponsePartition(
            error_code=ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=partition.index,
            leader_id=NO_LEADER,
            leader_epoch=partition.leader_epoch,
            replica_nodes=[leader],
            offline_replicas=[leader],
        )
    return MetadataResponsePartition(
        partition_index=partition.index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=[leader],
        isr_nodes=[leader],
    )
