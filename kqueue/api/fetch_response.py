"""The answer to a fetch: what each partition gave, in the words of the request's version."""

from __future__ import annotations

from kqueue.api.down_conversion import down_converted
from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext
from kqueue.base.errors import KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.fetch_reader import PartitionFetchResult
from kqueue.broker.fetch_sessions import FetchContext, PartitionFetch
from kqueue.broker.partition import Partition
from kqueue.schema import Chunk
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

VERSION_LEADER_HINTS = 16
LEADER_HINT_CODES = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
UNKNOWN = -1


class FetchResponseBuilder:
    """One response in the making: `add` what was taken, `add_idle` what had nothing new, then
    `finish`, once.
    """

    __slots__ = ("_context", "_fetch_context", "_read_committed", "_response", "_topics")

    def __init__(self, context: RequestContext, fetch_context: FetchContext, *, read_committed: bool) -> None:
        self._context = context
        self._fetch_context = fetch_context
        self._read_committed = read_committed
        self._response = FetchResponse()
        self._topics: dict[str | bytes, FetchableTopicResponse] = {}

    def add(self, taken: PartitionFetchResult) -> None:
        """A partition that was read, or could not be; left out where the session's client knows it
        already.
        """
        self._add(taken, None if taken.read is None else taken.read.fetched.data)

    def add_converted(self, taken: PartitionFetchResult) -> SlicedWork[None]:
        """`add` for versions below 4, whose records are converted."""
        records: Chunk | None = None
        try:
            if taken.read is not None:
                limit_bytes = self._context.broker.config["kqueue.max.decompressed.bytes"]
                records = yield from down_converted(self._context.api_version, taken, limit_bytes)
        except KqueueError as error:
            taken.read, taken.error = None, error
        self._add(taken, records)

    def _add(self, taken: PartitionFetchResult, records: Chunk | None) -> None:
        wanted, read = taken.wanted, taken.read
        if read is None:
            self._fetch_context.tells(wanted, UNKNOWN, UNKNOWN, has_records=False, always=True)
            self._append(wanted, self._bad_news(taken))
        elif self._fetch_context.tells(
            wanted, read.high_watermark, read.log_start_offset, has_records=len(read.fetched) > 0, always=False
        ):
            data = PartitionData(
                partition_index=wanted.index,
                high_watermark=read.high_watermark,
                last_stable_offset=read.last_stable_offset,
                log_start_offset=read.log_start_offset,
                aborted_transactions=self._aborted(taken) if self._read_committed else None,
                records=records,
            )
            self._append(wanted, data)

    def add_idle(self, wanted: PartitionFetch, partition: Partition) -> None:
        """A partition that is where its client is; left out where the session's client knows it
        already.
        """
        log_start = partition.log_start_offset
        if self._fetch_context.tells(wanted, wanted.offset, log_start, has_records=False, always=False):
            data = PartitionData(
                partition_index=wanted.index,
                high_watermark=wanted.offset,
                last_stable_offset=partition.last_stable_offset,
                log_start_offset=log_start,
                aborted_transactions=[] if self._read_committed else None,
                records=b"",
            )
            self._append(wanted, data)

    def finish(self) -> FetchResponse:
        self._response.responses = list(self._topics.values())
        self._response.session_id = self._fetch_context.finish()
        return self._response

    def _append(self, wanted: PartitionFetch, data: PartitionData) -> None:
        topic = self._topics.get(wanted.topic)
        if topic is None:
            name = wanted.topic
            topic = (
                FetchableTopicResponse(topic_id=name) if isinstance(name, bytes) else FetchableTopicResponse(topic=name)
            )
            self._topics[name] = topic
        topic.partitions.append(data)

    def _aborted(self, taken: PartitionFetchResult) -> list[AbortedTransaction]:
        assert taken.partition is not None
        assert taken.read is not None
        fetched = taken.read.fetched
        found = taken.partition.log.reader.aborted(taken.wanted.offset, fetched.next_offset) if len(fetched) else []
        return [AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset) for one in found]

    def _bad_news(self, taken: PartitionFetchResult) -> PartitionData:
        code = code_of(taken.error)
        data = PartitionData(
            partition_index=taken.wanted.index,
            error_code=code,
            high_watermark=UNKNOWN,
            aborted_transactions=None,
            records=b"",
        )
        partition = taken.partition
        if partition is not None and taken.diverging is not None:
            data.diverging_epoch = EpochEndOffset(epoch=taken.diverging.epoch, end_offset=taken.diverging.end_offset)
            data.high_watermark, data.last_stable_offset = partition.high_watermark, partition.last_stable_offset
            data.log_start_offset = partition.log_start_offset
        if partition is not None and code in LEADER_HINT_CODES and self._context.api_version >= VERSION_LEADER_HINTS:
            data.current_leader = LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
            node_id, host, port, rack = self._context.this_node()
            self._response.node_endpoints = [NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)]
        return data
