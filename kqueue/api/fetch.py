"""Fetch: batches from where the client is, waiting for new ones while there are too few. Batches go out as they lie on disk."""

from __future__ import annotations

from collections.abc import Iterable

from kqueue.api.call import Call
from kqueue.api.errors import ErrorCode, code_of
from kqueue.api.old_fetch import VERSION_SOFT_LIMITS, VERSION_ZSTD, records_for
from kqueue.base.errors import KqueueError
from kqueue.broker.fetch_sessions import FetchContext, Key, Wanted
from kqueue.broker.fetching import Harvest, Limits, Taken, take
from kqueue.broker.waiting import Wait
from kqueue.schema import Chunk
from kqueue.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

VERSIONS = (0, 18)
VERSION_SESSIONS = 7
VERSION_IDS = 13
VERSION_LEADER_HINTS = 16
READ_COMMITTED = 1
UNKNOWN = -1
LEADER_HINT_CODES = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle(request: FetchRequest, call: Call) -> FetchResponse | Wait[FetchResponse]:
    """Answered at once if there are `min_bytes`, an error, or no time to wait; else when that much has come, or time is over."""
    by_id = call.api_version >= VERSION_IDS
    try:
        context = call.broker.fetch_sessions.open(
            request.session_id, request.session_epoch, _wanted(request, by_id), _forgotten(request, by_id), by_id=by_id
        )
    except KqueueError as error:
        return FetchResponse(error_code=code_of(error))
    return _Work(request, call, context).start()


def refuse(request: FetchRequest, version: int, error: BaseException) -> FetchResponse:
    code = code_of(error)
    if version >= VERSION_SESSIONS:
        return FetchResponse(error_code=code)
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=[
                    PartitionData(partition_index=one.partition, error_code=code, high_watermark=UNKNOWN, records=b"")
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _wanted(request: FetchRequest, by_id: bool) -> list[Wanted]:
    return [
        Wanted(
            topic.topic_id if by_id else topic.topic,
            one.partition,
            one.fetch_offset,
            one.partition_max_bytes,
            one.current_leader_epoch,
            one.last_fetched_epoch,
        )
        for topic in request.topics
        for one in topic.partitions
    ]


def _forgotten(request: FetchRequest, by_id: bool) -> Iterable[Key]:
    return [(topic.topic_id if by_id else topic.topic, index) for topic in request.forgotten_topics_data for index in topic.partitions]


class _Work:
    """One request until it is answered. Keeps nothing of the request but numbers: its buffer is another's by then."""

    __slots__ = ("call", "context", "limits", "max_wait_ms", "min_bytes", "missing", "response")

    def __init__(self, request: FetchRequest, call: Call, context: FetchContext) -> None:
        self.call = call
        self.context = context
        hard = call.api_version < VERSION_SOFT_LIMITS
        max_bytes = min(request.max_bytes, call.broker.config["fetch.max.bytes"])
        self.limits = Limits(max_bytes, each_one_batch=hard, read_committed=request.isolation_level == READ_COMMITTED)
        self.min_bytes = min(request.min_bytes, max_bytes)
        self.max_wait_ms = request.max_wait_ms
        self.missing = 0
        self.response = FetchResponse()

    def start(self) -> FetchResponse | Wait[FetchResponse]:
        harvest = self._take()
        self.missing = harvest.missing
        if self.max_wait_ms <= 0 or self._is_enough(harvest):
            return self._respond(harvest)
        return Wait(harvest.partitions(), self.call.deadline_ms(self.max_wait_ms), self._retry)

    def _retry(self, expired: bool) -> FetchResponse | None:
        harvest = self._take()
        return self._respond(harvest) if expired or self._is_enough(harvest) else None

    def _take(self) -> Harvest:
        return take(self.call.broker.topics, self.context.wanted, self.limits)

    def _is_enough(self, harvest: Harvest) -> bool:
        all_missing = harvest.missing == len(harvest.taken)
        return harvest.size >= self.min_bytes or harvest.urgent or all_missing or harvest.missing != self.missing

    def _respond(self, harvest: Harvest) -> FetchResponse:
        try:
            self.context.check()
        except KqueueError as error:
            return FetchResponse(error_code=code_of(error))
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        for taken in harvest.taken:
            data = self._answer(taken)
            if data is not None:
                name = taken.wanted.topic
                topic = topics.get(name)
                if topic is None:
                    topic = topics[name] = _topic_response(name)
                topic.partitions.append(data)
        self.response.responses = list(topics.values())
        self.response.session_id = self.context.finish()
        return self.response

    def _answer(self, taken: Taken) -> PartitionData | None:
        """What is told of one partition; None where the session's client knows it already."""
        records = self._records(taken)
        if taken.read is None:
            self.context.tells(taken.wanted, UNKNOWN, UNKNOWN, has_records=False, always=True)
            return self._bad_news(taken)
        high_watermark, stable, log_start, fetched = taken.read
        if not self.context.tells(taken.wanted, high_watermark, log_start, has_records=len(fetched) > 0, always=False):
            return None
        return PartitionData(
            partition_index=taken.wanted.index,
            high_watermark=high_watermark,
            last_stable_offset=stable,
            log_start_offset=log_start,
            aborted_transactions=self._aborted(taken) if self.limits.read_committed else None,
            records=records,
        )

    def _records(self, taken: Taken) -> Chunk | None:
        """The records as this version has them; None where there are none because of an error."""
        if taken.read is None:
            return None
        if self.call.api_version >= VERSION_ZSTD:
            return taken.read.fetched.data
        try:
            return records_for(self.call.api_version, taken)
        except KqueueError as error:
            taken.read, taken.error = None, error
            return None

    def _bad_news(self, taken: Taken) -> PartitionData:
        code = code_of(taken.error)
        data = PartitionData(partition_index=taken.wanted.index, error_code=code, high_watermark=UNKNOWN, records=b"")
        partition = taken.partition
        if partition is not None and taken.diverging is not None:
            data.diverging_epoch = EpochEndOffset(epoch=taken.diverging.epoch, end_offset=taken.diverging.end_offset)
            data.high_watermark, data.last_stable_offset = partition.high_watermark, partition.last_stable_offset
            data.log_start_offset = partition.log_start_offset
        if partition is not None and code in LEADER_HINT_CODES and self.call.api_version >= VERSION_LEADER_HINTS:
            data.current_leader = LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
            node_id, host, port, rack = self.call.this_node()
            self.response.node_endpoints = [NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)]
        return data

    def _aborted(self, taken: Taken) -> list[AbortedTransaction]:
        assert taken.partition is not None
        assert taken.read is not None
        fetched = taken.read.fetched
        found = taken.partition.log.aborted(taken.wanted.offset, fetched.next_offset) if len(fetched) else []
        return [AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset) for one in found]


def _topic_response(topic: str | bytes) -> FetchableTopicResponse:
    return FetchableTopicResponse(topic_id=topic) if isinstance(topic, bytes) else FetchableTopicResponse(topic=topic)
