"""One produce request on its way: what was appended, what was refused, and what is not committed
yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kqueue.api.errors import code_of, message_of
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import Work as SlicedWork
from kqueue.base.errors import (
    AnswerNotExpected,
    InvalidRecord,
    InvalidTimestamp,
    InvalidTopic,
    KqueueError,
    NotLeader,
    RequestTimedOut,
    TooManyOpenFiles,
)
from kqueue.base.promise import Promise
from kqueue.broker.append_path import appender_for
from kqueue.broker.partition import Partition
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.topics import Topic
from kqueue.log.log import AppendResult
from kqueue.records.batch import BATCH_OVERHEAD
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

VERSION_LEADER_HINTS = 10
VERSION_IDS = 13
NO_OFFSET = -1
PAUSE_MS = 5
"""A request of very many partitions waits so long for files to be flushed and closed, where no more
can be opened.
"""
PAUSES_MAX = 400
"""After so many pauses in all the partitions that are left are refused."""


class Pending(NamedTuple):
    """A partition whose records are appended, but not yet committed up to `end_offset`."""

    partition: Partition
    end_offset: int
    answer: PartitionProduceResponse


class Late(NamedTuple):
    """A partition whose records are still being read: nothing is appended yet."""

    promise: Promise[AppendResult]
    partition: Partition
    answer: PartitionProduceResponse


class Work:
    """`response` is complete once `is_committed`. `waits`: the answer does; else nothing is
    `pending`. `late`: what is not appended yet.
    """

    __slots__ = ("call", "late", "now_ms", "pending", "response", "short_of_files", "wait", "waits")

    def __init__(self, call: RequestContext, *, waits: bool) -> None:
        self.call = call
        self.waits = waits
        self.now_ms = call.broker.clock.wall_ms()
        self.response = ProduceResponse()
        self.pending: list[Pending] = []
        self.late: Sequence[Late] = ()

    def append_topic(self, data: TopicProduceData) -> None:
        answers: list[PartitionProduceResponse] = []
        self.response.responses.append(
            TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=answers)
        )
        try:
            topic = self._topic(data)
        except KqueueError as error:
            answers += [failed(one.index, error) for one in data.partition_data]
            return
        for one in data.partition_data:
            answers.append(self._append(topic, one))

    def append_in_slices(self, topics: Sequence[TopicProduceData]) -> SlicedWork[None]:
        """Append partition by partition, for a request of very many; a view of the records is let
        go of when it is appended.
        """
        pauses = PAUSES_MAX
        for data in topics:
            answers: list[PartitionProduceResponse] = []
            self.response.responses.append(
                TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=answers)
            )
            for one in data.partition_data:
                header = bytes(one.records[:BATCH_OVERHEAD]) if one.records else b""  # which appending writes into
                answer = self._append_one(data, one)
                while self.short_of_files and pauses:  # flushes under way give some back
                    pauses -= 1
                    yield PAUSE_MS
                    if one.records:
                        one.records[: len(header)] = header
                    answer = self._append_one(data, one)
                answers.append(answer)
                one.records = None
                yield

    def _append_one(self, data: TopicProduceData, one: PartitionProduceData) -> PartitionProduceResponse:
        self.short_of_files = False  # whether this append could not open its file
        try:
            return self._append(self._topic(data), one)
        except KqueueError as error:
            return failed(one.index, error)

    def _topic(self, data: TopicProduceData) -> Topic:
        topics = self.call.broker.topics
        topic = topics.by_id(data.topic_id) if self.call.api_version >= VERSION_IDS else topics.get(data.name)
        if topic.is_internal:
            raise InvalidTopic(f"topic {topic.name} is the broker's own; clients do not write to it")
        return topic

    def _append(self, topic: Topic, data: PartitionProduceData) -> PartitionProduceResponse:
        try:
            partition = topic.partition(data.index)
            appended = appender_for(topic.config).append(
                partition, data.records, now_ms=self.now_ms, produce_version=self.call.api_version
            )
        except NotLeader as error:
            return self._not_leader(topic.partition(data.index), error)
        except TooManyOpenFiles as error:
            self.short_of_files = True
            return failed(data.index, error)
        except KqueueError as error:
            return failed(data.index, error)
        if isinstance(appended, Promise):
            answer = PartitionProduceResponse(index=data.index)
            self.late = [*self.late, Late(appended, partition, answer)]
            return answer
        answer = PartitionProduceResponse(
            index=data.index,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.log_append_time_ms,
            log_start_offset=appended.log_start_offset,
        )
        if self.waits:
            self.pending.append(Pending(partition, appended.last_offset + 1, answer))
        return answer

    def _not_leader(self, partition: Partition, error: NotLeader) -> PartitionProduceResponse:
        answer = failed(partition.index, error)
        if self.call.api_version >= VERSION_LEADER_HINTS:
            answer.current_leader = LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
            if not self.response.node_endpoints:
                node_id, host, port, rack = self.call.this_node()
                self.response.node_endpoints = [NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)]
        return answer

    def raise_failure(self) -> None:
        """Raises AnswerNotExpected: a partition failed, and nobody reads an answer."""
        for topic in self.response.responses:
            for answer in topic.partition_responses:
                if answer.error_code != ErrorCode.NONE:
                    raise AnswerNotExpected(f"a request with acks=0 failed: {answer.error_message}")

    def wait_until(self, timeout_ms: int) -> DelayedOperation[ProduceResponse]:
        """DelayedOperation for what is late, and from the end of that on for `timeout_ms` at most for what is
        pending.
        """
        promises, partitions = [one.promise for one in self.late], [one.partition for one in self.late]
        keys = (*promises, *partitions, *(one.partition for one in self.pending))
        self.wait = DelayedOperation(keys, None, lambda expired: self._retry_late(expired, timeout_ms))
        return self.wait

    def _retry_late(self, expired: bool, timeout_ms: int) -> ProduceResponse | None:
        if self.late:
            self.late = [one for one in self.late if not self._is_appended(one)]
            if self.late:
                return None
            self.wait.deadline_ms = self.call.change_deadline_ms(timeout_ms)
        return self.retry(expired)

    def _is_appended(self, late: Late) -> bool:
        """Fill in the answer if the outcome is there. Kafka too reads all records before the time
        of the request begins to count.
        """
        if not late.promise.done:
            return False
        answer = late.answer
        try:
            appended = late.promise.result()
        except KqueueError as error:
            _turn_into(answer, error)
            answer.base_offset = NO_OFFSET
            answer.record_errors = _record_errors(error)
            return True
        answer.base_offset = appended.base_offset
        answer.log_append_time_ms = appended.log_append_time_ms
        answer.log_start_offset = appended.log_start_offset
        if self.waits:
            self.pending.append(Pending(late.partition, appended.last_offset + 1, answer))
        return True

    def is_committed(self) -> bool:
        """Whether all that was appended is committed, or never will be."""
        pending = self.pending
        while pending and self._settled(
            pending[-1]
        ):  # no further than the first that is not: thousands would cost millions of looks
            pending.pop()
        return not pending

    def retry(self, expired: bool) -> ProduceResponse | None:
        if self.is_committed():
            return self.response
        if not expired:
            return None
        for pending in [pending for pending in self.pending if not self._settled(pending)]:
            _turn_into(pending.answer, RequestTimedOut("the records were appended, but not committed in time"))
        return self.response

    def _settled(self, pending: Pending) -> bool:
        try:
            return pending.partition.is_committed(pending.end_offset)
        except KqueueError as error:
            _turn_into(pending.answer, error)
            return True


def _turn_into(answer: PartitionProduceResponse, error: KqueueError) -> None:
    answer.error_code = code_of(error)
    answer.error_message = message_of(error)


def failed(index: int, error: BaseException) -> PartitionProduceResponse:
    """What is told of a partition where nothing was appended."""
    words = message_of(error)
    answer = PartitionProduceResponse(
        index=index, error_code=code_of(error), base_offset=NO_OFFSET, error_message=words
    )
    answer.record_errors = _record_errors(error)
    return answer


def _record_errors(error: BaseException) -> list[BatchIndexAndErrorMessage]:
    """The records that are refused. Clients blame them, and report the others as rejected along
    with them.
    """
    if not isinstance(error, (InvalidRecord, InvalidTimestamp)):
        return []
    return [
        BatchIndexAndErrorMessage(batch_index=one.batch_index, batch_index_error_message=one.message)
        for one in error.record_errors
    ]
