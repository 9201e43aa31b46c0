"""Common parts of the five APIs of the share coordinator: one outcome for each share partition
of a request (KIP-932). Brokers send them, to the broker that leads the partition of
`__share_group_state`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from kqueue.api.errors import code_of, message_of
from kqueue.api.modern_groups import check_served
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import in_slices, settled
from kqueue.base.errors import InvalidRequest, KqueueError, UnknownTopicOrPartition
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.broker import Broker
from kqueue.broker.purgatory import DelayedOperation
from kqueue.groups.group import GroupType
from kqueue.share.coordinator import ShareCoordinator
from kqueue.share.record_state import RecordState
from kqueue.share.share_state import SharePartitionKey, ShareState
from kqueue.share.state_batches import StateBatch

R = TypeVar("R")
PERSISTED_STATES = (RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
OutcomeDone = Callable[[ShareState | KqueueError | None], None]


class StateCall(NamedTuple):
    """One share partition of a request.

    Attributes:
        partition: the struct of the request, with its fields.
        done: called with the outcome: None, a state, or an error.
    """

    coordinator: ShareCoordinator
    key: SharePartitionKey
    partition: Any
    done: OutcomeDone


class StateApi(NamedTuple, Generic[R]):
    """One API.

    Attributes:
        response, topic_result, partition_result: its classes.
        call: begins what is asked of one share partition; may raise.
        fill: sets the fields of a result from a state.
        needs_topic: the partition must exist.
    """

    response: Callable[..., R]
    topic_result: type[Any]
    partition_result: type[Any]
    call: Callable[[StateCall], None]
    fill: Callable[[Any, ShareState | None], None] = lambda result, state: None
    needs_topic: bool = True


def handle_states(api: StateApi[R], request: Any, context: RequestContext) -> R | DelayedOperation[R]:
    """Respond when each share partition has its outcome."""
    return in_slices(context, _handle_sliced(api, request, context), lambda: True)


def error_response(api: StateApi[R], request: Any, error: BaseException) -> R:
    """Return `error` for each share partition."""
    return api.response(
        results=[
            api.topic_result(
                topic_id=topic.topic_id,
                partitions=[_failed(api, partition.partition, error) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _failed(api: StateApi[Any], index: int, error: BaseException) -> Any:
    return api.partition_result(partition=index, error_code=code_of(error), error_message=message_of(error))


def _handle_sliced(api: StateApi[R], request: Any, context: RequestContext) -> SlicedWork[R | DelayedOperation[R]]:
    try:
        check_served(context, GroupType.SHARE)
        if not request.group_id:
            raise InvalidRequest("GroupId can't be empty.")
    except KqueueError as error:
        return error_response(api, request, error)
    begun = []
    for topic in request.topics:
        promises = []
        for partition in topic.partitions:
            key = SharePartitionKey(request.group_id, topic.topic_id, partition.partition)
            promises.append(_begin(api, key, partition, context.broker))
            yield None
        begun.append(promises)
    results = []
    for topic, promises in zip(request.topics, begun, strict=True):
        partitions = []
        for partition, promise in zip(topic.partitions, promises, strict=True):
            try:
                state = yield from settled(promise)
            except KqueueError as error:
                partitions.append(_failed(api, partition.partition, error))
            else:
                result = api.partition_result(partition=partition.partition)
                api.fill(result, state)
                partitions.append(result)
            yield None
        results.append(api.topic_result(topic_id=topic.topic_id, partitions=partitions))
    return api.response(results=results)


def _begin(api: StateApi[Any], key: SharePartitionKey, partition: Any, broker: Broker) -> Promise[ShareState | None]:
    promise: Promise[ShareState | None] = Promise()

    def done(outcome: ShareState | KqueueError | None) -> None:
        if isinstance(outcome, KqueueError):
            promise.fail(outcome)
        else:
            promise.resolve(outcome)
        broker.scheduler.purgatory.wake(promise)

    try:
        if api.needs_topic:
            _check_partition(key, broker)
        api.call(StateCall(broker.share.coordinator, key, partition, done))
    except KqueueError as error:
        done(error)
    return promise


def _check_partition(key: SharePartitionKey, broker: Broker) -> None:
    topic = broker.topics.find_by_id(key.topic_id)
    if topic is None or not 0 <= key.partition < len(topic.partitions):
        raise UnknownTopicOrPartition(f"there is no partition {key.partition} of a topic with this id")


def checked_batches(batches: Sequence[Any]) -> list[StateBatch]:
    """Return the batches of a request. Raises InvalidRequest: they are not sorted, overlap, or have
    states that are not persisted.
    """
    result = []
    end = 0
    for batch in batches:
        if not end <= batch.first_offset <= batch.last_offset or batch.delivery_count < 0:
            raise InvalidRequest(
                f"expected sorted batches without overlaps, found {batch.first_offset} to {batch.last_offset}"
            )
        if batch.delivery_state not in [int(state) for state in PERSISTED_STATES]:
            raise InvalidRequest(f"a delivery state is 0, 2 or 4, not {batch.delivery_state}")
        end = batch.last_offset + 1
        result.append(
            StateBatch(batch.first_offset, batch.last_offset, RecordState(batch.delivery_state), batch.delivery_count)
        )
    return result
