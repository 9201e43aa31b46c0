"""DeleteRecords (key 21): raise the log start of partitions (KIP-107).

Each partition succeeds or fails by itself. Versions 0 to 2:

    0       an offset per partition; -1: the high watermark
    1       clients throttle themselves (KIP-219)
    2       flexible encoding (KIP-482)
"""

from __future__ import annotations

from typing import NamedTuple

from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext, error_of, wait_for_all
from kqueue.api.slices import in_slices
from kqueue.base.errors import KqueueError
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

VERSIONS = (0, 2)
UNKNOWN = -1
LATE = "the deletion was not stored in time; it may still happen"


class Deletion(NamedTuple):
    """A started deletion: its result in the response, and the promise of its low watermark."""

    result: DeleteRecordsPartitionResult
    promise: Promise[int]


def handle(
    request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse | DelayedOperation[DeleteRecordsResponse]:
    """Respond when all are stored, or after `timeout_ms`: unfinished deletions may still happen."""
    return in_slices(context, _handle_sliced(request, context))


def error_response(request: DeleteRecordsRequest, version: int, error: BaseException) -> DeleteRecordsResponse:
    """Return `error` for every partition."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_result(partition.partition_index, UNKNOWN, error) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _handle_sliced(
    request: DeleteRecordsRequest, context: RequestContext
) -> SlicedWork[DeleteRecordsResponse | DelayedOperation[DeleteRecordsResponse]]:
    topics: dict[str, DeleteRecordsTopicResult] = {}
    deletions: list[Deletion] = []
    for requested in request.topics:
        topic = topics.setdefault(requested.name, DeleteRecordsTopicResult(name=requested.name))
        for partition in requested.partitions:
            topic.partitions.append(
                _delete(requested.name, partition.partition_index, partition.offset, context, deletions)
            )
            yield None
        yield None
    response = DeleteRecordsResponse(topics=[topic for topic in topics.values() if topic.partitions])
    promises = tuple(deletion.promise for deletion in deletions)
    return wait_for_all(
        promises,
        lambda: in_slices(context, _respond(response, deletions)),
        context.change_deadline_ms(request.timeout_ms),
    )


def _delete(
    name: str, index: int, offset: int, context: RequestContext, deletions: list[Deletion]
) -> DeleteRecordsPartitionResult:
    try:
        topic = context.broker.topics.get(name)
        topic.partition(index).check_leader()
        promise = context.broker.deletion.delete_before(topic, index, offset)
    except KqueueError as error:
        return _result(index, UNKNOWN, error)
    result = _result(index, UNKNOWN, None)
    deletions.append(Deletion(result, promise))
    return result


def _respond(response: DeleteRecordsResponse, deletions: list[Deletion]) -> SlicedWork[DeleteRecordsResponse]:
    for result, promise in deletions:
        error = error_of(promise, LATE)
        result.error_code = code_of(error)
        result.low_watermark = UNKNOWN if error is not None else promise.result()
        yield None
    return response


def _result(index: int, low_watermark: int, error: BaseException | None) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark, error_code=code_of(error))
