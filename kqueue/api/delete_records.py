"""DeleteRecords: partitions begin later from now on; each partition of the request succeeds or fails for itself."""

from __future__ import annotations

from typing import NamedTuple

from kqueue.api.call import Call, error_of, wait_for_all
from kqueue.api.errors import code_of
from kqueue.base.errors import KqueueError
from kqueue.base.tickets import Ticket
from kqueue.broker.waiting import Wait
from kqueue.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

VERSIONS = (0, 2)
UNKNOWN = -1
LATE = "the deletion was not stored in time; it may still happen"


class Asked(NamedTuple):
    """One partition, and what became of the wish: the ticket gives its low watermark."""

    topic: str
    partition: int
    outcome: Ticket[int] | KqueueError


def handle(request: DeleteRecordsRequest, call: Call) -> DeleteRecordsResponse | Wait[DeleteRecordsResponse]:
    """Answered when all is stored, or when `timeout_ms` is over: what is then still under way may yet be deleted."""
    asked = [
        Asked(topic.name, one.partition_index, _delete(topic.name, one.partition_index, one.offset, call))
        for topic in request.topics
        for one in topic.partitions
    ]
    tickets = tuple(one.outcome for one in asked if isinstance(one.outcome, Ticket))
    return wait_for_all(tickets, lambda: _respond(asked), call.deadline_ms(request.timeout_ms))


def refuse(request: DeleteRecordsRequest, version: int, error: BaseException) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name=topic.name, partitions=[_result(one.partition_index, UNKNOWN, error) for one in topic.partitions])
            for topic in request.topics
        ]
    )


def _delete(name: str, index: int, offset: int, call: Call) -> Ticket[int] | KqueueError:
    try:
        return call.broker.deletion.delete_before(call.broker.topics.get(name), index, offset)
    except KqueueError as error:
        return error


def _respond(asked: list[Asked]) -> DeleteRecordsResponse:
    topics: dict[str, DeleteRecordsTopicResult] = {}
    for one in asked:
        topic = topics.setdefault(one.topic, DeleteRecordsTopicResult(name=one.topic))
        error = error_of(one.outcome, LATE)
        start = one.outcome.result() if error is None and isinstance(one.outcome, Ticket) else UNKNOWN
        topic.partitions.append(_result(one.partition, start, error))
    return DeleteRecordsResponse(topics=list(topics.values()))


def _result(index: int, low_watermark: int, error: BaseException | None) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark, error_code=code_of(error))
