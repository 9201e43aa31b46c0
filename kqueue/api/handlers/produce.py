"""Produce (key 0): append batches to partitions; respond as `acks` asks.

With acks=0 there is no response; an error closes the connection.

Versions 0 to 13:

    0-2     message sets of magic 0 and 1, converted; 1 throttle time; 2 log append time (KIP-32)
    3       batches of magic 2, one per partition, and transactional ids (KIP-98)
    4       KAFKA_STORAGE_ERROR is known (KIP-112)
    5       log start offset (KIP-107)
    6       clients throttle themselves (KIP-219)
    7       zstd (KIP-110)
    8       record errors and error messages (KIP-467)
    9       flexible encoding (KIP-482)
    10      leader hints and node endpoints (KIP-951)
    11, 12  transactions, second protocol (KIP-890)
    13      topics by id (KIP-516)

Not emulated: zstd refused below version 7. Appends and waits are in `broker.produce`. A topic whose
backlog is bounded (`broker.upkeep.backlog`) refuses with POLICY_VIOLATION, or sets a throttle time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from kqueue.api.access import on_each
from kqueue.api.errors import message_of
from kqueue.api.produce_response import error_response, produce_response, produce_response_in_slices
from kqueue.api.request_context import CHANGE_WAIT_MS_MIN, RequestContext
from kqueue.api.slices import NO_RESPONSE, in_slices
from kqueue.base.errors import AnswerNotExpected, InvalidRequiredAcks, KqueueError
from kqueue.base.sliced_task import SlicedWork, run_to_end
from kqueue.broker.produce.delayed_produce import ACKS_ALL, ACKS_LEADER, ACKS_NONE, DelayedProduce, TopicAppends
from kqueue.broker.produce.partition_append import PartitionAppend
from kqueue.broker.produce.produce_transaction import ProduceTransaction
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.messages.produce import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from kqueue.broker.topics.topics import Topic

__all__ = ["ACCESS", "ITEM_WEIGHT", "VERSIONS", "error_response", "handle"]
VERSIONS = (0, 13)
ACCESS = (
    on_each(AclOperation.WRITE, ResourceType.TOPIC),
    on_each(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "of the request"),
)
VERSION_IDS: Final = 13
ITEM_WEIGHT = 4
Answer = ProduceResponse | DelayedOperation[ProduceResponse] | None


def handle(request: ProduceRequest, context: RequestContext) -> Answer:
    """Append the batches of the request; None: acks=0, no response.

    Raises: AnswerNotExpected: acks=0, and a partition failed.
    """
    acks, version = request.acks, context.api_version
    if acks not in (ACKS_ALL, ACKS_LEADER, ACKS_NONE):
        return error_response(request, version, InvalidRequiredAcks(f"acks is -1, 0 or 1, not {acks}"))
    broker, by_id = context.broker, version >= VERSION_IDS
    topics: list[TopicAppends] = []
    for data in request.topic_data:
        appends: list[PartitionAppend] = []
        for partition in data.partition_data:
            appends.append(PartitionAppend(partition.index, partition.records))  # noqa: PERF401  a call more
        topics.append((data.topic_id if by_id else data.name, appends))
    find_topic: Callable[..., Topic]
    if broker.security.authorizer is None:  # no call more for those who need none
        find_topic = broker.topics.by_id if by_id else broker.topics.get
    else:
        find_topic = partial(context.topic_with_id if by_id else context.topic_named, AclOperation.WRITE)
    produce = DelayedProduce(broker.produce, acks, version, topics, find_topic)
    if request.transactional_id is not None:
        try:
            return _in_transaction(request, context, produce, request.transactional_id)
        except KqueueError as error:
            return error_response(request, version, error)
    # One topic with one partition, as most requests have, can't be long. `is_long` looks at each
    # log.
    if len(topics) + len(topics[0][1] if topics else ()) > 2 and produce.is_long():
        return _in_turns(request.timeout_ms, context, produce)
    produce.append()
    return _respond(request.timeout_ms, context, produce)


def _in_transaction(
    request: ProduceRequest, context: RequestContext, produce: DelayedProduce, transactional_id: str
) -> Answer:
    context.require(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    broker = context.broker
    transaction = ProduceTransaction(
        broker.config,
        broker.scheduler.clock,
        broker.coordinators.transaction_partitions,
        transactional_id,
        context.api_version,
    )
    adding = produce.add_to_transaction(transaction)
    if not produce.is_long():
        run_to_end(adding)  # nothing of it remains for the turns
        if transaction.is_verified:  # as are all batches of a transaction but the first
            produce.append()
            return _respond(request.timeout_ms, context, produce)
    return _in_turns(request.timeout_ms, context, produce, adding)


def _in_turns(
    timeout_ms: int, context: RequestContext, produce: DelayedProduce, adding: SlicedWork[None] | tuple[()] = ()
) -> Answer:
    produce.takes_turns = True

    def append_all() -> SlicedWork[ProduceResponse | DelayedOperation[ProduceResponse]]:
        yield from produce.append_in_slices(adding)
        response = _respond(timeout_ms, context, produce)
        return NO_RESPONSE if response is None else response

    # an append can open a log, which takes a millisecond or more
    response = in_slices(context, append_all(), produce.keep, items_per_look=1)
    return None if response is NO_RESPONSE else response


def _respond(timeout_ms: int, context: RequestContext, produce: DelayedProduce) -> Answer:
    # Before the response: with acks=0 there is none, and this pause is all that slows its producer.
    if produce.throttle_ms:
        context.throttle(produce.throttle_ms)
    if produce.acks == ACKS_NONE:
        _raise_failure(produce)
        return None
    if produce.unappended or (produce.unconfirmed and not produce.is_confirmed_now()):
        respond = partial(_response, context, produce)
        return produce.wait(max(timeout_ms, CHANGE_WAIT_MS_MIN), respond)
    return _response(context, produce)


def _response(context: RequestContext, produce: DelayedProduce) -> ProduceResponse | DelayedOperation[ProduceResponse]:
    if produce.takes_turns:
        return in_slices(context, produce_response_in_slices(context, produce))
    return produce_response(context, produce)


def _raise_failure(produce: DelayedProduce) -> None:
    """Raises AnswerNotExpected: a partition failed, and acks=0 has no response to report it."""
    for _, appends in produce.topics:
        for append in appends:
            if append.error is not None:
                raise AnswerNotExpected(f"a request with acks=0 failed: {message_of(append.error)}")
