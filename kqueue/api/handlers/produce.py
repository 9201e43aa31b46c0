"""Produce: append batches to partitions, and answer as `acks` asks: 0 never, 1 once appended, -1
once committed.
"""

from __future__ import annotations

from kqueue.api.produce_work import Work, failed
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import NO_ANSWER, SLICE_ITEMS, in_slices
from kqueue.api.slices import Work as SlicedWork
from kqueue.base.errors import AnswerNotExpected, InvalidRequiredAcks, TransactionsNotServed
from kqueue.base.settings import MiB
from kqueue.broker.purgatory import DelayedOperation
from kqueue.wire.messages.produce import ProduceRequest, ProduceResponse, TopicProduceResponse

VERSIONS = (0, 13)
ITEM_WEIGHT = 4
KEPT_BYTES_MAX = 64 * MiB
"""Records of requests of more than `SLICE_ITEMS` partitions that are copied to be appended in later
turns, all connections together.
"""
ACKS_NONE = 0
ACKS_LEADER = 1
ACKS_ALL = -1


def handle(request: ProduceRequest, call: RequestContext) -> ProduceResponse | DelayedOperation[ProduceResponse] | None:
    if request.acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
        return refuse(request, call.api_version, InvalidRequiredAcks(f"acks is -1, 0 or 1, not {request.acks}"))
    if request.transactional_id is not None:
        raise TransactionsNotServed(request.transactional_id)
    work = Work(call, waits=request.acks == ACKS_ALL)
    topics = request.topic_data
    if len(topics) + len(topics[0].partition_data if topics else ()) > 2 and _partition_count(request) > SLICE_ITEMS:
        answer = _handle_large(request, call, work)
        return None if answer is NO_ANSWER else answer
    for data in topics:
        work.append_topic(data)
    return _answer(request, call, work)


def _partition_count(request: ProduceRequest) -> int:
    return sum(len(data.partition_data) for data in request.topic_data)


def _handle_large(
    request: ProduceRequest, call: RequestContext, work: Work
) -> ProduceResponse | DelayedOperation[ProduceResponse]:
    """Append in slices. What the first slice leaves is copied, as long as all such copies take no
    more than `KEPT_BYTES_MAX`.
    """
    broker, kept = call.broker, 0

    def steps() -> SlicedWork[ProduceResponse | DelayedOperation[ProduceResponse]]:
        try:
            yield from work.append_in_slices(request.topic_data)
            response = _answer(request, call, work)
            return NO_ANSWER if response is None else response
        finally:
            broker.kept_record_bytes -= kept

    def keep() -> bool:
        nonlocal kept
        left = [one for data in request.topic_data for one in data.partition_data if one.records is not None]
        size = sum(len(one.records or b"") for one in left)
        if broker.kept_record_bytes + size > KEPT_BYTES_MAX:
            return False
        kept = size
        broker.kept_record_bytes += kept
        for one in left:
            one.records = memoryview(bytearray(one.records))  # type: ignore[arg-type]
        return True

    return in_slices(call, steps(), keep)


def _answer(
    request: ProduceRequest, call: RequestContext, work: Work
) -> ProduceResponse | DelayedOperation[ProduceResponse] | None:
    if request.acks == ACKS_NONE:
        work.raise_failure()
        return None
    if work.late:
        return work.wait_until(request.timeout_ms)
    if work.pending and not work.is_committed():
        keys = tuple(pending.partition for pending in work.pending)
        return DelayedOperation(keys, call.change_deadline_ms(request.timeout_ms), work.retry)
    return work.response


def refuse(request: ProduceRequest, version: int, error: BaseException) -> ProduceResponse:
    """Raises AnswerNotExpected: acks=0, so that nobody reads an answer."""
    if isinstance(error, AnswerNotExpected):
        raise error
    if request.acks == ACKS_NONE:
        raise AnswerNotExpected(f"a request with acks=0 failed: {error}")
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=data.name,
                topic_id=data.topic_id,
                partition_responses=[failed(one.index, error) for one in data.partition_data],
            )
            for data in request.topic_data
        ]
    )
