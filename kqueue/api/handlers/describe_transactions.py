"""DescribeTransactions (key 65): the states of transactional ids (KIP-664).

Version 0 only.
"""

from __future__ import annotations

from kqueue.api.access import on_each
from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import in_slices
from kqueue.base.errors import KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

VERSIONS = (0, 0)
ACCESS = (
    on_each(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
    on_each(AclOperation.DESCRIBE, ResourceType.TOPIC, "other topics of a transaction are left out"),
)


def handle(
    request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse | DelayedOperation[DescribeTransactionsResponse]:
    """Respond with the state of each id, once per id."""
    return in_slices(context, _handle_sliced(request, context))


def error_response(
    request: DescribeTransactionsRequest, version: int, error: BaseException
) -> DescribeTransactionsResponse:
    """Return `error` for every id."""
    return DescribeTransactionsResponse(
        transaction_states=[_failed(transactional_id, error) for transactional_id in request.transactional_ids]
    )


def _handle_sliced(
    request: DescribeTransactionsRequest, context: RequestContext
) -> SlicedWork[DescribeTransactionsResponse]:
    response = DescribeTransactionsResponse()
    for transactional_id in dict.fromkeys(request.transactional_ids):
        try:
            response.transaction_states.append((yield from _describe(transactional_id, context)))
        except KqueueError as error:
            response.transaction_states.append(_failed(transactional_id, error))
        yield None
    return response


def _describe(transactional_id: str, context: RequestContext) -> SlicedWork[TransactionState]:
    context.require(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    metadata = context.broker.coordinators.transactions.describe(transactional_id)
    may_describe = context.allowed(AclOperation.DESCRIBE, ResourceType.TOPIC, (name for name, _ in metadata.partitions))
    topics: dict[str, TopicData] = {}
    for topic, index in sorted(metadata.partitions):
        if topic in may_describe:
            topics.setdefault(topic, TopicData(topic=topic)).partitions.append(index)
        yield None
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=metadata.state.value,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_start_time_ms=metadata.start_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.epoch,
        topics=list(topics.values()),
    )


def _failed(transactional_id: str, error: BaseException) -> TransactionState:
    return TransactionState(transactional_id=transactional_id, error_code=code_of(error))
