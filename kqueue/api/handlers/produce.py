"""Produce (key 0): append batches to partitions; respond as `acks` asks.

    acks    response
    0       none; an error closes the connection
    1       when this leader has the batch on its disk; kqueue.flush=kafka: when it is appended
    -1      when it is committed: below the high watermark

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

Not emulated: zstd refused below version 7. The append itself is `broker.append_path`, the check of
transactions `broker.produce_transaction`. A topic whose backlog is bounded (`broker.backlog`)
refuses with POLICY_VIOLATION, or sets the throttle time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kqueue.api.access import on_each
from kqueue.api.errors import code_of, message_of
from kqueue.api.leader_hints import add_leader_hint
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import NO_RESPONSE, SLICE_ITEMS, in_slices
from kqueue.base.errors import (
    AnswerNotExpected,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTimestamp,
    InvalidTopic,
    KqueueError,
    NotLeader,
    RequestTimedOut,
    TooManyOpenFiles,
)
from kqueue.base.promise import Promise
from kqueue.base.settings import MiB
from kqueue.base.sliced_task import SlicedWork, run_to_end
from kqueue.broker.fetch.fetch_reader import CLOSED_LOGS_MAX
from kqueue.broker.produce.produce_transaction import ProduceTransaction
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topics import Topic
from kqueue.log.results import AppendResult
from kqueue.records.batch import BATCH_OVERHEAD
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages import produce as messages
from kqueue.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

VERSIONS = (0, 13)
ACCESS = (
    on_each(AclOperation.WRITE, ResourceType.TOPIC),
    on_each(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "of the request"),
)
VERSION_LEADER_HINTS = 10
VERSION_IDS = 13
ITEM_WEIGHT = 4
KEPT_BYTES_MAX = 64 * MiB
"""Bytes of records that requests may copy to append them in later turns, because they have more
than `SLICE_ITEMS` partitions, open many logs, or wait for the transaction coordinator; all
connections together.
"""
PAUSE_MS = 5
"""Pause of a large request when no more files can be opened: flushes close some."""
PAUSES_MAX = 400
"""After so many pauses in all, the remaining partitions fail."""
ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1
LEADER_TIMEOUT_MS_MIN = 30_000
"""With acks=1 `timeout_ms` counts from this value on. Kafka does not read it: its leader answers
after the append. So a client that sends a small one expects no REQUEST_TIMED_OUT.
"""
NO_OFFSET = -1
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


def handle(
    request: ProduceRequest, context: RequestContext
) -> ProduceResponse | DelayedOperation[ProduceResponse] | None:
    """Append the batches of the request; None: acks=0, no response.

    Raises: AnswerNotExpected: acks=0, and a partition failed.
    """
    acks = request.acks
    if acks not in (ACKS_ALL, ACKS_LEADER, ACKS_NONE):
        return error_response(request, context.api_version, InvalidRequiredAcks(f"acks is -1, 0 or 1, not {acks}"))
    produce = DelayedProduce(context, acks)
    topics = request.topic_data
    if request.transactional_id is not None:
        return _handle_transactional(request, context, produce, request.transactional_id)
    if len(topics) + len(topics[0].partition_data if topics else ()) > 2 and produce.is_long(topics):
        response = _handle_in_turns(request, context, produce, ())
        return None if response is NO_RESPONSE else response
    for data in topics:
        produce.append_topic(data)
    return _respond(request, context, produce)


def _handle_transactional(
    request: ProduceRequest, context: RequestContext, produce: DelayedProduce, transactional_id: str
) -> ProduceResponse | DelayedOperation[ProduceResponse] | None:
    broker = context.broker
    transaction = produce.transaction = ProduceTransaction(
        broker.config, broker.clock, broker.transaction_partitions, transactional_id, context.api_version
    )
    adding = produce.add_to_transaction(request.topic_data, transaction)
    try:
        context.require(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        if not produce.is_long(request.topic_data):
            run_to_end(adding)  # nothing of it remains for the turns
            if transaction.is_verified:  # as are all batches of a transaction but the first
                for data in request.topic_data:
                    produce.append_topic(data)
                return _respond(request, context, produce)
        response = _handle_in_turns(request, context, produce, adding)
    except KqueueError as error:
        return error_response(request, context.api_version, error)
    return None if response is NO_RESPONSE else response


def _handle_in_turns(
    request: ProduceRequest, context: RequestContext, produce: DelayedProduce, adding: SlicedWork[None] | tuple[()]
) -> ProduceResponse | DelayedOperation[ProduceResponse]:
    """Append in slices, after the answer of the transaction coordinator.

    Records that the first slice leaves are copied, within `KEPT_BYTES_MAX`.
    Args: adding: what remains of `DelayedProduce.add_to_transaction`.
    """
    broker, kept_bytes, is_kept = context.broker, 0, False

    def append_all() -> SlicedWork[ProduceResponse | DelayedOperation[ProduceResponse]]:
        try:
            yield from adding
            if produce.transaction is not None:
                yield from produce.transaction.verify(keep)
            yield from produce.append_in_slices(request.topic_data)
            response = _respond(request, context, produce)
            return NO_RESPONSE if response is None else response
        finally:
            broker.kept_record_bytes -= kept_bytes

    def keep() -> bool:
        nonlocal kept_bytes, is_kept
        if is_kept:
            return True
        remaining = [
            partition
            for data in request.topic_data
            for partition in data.partition_data
            if partition.records is not None
        ]
        size = sum(len(partition.records or b"") for partition in remaining)
        if broker.kept_record_bytes + size > KEPT_BYTES_MAX:
            return False
        kept_bytes, is_kept = size, True
        broker.kept_record_bytes += kept_bytes
        for partition in remaining:
            partition.records = memoryview(bytearray(partition.records))  # type: ignore[arg-type]
        return True

    # an append can open a log, which takes a millisecond or more
    return in_slices(context, append_all(), keep, items_per_look=1)


def _respond(
    request: ProduceRequest, context: RequestContext, produce: DelayedProduce
) -> ProduceResponse | DelayedOperation[ProduceResponse] | None:
    if request.acks == ACKS_NONE:
        produce.raise_failure()
        return None
    if produce.unappended:
        return produce.wait_for_appends(request.timeout_ms)
    if produce.unconfirmed and not produce.is_confirmed():
        keys = tuple(append.partition for append in produce.unconfirmed)
        return DelayedOperation(keys, produce.deadline_ms(request.timeout_ms), produce.try_complete)
    return produce.response


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
                partition_responses=[partition_error(partition.index, error) for partition in data.partition_data],
            )
            for data in request.topic_data
        ]
    )


class UnconfirmedAppend(NamedTuple):
    """A partition whose records are appended up to `end_offset`, but not yet as `acks` asks."""

    partition: Partition
    end_offset: int
    response: PartitionProduceResponse


class DeferredAppend(NamedTuple):
    """A partition whose records are still being read: nothing is appended yet."""

    promise: Promise[AppendResult]
    partition: Partition
    response: PartitionProduceResponse


class DelayedProduce:
    """One Produce request until its response is complete. Source: Kafka's DelayedProduce.

    `response` is complete once `unappended` is empty and `is_confirmed()`. Without `waits` nothing
    is ever `unconfirmed`: acks=0, and acks=1 where an append is confirmed at once.
    """

    __slots__ = (
        "acks", "context", "no_file", "now_ms", "operation", "response", "transaction", "unappended", "unconfirmed",
        "waits",
    )  # fmt: skip

    def __init__(self, context: RequestContext, acks: int) -> None:
        self.context = context
        self.acks = acks
        self.waits = acks == ACKS_ALL or (acks == ACKS_LEADER and context.broker.flush_before_visible)
        self.now_ms = context.broker.clock.wall_ms()
        self.response = ProduceResponse()
        self.transaction: ProduceTransaction | None = None
        self.unconfirmed: list[UnconfirmedAppend] = []
        self.unappended: Sequence[DeferredAppend] = ()

    def is_long(self, topics: Sequence[TopicProduceData]) -> bool:
        """Return whether the partitions are too many for one turn, or too many logs are closed."""
        if len(topics) + sum(len(data.partition_data) for data in topics) > SLICE_ITEMS:
            return True
        known, by_id, closed = self.context.broker.topics, self.context.api_version >= VERSION_IDS, 0
        for data in topics:
            topic = known.find_by_id(data.topic_id) if by_id else known.find(data.name)
            if topic is not None:
                partitions = topic.partitions
                indexes = (partition.index for partition in data.partition_data)
                closed += sum(0 <= index < len(partitions) and not partitions[index].is_open for index in indexes)
        return closed > CLOSED_LOGS_MAX

    def add_to_transaction(
        self, topics: Sequence[TopicProduceData], transaction: ProduceTransaction
    ) -> SlicedWork[None]:
        """Add the partitions that exist to the request's transaction, yielding after each.

        Raises: InvalidProducerIdMapping.
        """
        for data in topics:
            try:
                topic = self._topic(data)
            except KqueueError:
                continue  # the append reports it
            for partition in data.partition_data:
                if 0 <= partition.index < len(topic.partitions):
                    transaction.add(topic.partitions[partition.index], partition.records)
                yield None

    def append_topic(self, data: TopicProduceData) -> None:
        """Append to all partitions of one topic; the outcomes go into `response`."""
        responses: list[PartitionProduceResponse] = []
        try:
            topic = self._topic(data)
        except KqueueError as error:
            responses += [partition_error(partition.index, error) for partition in data.partition_data]
        else:
            for partition in data.partition_data:
                responses.append(self._append(topic, partition))
        self.response.responses.append(
            TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=responses)
        )

    def append_in_slices(self, topics: Sequence[TopicProduceData]) -> SlicedWork[None]:
        """Append partition by partition, yielding after each; appended records are released."""
        pauses = PAUSES_MAX
        for data in topics:
            responses: list[PartitionProduceResponse] = []
            self.response.responses.append(
                TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=responses)
            )
            for partition in data.partition_data:
                # An append overwrites the header.
                header = bytes(partition.records[:BATCH_OVERHEAD]) if partition.records else b""
                response = self._append_by_name(data, partition)
                while self.no_file and pauses:
                    pauses -= 1
                    yield PAUSE_MS
                    if partition.records:
                        partition.records[: len(header)] = header
                    response = self._append_by_name(data, partition)
                responses.append(response)
                partition.records = None
                yield None

    def _append_by_name(self, data: TopicProduceData, partition: PartitionProduceData) -> PartitionProduceResponse:
        self.no_file = False  # whether this append could not open its file
        try:
            return self._append(self._topic(data), partition)
        except KqueueError as error:
            return partition_error(partition.index, error)

    def _topic(self, data: TopicProduceData) -> Topic:
        context, write = self.context, AclOperation.WRITE
        topics, by_id = context.broker.topics, context.api_version >= VERSION_IDS
        if context.broker.security.authorizer is None:  # no call more for those who need none
            topic = topics.by_id(data.topic_id) if by_id else topics.get(data.name)
        else:
            topic = context.topic_with_id(write, data.topic_id) if by_id else context.topic_named(write, data.name)
        if topic.is_internal:
            raise InvalidTopic(f"topic {topic.name} is internal: clients must not write to it")
        return topic

    def _append(self, topic: Topic, data: PartitionProduceData) -> PartitionProduceResponse:
        try:
            partition = topic.partition(data.index)
            transaction = self.transaction
            if transaction is not None:
                transaction.raise_error(partition)
            if self.acks == ACKS_ALL:
                partition.check_in_sync()
        except KqueueError as error:
            return partition_error(data.index, error)
        try:
            appended = topic.appender.append(
                partition,
                data.records,
                now_ms=self.now_ms,
                produce_version=self.context.api_version,
                transaction=transaction,
            )
        except NotLeader as error:
            return self._not_leader(partition, error)
        except TooManyOpenFiles as error:
            self.no_file = True
            return partition_error(data.index, error)
        except KqueueError as error:
            return _with_start_offset(partition_error(data.index, error), partition)
        if partition.backlog is not None and (throttle_ms := partition.backlog.throttle_ms()):
            self.response.throttle_time_ms = max(self.response.throttle_time_ms, throttle_ms)
            self.context.throttle(throttle_ms)
        if isinstance(appended, Promise):
            response = PartitionProduceResponse(index=data.index)
            self.unappended = [*self.unappended, DeferredAppend(appended, partition, response)]
            return response
        response = PartitionProduceResponse(
            index=data.index,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.log_append_time_ms,
            log_start_offset=appended.log_start_offset,
        )
        if self.waits:
            self.unconfirmed.append(UnconfirmedAppend(partition, appended.last_offset + 1, response))
        return response

    def _not_leader(self, partition: Partition, error: NotLeader) -> PartitionProduceResponse:
        response = partition_error(partition.index, error)
        self._add_leader_hint(partition, response)
        return response

    def _add_leader_hint(self, partition: Partition, response: PartitionProduceResponse) -> None:
        if self.context.api_version >= VERSION_LEADER_HINTS:
            add_leader_hint(self.context, partition, response, self.response, messages)

    def raise_failure(self) -> None:
        """Raises AnswerNotExpected: a partition failed, and acks=0 has no response to report it."""
        for topic in self.response.responses:
            for partition in topic.partition_responses:
                if partition.error_code != ErrorCode.NONE:
                    raise AnswerNotExpected(f"a request with acks=0 failed: {partition.error_message}")

    def wait_for_appends(self, timeout_ms: int) -> DelayedOperation[ProduceResponse]:
        """Wait for `unappended`; `timeout_ms` then bounds the wait for `unconfirmed`.

        Source: Kafka also reads all records before the request's time begins to count.
        """
        promises = [append.promise for append in self.unappended]
        partitions = [append.partition for append in self.unappended]
        keys = (*promises, *partitions, *(append.partition for append in self.unconfirmed))
        self.operation = DelayedOperation(keys, None, lambda expired: self._try_complete_appends(expired, timeout_ms))
        return self.operation

    def _try_complete_appends(self, expired: bool, timeout_ms: int) -> ProduceResponse | None:
        if self.unappended:
            self.unappended = [append for append in self.unappended if not self._complete_append(append)]
            if self.unappended:
                return None
            self.operation.deadline_ms = self.deadline_ms(timeout_ms)
        return self.try_complete(expired)

    def _complete_append(self, deferred: DeferredAppend) -> bool:
        """Fill in the response if the outcome is known; return whether it is."""
        if not deferred.promise.done:
            return False
        response = deferred.response
        try:
            appended = deferred.promise.result()
        except KqueueError as error:
            _set_error(response, error)
            response.base_offset = NO_OFFSET
            response.record_errors = _record_errors(error)
            _with_start_offset(response, deferred.partition)
            return True
        response.base_offset = appended.base_offset
        response.log_append_time_ms = appended.log_append_time_ms
        response.log_start_offset = appended.log_start_offset
        if self.waits:
            self.unconfirmed.append(UnconfirmedAppend(deferred.partition, appended.last_offset + 1, response))
        return True

    def deadline_ms(self, timeout_ms: int) -> float:
        """Return until when the appends may be unconfirmed, by the monotonic clock."""
        least_ms = LEADER_TIMEOUT_MS_MIN if self.acks == ACKS_LEADER else 0
        return self.context.change_deadline_ms(max(timeout_ms, least_ms))

    def is_confirmed(self) -> bool:
        """Return whether all appends are where `acks` asks, or failed.

        Stops at the first append that is not, so that n partitions cost n looks, not n squared.
        """
        unconfirmed = self.unconfirmed
        while unconfirmed and self._is_settled(unconfirmed[-1]):
            unconfirmed.pop()
        return not unconfirmed

    def try_complete(self, expired: bool) -> ProduceResponse | None:
        """Return the response if all is confirmed or time is over, else None."""
        if self.is_confirmed():
            return self.response
        if not expired:
            return None
        for append in [append for append in self.unconfirmed if not self._is_settled(append)]:
            missing = "committed" if self.acks == ACKS_ALL else "flushed"
            _set_error(append.response, RequestTimedOut(f"the records were appended, but not {missing} in time"))
        return self.response

    def _is_settled(self, append: UnconfirmedAppend) -> bool:
        try:
            if self.acks == ACKS_LEADER:
                return append.partition.is_flushed(append.end_offset)
            return append.partition.is_committed(append.end_offset)
        except KqueueError as error:
            _set_error(append.response, error)
            if isinstance(error, NotLeader):
                self._add_leader_hint(append.partition, append.response)
            return True


def partition_error(index: int, error: BaseException) -> PartitionProduceResponse:
    """Return the response of a partition to which nothing was appended."""
    response = PartitionProduceResponse(
        index=index, error_code=code_of(error), base_offset=NO_OFFSET, error_message=message_of(error)
    )
    response.record_errors = _record_errors(error)
    return response


def _with_start_offset(response: PartitionProduceResponse, partition: Partition) -> PartitionProduceResponse:
    """Set the log start offset of a refused append, if clients get it with this error."""
    if partition.is_open and response.error_code not in WITHOUT_START_OFFSET:
        response.log_start_offset = partition.log_start_offset
    return response


def _set_error(response: PartitionProduceResponse, error: KqueueError) -> None:
    response.error_code = code_of(error)
    response.error_message = message_of(error)


def _record_errors(error: BaseException) -> list[BatchIndexAndErrorMessage]:
    """Return the records that are invalid; clients report the batch's others as rejected too."""
    if not isinstance(error, (InvalidRecord, InvalidTimestamp)):
        return []
    return [
        BatchIndexAndErrorMessage(batch_index=record_error.batch_index, batch_index_error_message=record_error.message)
        for record_error in error.record_errors
    ]
