"""TxnOffsetCommit (key 28): commit offsets of a group within a transaction (KIP-98).

The offsets are pending until the transaction ends. Versions 0 to 5:

    0       offsets and metadata
    1       clients throttle themselves (KIP-219)
    2       leader epochs (KIP-320)
    3       generation, member and instance id of the consumer (KIP-447); flexible encoding
    4       TRANSACTION_ABORTABLE (KIP-890)
    5       adds the group to the transaction; older clients send AddOffsetsToTxn before (KIP-890)
"""

from __future__ import annotations

from kqueue.api.access import on_each, on_group, on_transactional_id
from kqueue.api.errors import code_of
from kqueue.api.offset_selection import OffsetSelection, Outcomes
from kqueue.api.request_context import RequestContext, wait_for
from kqueue.api.slices import in_slices
from kqueue.base.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    IllegalGeneration,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTransactionState,
    KqueueError,
    ProducerFenced,
    StaleMemberEpoch,
    TransactionAbortable,
)
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.topics.topics import OFFSETS_TOPIC, Topic
from kqueue.groups.log.group_log import TransactionalProducer
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

VERSIONS = (0, 5)
ACCESS = (
    on_transactional_id(AclOperation.WRITE),
    on_group(AclOperation.READ),
    on_each(AclOperation.READ, ResourceType.TOPIC),
)
ITEM_WEIGHT = 8
VERSION_LOAD_IN_PROGRESS = 2
VERSION_ABORTABLE = 4
VERSION_ADDS_PARTITION = 5
Response = TxnOffsetCommitResponse | DelayedOperation[TxnOffsetCommitResponse]


def handle(request: TxnOffsetCommitRequest, context: RequestContext) -> Response:
    """Check the transaction, then commit all partitions that exist together, all or none."""
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(request: TxnOffsetCommitRequest, context: RequestContext) -> SlicedWork[Response]:
    response = TxnOffsetCommitResponse()
    selection = OffsetSelection()
    for requested in request.topics:
        partitions = [
            TxnOffsetCommitResponsePartition(partition_index=partition.partition_index)
            for partition in requested.partitions
        ]
        response.topics.append(TxnOffsetCommitResponseTopic(name=requested.name, partitions=partitions))
        topic, code = _find_topic(requested.name, context)
        yield from selection.add(topic, requested.partitions, partitions, code)
        yield None
    if not selection.offsets:
        return response
    deadline_ms = context.deadline_ms(context.broker.coordinators.groups.config.commit_timeout_ms)
    try:
        joined = _join_transaction(request, context)
    except KqueueError as error:
        return _fail(response, selection, error, context)
    if joined is None:
        return _commit_offsets(request, response, selection, deadline_ms, context)

    def proceed(joined: Promise[None]) -> Response:
        if not joined.done:
            return _fail(response, selection, CoordinatorNotAvailable(), context)
        if joined.error is not None:
            return _fail(response, selection, joined.error, context)
        return _commit_offsets(request, response, selection, deadline_ms, context)

    return wait_for(joined, proceed, deadline_ms)


def _find_topic(name: str, context: RequestContext) -> tuple[Topic | None, ErrorCode]:
    try:
        return context.topic_named(AclOperation.READ, name), ErrorCode.NONE
    except KqueueError as error:
        return None, code_of(error)


def _join_transaction(request: TxnOffsetCommitRequest, context: RequestContext) -> Promise[None] | None:
    """Check that the group's partition of the log is in the transaction, or add it (version 5)."""
    broker = context.broker
    if request.producer_id < 0:
        raise InvalidProducerIdMapping(f"a transaction needs a producer id, found {request.producer_id}")
    is_added = context.api_version >= VERSION_ADDS_PARTITION
    if not is_added and not broker.config["transaction.partition.verification.enable"]:
        return None
    return broker.coordinators.transaction_partitions.add_partitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [(OFFSETS_TOPIC, broker.coordinators.groups.partition_of(request.group_id))],
        verify_only=not is_added,
        transaction_version=2 if is_added else 0,
    )


def _commit_offsets(
    request: TxnOffsetCommitRequest,
    response: TxnOffsetCommitResponse,
    selection: OffsetSelection,
    deadline_ms: float,
    context: RequestContext,
) -> Response:
    try:
        promise = context.broker.coordinators.groups.commit_in_transaction(
            request.group_id,
            TransactionalProducer(request.producer_id, request.producer_epoch),
            request.generation_id,
            request.member_id,
            request.group_instance_id,
            selection.offsets,
        )
    except KqueueError as error:
        return _fail(response, selection, error, context)

    def respond(promise: Promise[Outcomes]) -> TxnOffsetCommitResponse:
        selection.settle(promise)
        return response

    return wait_for(promise, respond, deadline_ms)


def error_response(request: TxnOffsetCommitRequest, version: int, error: BaseException) -> TxnOffsetCommitResponse:
    """Return `error` for every partition."""
    code = code_of(error)
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=requested.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                    for partition in requested.partitions
                ],
            )
            for requested in request.topics
        ]
    )


def _fail(
    response: TxnOffsetCommitResponse, selection: OffsetSelection, error: KqueueError, context: RequestContext
) -> TxnOffsetCommitResponse:
    selection.fail(_code(error, context.api_version))
    return response


def _code(error: KqueueError, version: int) -> ErrorCode:
    """Return the code that clients of `version` handle. Source: Kafka AddPartitionsToTxnManager,
    KafkaApis.handleTxnOffsetCommitRequest (KAFKA-7296), OffsetMetadataManager.
    """
    if isinstance(error, StaleMemberEpoch):
        return code_of(IllegalGeneration())
    if isinstance(error, ProducerFenced):
        return code_of(InvalidProducerEpoch())
    if isinstance(error, TransactionAbortable) and version < VERSION_ABORTABLE:
        return code_of(InvalidTransactionState())
    if isinstance(error, CoordinatorLoadInProgress) and version < VERSION_LOAD_IN_PROGRESS:
        return code_of(CoordinatorNotAvailable())
    return code_of(error)
