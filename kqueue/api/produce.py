"""Produce: append batches to partitions, and answer as `acks` asks: 0 never, 1 once appended, -1 once committed."""

from __future__ import annotations

from kqueue.api.call import Call
from kqueue.api.produce_work import Work, failed
from kqueue.base.errors import AnswerNotExpected, InvalidRequiredAcks, TransactionsNotServed
from kqueue.broker.waiting import Wait
from kqueue.wire.messages.produce import ProduceRequest, ProduceResponse, TopicProduceResponse

VERSIONS = (0, 13)
ITEM_WEIGHT = 4
ACKS_NONE = 0
ACKS_LEADER = 1
ACKS_ALL = -1


def handle(request: ProduceRequest, call: Call) -> ProduceResponse | Wait[ProduceResponse] | None:
    if request.acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
        return refuse(request, call.api_version, InvalidRequiredAcks(f"acks is -1, 0 or 1, not {request.acks}"))
    if request.transactional_id is not None:
        raise TransactionsNotServed(request.transactional_id)
    work = Work(call, waits=request.acks == ACKS_ALL)
    for data in request.topic_data:
        work.append_topic(data)
    if request.acks == ACKS_NONE:
        work.raise_failure()
        return None
    if work.late:
        return work.wait_until(request.timeout_ms)
    if work.pending and not work.is_committed():
        keys = tuple(pending.partition for pending in work.pending)
        return Wait(keys, call.change_deadline_ms(request.timeout_ms), work.retry)
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
