"""DeleteRecords (key 21): raise the log start of partitions (KIP-107).

Each partition succeeds or fails by itself. In a cluster it succeeds when the low watermark has
reached the new log start: all replicas whose brokers are alive have deleted the records. Source:
Kafka's DelayedDeleteRecords. Versions 0 to 2:

    0       an offset per partition; -1: the high watermark
    1       clients throttle themselves (KIP-219)
    2       flexible encoding (KIP-482)
"""

from __future__ import annotations

from typing import NamedTuple

from kqueue.api.access import on_each
from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext, error_of, wait_for_all
from kqueue.api.slices import in_slices
from kqueue.base.errors import KqueueError, RequestTimedOut
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.metadata.brokers import BROKERS_CHANGED
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.replicas.partition import Partition
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

VERSIONS = (0, 2)
ACCESS = (on_each(AclOperation.DELETE, ResourceType.TOPIC),)
UNKNOWN = -1
LATE = "the deletion was not stored in time; it may still happen"
LATE_REPLICAS = "not all replicas have deleted the records in time; they still will"


class Deletion(NamedTuple):
    """A started deletion: its result in the response, and the promise of its log start."""

    result: DeleteRecordsPartitionResult
    promise: Promise[int]
    partition: Partition


def handle(
    request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse | DelayedOperation[DeleteRecordsResponse]:
    """Respond when all are stored by all replicas, or after `timeout_ms`: unfinished deletions may
    still happen.
    """
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
    deadline_ms = context.change_deadline_ms(request.timeout_ms)
    return wait_for_all(
        promises, lambda: in_slices(context, _respond(response, deletions, context, deadline_ms)), deadline_ms
    )


def _delete(
    name: str, index: int, offset: int, context: RequestContext, deletions: list[Deletion]
) -> DeleteRecordsPartitionResult:
    try:
        topic = context.topic_named(AclOperation.DELETE, name)
        partition = topic.partition(index)
        partition.check_leader()
        promise = context.broker.upkeep.deletion.delete_before(topic, index, offset)
    except KqueueError as error:
        return _result(index, UNKNOWN, error)
    result = _result(index, UNKNOWN, None)
    deletions.append(Deletion(result, promise, partition))
    return result


def _respond(
    response: DeleteRecordsResponse, deletions: list[Deletion], context: RequestContext, deadline_ms: float
) -> SlicedWork[DeleteRecordsResponse | DelayedOperation[DeleteRecordsResponse]]:
    waiting: list[Deletion] = []
    for deletion in deletions:
        error = error_of(deletion.promise, LATE)
        if error is not None:
            deletion.result.error_code = code_of(error)
        elif not _is_followed(deletion):
            waiting.append(deletion)
        yield None
    if not waiting:
        return response

    def try_complete(expired: bool) -> DeleteRecordsResponse | None:
        waiting[:] = [deletion for deletion in waiting if not _is_followed(deletion)]
        if waiting and not expired:
            return None
        for result, _, _ in waiting:
            result.error_code = code_of(RequestTimedOut(LATE_REPLICAS))
        return response

    keys = [key for _, _, partition in waiting for key in (partition, partition.replica.leadership)]
    return DelayedOperation((BROKERS_CHANGED, *keys), deadline_ms, try_complete)


def _is_followed(deletion: Deletion) -> bool:
    """Whether all replicas have deleted the records, or an error says why that is unknown."""
    result, promise, partition = deletion
    try:
        result.low_watermark = partition.lead().low_watermark if promise.result() else 0  # it holds no records below
    except KqueueError as error:
        result.low_watermark, result.error_code = UNKNOWN, code_of(error)
        return True
    return result.low_watermark >= promise.result()


def _result(index: int, low_watermark: int, error: BaseException | None) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark, error_code=code_of(error))
