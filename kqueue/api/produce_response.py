"""The response of a Produce request: what became of its appends, in the protocol's words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kqueue.api.errors import code_of, message_of
from kqueue.api.leader_hints import add_leader_hint
from kqueue.api.request_context import RequestContext
from kqueue.base.errors import AnswerNotExpected, InvalidRecord, InvalidTimestamp
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.produce.delayed_produce import ACKS_NONE, DelayedProduce
from kqueue.broker.produce.partition_append import NO_OFFSET, PartitionAppend
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages import produce as messages
from kqueue.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

VERSION_LEADER_HINTS: Final = 10
WITHOUT_START_OFFSET = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors of an append that Kafka answers without the log start offset."""


def produce_response(context: RequestContext, produce: DelayedProduce) -> ProduceResponse:
    """Return the response once all appends have ended, or time is over."""
    response = ProduceResponse(throttle_time_ms=produce.throttle_ms)
    for key, appends in produce.topics:
        _add_partitions(context, response, _add_topic(response, key), appends)
    return response


def produce_response_in_slices(context: RequestContext, produce: DelayedProduce) -> SlicedWork[ProduceResponse]:
    """`produce_response` of many partitions, yielding after each."""
    response = ProduceResponse(throttle_time_ms=produce.throttle_ms)
    for key, appends in produce.topics:
        partitions = _add_topic(response, key)
        for append in appends:
            _add_partitions(context, response, partitions, (append,))
            yield None
    return response


def _add_topic(response: ProduceResponse, key: str | bytes) -> list[PartitionProduceResponse]:
    partitions: list[PartitionProduceResponse] = []
    response.responses.append(
        TopicProduceResponse(name=key, partition_responses=partitions)
        if isinstance(key, str)
        else TopicProduceResponse(topic_id=key, partition_responses=partitions)
    )
    return partitions


def _add_partitions(
    context: RequestContext,
    response: ProduceResponse,
    partitions: list[PartitionProduceResponse],
    appends: Iterable[PartitionAppend],
) -> None:
    for append in appends:
        appended, error = append.appended, append.error
        if appended is None:
            data = _refused_append(append)
        else:  # mostly so: no call for each partition but this one
            data = PartitionProduceResponse(
                index=append.index,
                base_offset=appended.base_offset,
                log_append_time_ms=appended.log_append_time_ms,
                log_start_offset=appended.log_start_offset,
            )
            if error is not None:  # appended, and not confirmed as `acks` asks
                data.error_code, data.error_message = code_of(error), message_of(error)
        partitions.append(data)
        if error is not None and append.has_moved and context.api_version >= VERSION_LEADER_HINTS:
            add_leader_hint(context, append.partition, data, response, messages)


def error_response(request: ProduceRequest, version: int, error: BaseException) -> ProduceResponse:
    """Return `error` for every partition. Raises AnswerNotExpected: acks=0, no client reads it."""
    if isinstance(error, AnswerNotExpected):
        raise error
    if request.acks == ACKS_NONE:
        raise AnswerNotExpected(f"a request with acks=0 failed: {error}")
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=data.name,
                topic_id=data.topic_id,
                partition_responses=[_refused(partition.index, error) for partition in data.partition_data],
            )
            for data in request.topic_data
        ]
    )


def _refused_append(append: PartitionAppend) -> PartitionProduceResponse:
    assert append.error is not None, "it is neither appended nor refused"
    response = _refused(append.index, append.error)
    if response.error_code not in WITHOUT_START_OFFSET:
        response.log_start_offset = append.log_start_offset
    return response


def _refused(index: int, error: BaseException) -> PartitionProduceResponse:
    """Return the response of a partition to which nothing was appended."""
    response = PartitionProduceResponse(
        index=index, error_code=code_of(error), base_offset=NO_OFFSET, error_message=message_of(error)
    )
    if isinstance(error, (InvalidRecord, InvalidTimestamp)):
        # the records that are invalid; clients report the batch's others as rejected too
        response.record_errors = [
            BatchIndexAndErrorMessage(batch_index=each.batch_index, batch_index_error_message=each.message)
            for each in error.record_errors
        ]
    return response
