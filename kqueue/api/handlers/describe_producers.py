"""DescribeProducers (key 61): the producers that partitions remember (KIP-664).

Tools find hanging transactions with it. Version 0:

    0       epochs, last sequence and timestamp, first offset of the open transaction
"""

from __future__ import annotations

from kqueue.api.access import on_each
from kqueue.api.errors import code_of, message_of
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import in_slices
from kqueue.base.errors import InvalidRequest, KqueueError
from kqueue.base.names import check_topic
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

VERSIONS = (0, 0)
ACCESS = (on_each(AclOperation.READ, ResourceType.TOPIC),)
NONE = -1


def handle(
    request: DescribeProducersRequest, context: RequestContext
) -> DescribeProducersResponse | DelayedOperation[DescribeProducersResponse]:
    """Respond with the producers of each partition."""
    return in_slices(context, _handle_sliced(request, context))


def error_response(request: DescribeProducersRequest, version: int, error: BaseException) -> DescribeProducersResponse:
    """Return `error` for every partition."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(name=topic.name, partitions=[_failed(index, error) for index in topic.partition_indexes])
            for topic in request.topics
        ]
    )


def _handle_sliced(request: DescribeProducersRequest, context: RequestContext) -> SlicedWork[DescribeProducersResponse]:
    response = DescribeProducersResponse()
    seen: set[tuple[str, int]] = set()
    for requested in request.topics:
        topic = TopicResponse(name=requested.name)
        response.topics.append(topic)
        for index in requested.partition_indexes:
            try:
                if (requested.name, index) in seen:  # each may have many producers
                    raise InvalidRequest(f"partition {requested.name}-{index} is twice in the request")
                seen.add((requested.name, index))
                topic.partitions.append((yield from _described(requested.name, index, context)))
            except KqueueError as error:
                topic.partitions.append(_failed(index, error))
            yield None
        yield None
    return response


def _described(name: str, index: int, context: RequestContext) -> SlicedWork[PartitionResponse]:
    context.require(AclOperation.READ, ResourceType.TOPIC, name)
    partition = context.broker.topics.partition(check_topic(name), index)
    partition.check_leader()
    response = PartitionResponse(partition_index=index)
    for producer_id, producer in list(partition.log.producers.items()):
        response.active_producers.append(
            ProducerState(
                producer_id=producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.batches[-1].last_sequence if producer.batches else NONE,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_offset,
            )
        )
        yield None
    return response


def _failed(index: int, error: BaseException) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=code_of(error), error_message=message_of(error))
