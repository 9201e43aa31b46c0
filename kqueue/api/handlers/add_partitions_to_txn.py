"""AddPartitionsToTxn (key 24): make partitions part of a transaction (KIP-98).

Versions 0 to 5:

    0       transactional id, producer id and epoch, partitions
    1       clients throttle themselves (KIP-219)
    2       PRODUCER_FENCED is known (KIP-588)
    3       flexible encoding (KIP-482); the last that producers send
    4       several transactions, and verification, for brokers and tools (KIP-890)
    5       clients know TRANSACTION_ABORTABLE (KIP-890); version 4, of brokers alone, gets it too

Producers of transactions V2 do not send it: Produce adds its partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kqueue.api.access import on_each
from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext, wait_for_all
from kqueue.api.slices import in_slices
from kqueue.api.transaction_errors import transaction_code
from kqueue.base.errors import (
    CoordinatorNotAvailable,
    KqueueError,
    OperationNotAttempted,
    TransactionAbortable,
    UnknownTopicOrPartition,
)
from kqueue.base.names import INTERNAL_TOPICS
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.broker import Broker
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.errors import TopicAuthorizationFailed
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.transactions.marker_writer import TopicPartition
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

VERSIONS = (0, 5)
ACCESS = (
    on_each(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "below version 4"),
    on_each(AclOperation.WRITE, ResourceType.TOPIC, "below version 4"),
    on_each(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, "from version 4 on, for the whole request"),
)
VERSION_FENCED = 2
VERSION_BATCHES = 4


class RequestedTransaction(NamedTuple):
    """One transaction of a request. `from_producer`: a producer asks, not a broker or a tool."""

    transactional_id: str
    producer_id: int
    epoch: int
    verify_only: bool
    topics: Sequence[AddPartitionsToTxnTopic]
    from_producer: bool


class AddedPartitions(NamedTuple):
    """The outcome of one transaction: a promise, or the errors of partitions that were refused."""

    requested: RequestedTransaction
    promise: Promise[None] | None
    refused: dict[TopicPartition, KqueueError]


def handle(
    request: AddPartitionsToTxnRequest, context: RequestContext
) -> AddPartitionsToTxnResponse | DelayedOperation[AddPartitionsToTxnResponse]:
    """Add the partitions of each transaction, all or none."""
    if context.api_version >= VERSION_BATCHES:
        context.require(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
    else:
        context.require(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.v3_and_below_transactional_id)
    return in_slices(context, _handle_sliced(request, context))


def error_response(
    request: AddPartitionsToTxnRequest, version: int, error: BaseException
) -> AddPartitionsToTxnResponse:
    """Return `error`, for each partition where the version has no other place."""
    if version >= VERSION_BATCHES:
        return AddPartitionsToTxnResponse(error_code=code_of(error))
    code = transaction_code(error, knows_fenced=version >= VERSION_FENCED)
    [requested] = _requested(request, version)
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            _result(topic.name, dict.fromkeys(topic.partitions, code)) for topic in requested.topics
        ]
    )


def _result(topic: str, codes: Mapping[int, ErrorCode]) -> AddPartitionsToTxnTopicResult:
    partitions = [
        AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        for index, code in codes.items()
    ]
    return AddPartitionsToTxnTopicResult(name=topic, results_by_partition=partitions)


def _requested(request: AddPartitionsToTxnRequest, version: int) -> Iterator[RequestedTransaction]:
    if version >= VERSION_BATCHES:
        yield from map(_of_batch, request.transactions)
        return
    yield RequestedTransaction(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        False,
        request.v3_and_below_topics,
        from_producer=True,
    )


def _of_batch(transaction: AddPartitionsToTxnTransaction) -> RequestedTransaction:
    return RequestedTransaction(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.verify_only,
        transaction.topics,
        from_producer=False,
    )


def _handle_sliced(
    request: AddPartitionsToTxnRequest, context: RequestContext
) -> SlicedWork[AddPartitionsToTxnResponse | DelayedOperation[AddPartitionsToTxnResponse]]:
    added: list[AddedPartitions] = []
    timeout_ms = 0
    for requested in _requested(request, context.api_version):
        one = yield from _add(requested, context)
        added.append(one)
        timeout_ms = max(
            timeout_ms, context.broker.coordinators.transactions.write_timeout_ms(requested.transactional_id)
        )
        yield None
    promises = tuple(one.promise for one in added if one.promise is not None)
    return wait_for_all(promises, lambda: in_slices(context, _respond(added, context)), context.deadline_ms(timeout_ms))


def _add(requested: RequestedTransaction, context: RequestContext) -> SlicedWork[AddedPartitions]:
    broker = context.broker
    refused: dict[TopicPartition, KqueueError] = {}
    partitions: dict[TopicPartition, None] = {}
    for topic in requested.topics:
        denied = _denial(topic.name, context) if requested.from_producer else None
        for index in topic.partitions:
            partitions[topic.name, index] = None
            error = denied or _check(topic.name, index, broker)
            if error is not None:
                refused[topic.name, index] = error
            yield None
        yield None
    if refused or not partitions:
        return AddedPartitions(requested, None, refused)
    promise = broker.coordinators.transactions.add_partitions(
        requested.transactional_id,
        requested.producer_id,
        requested.epoch,
        partitions,
        verify_only=requested.verify_only,
        transaction_version=0 if requested.from_producer else 2,
    )
    return AddedPartitions(requested, promise, {})


def _denial(topic: str, context: RequestContext) -> KqueueError | None:
    """Return why a producer may not write to a topic; None: it may."""
    if topic in INTERNAL_TOPICS:
        return TopicAuthorizationFailed(f"topic {topic} is internal: clients must not write to it")
    try:
        context.require(AclOperation.WRITE, ResourceType.TOPIC, topic)
    except KqueueError as error:
        return error.with_traceback(None)
    return None


def _check(topic: str, index: int, broker: Broker) -> KqueueError | None:
    known_topic = broker.topics.find(topic)
    if known_topic is None or not 0 <= index < len(known_topic.partitions):
        return UnknownTopicOrPartition(f"there is no partition {topic}-{index}")
    return None


def _respond(added: Sequence[AddedPartitions], context: RequestContext) -> SlicedWork[AddPartitionsToTxnResponse]:
    results = []
    for one in added:
        topics = []
        for topic in one.requested.topics:
            codes = {}
            for index in topic.partitions:
                codes[index] = _code(_error(one, (topic.name, index), context.broker), context.api_version)
                yield None
            topics.append(_result(topic.name, codes))
            yield None
        results.append(AddPartitionsToTxnResult(transactional_id=one.requested.transactional_id, topic_results=topics))
        yield None
    if context.api_version < VERSION_BATCHES:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _error(added: AddedPartitions, partition: TopicPartition, broker: Broker) -> KqueueError | None:
    if added.promise is None:
        default = OperationNotAttempted("another partition of the transaction was refused") if added.refused else None
        return added.refused.get(partition, default)
    if not added.promise.done:
        return CoordinatorNotAvailable("the partitions were not replicated in time")
    error = added.promise.error
    if isinstance(error, TransactionAbortable):  # only the missing partitions
        transaction = broker.coordinators.transactions.describe(added.requested.transactional_id)
        return None if partition in transaction.partitions else error
    return error


def _code(error: KqueueError | None, version: int) -> ErrorCode:
    return transaction_code(error, knows_fenced=version >= VERSION_FENCED)
