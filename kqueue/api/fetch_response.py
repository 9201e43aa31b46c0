"""Builds the response to a Fetch from the results of its partitions."""

from __future__ import annotations

from collections.abc import Sequence

from kqueue.api.down_conversion import down_converted
from kqueue.api.errors import code_of
from kqueue.api.leader_hints import LEADER_HINT_CODES, add_leader_hint
from kqueue.api.request_context import RequestContext
from kqueue.base.errors import KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.fetch.fetch_reader import PartitionFetchResult
from kqueue.broker.fetch.fetch_sessions import FetchContext, PartitionFetch
from kqueue.broker.replicas.partition import Partition
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.log.results import TieredReadResult
from kqueue.schema import Chunk
from kqueue.wire.messages import fetch as messages
from kqueue.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)

VERSION_LEADER_HINTS = 16
UNKNOWN = -1


class FetchResponseBuilder:
    """Builds one response: `add` results and `add_idle` partitions, then `finish` once."""

    __slots__ = ("_context", "_fetch_context", "_read_committed", "_response", "_topics")

    def __init__(self, context: RequestContext, fetch_context: FetchContext, *, read_committed: bool) -> None:
        self._context = context
        self._fetch_context = fetch_context
        self._read_committed = read_committed
        self._response = FetchResponse()
        self._topics: dict[str | bytes, FetchableTopicResponse] = {}

    def add(self, result: PartitionFetchResult) -> None:
        """Add the result of a partition, unless the session's client knows it."""
        self._add(result, None if result.read is None else result.read.fetched.data)

    def add_converted(self, result: PartitionFetchResult) -> SlicedWork[None]:
        """Add the result of a partition with its records converted, for versions below 4."""
        records: Chunk | None = None
        try:
            if result.read is not None:
                limit_bytes = self._context.broker.config["kqueue.max.decompressed.bytes"]
                records = yield from down_converted(self._context.api_version, result, limit_bytes)
        except KqueueError as error:
            result.read, result.error = None, error
        self._add(result, records)

    def _add(self, result: PartitionFetchResult, records: Chunk | None) -> None:
        fetch, read = result.fetch, result.read
        if read is None:
            self._fetch_context.must_respond(fetch, UNKNOWN, UNKNOWN, has_records=False, always=True)
            self._append(fetch, self._error_data(result))
        elif self._fetch_context.must_respond(
            fetch,
            read.high_watermark,
            read.log_start_offset,
            has_records=read.fetched.region is not None,
            always=result.preferred >= 0,
        ):
            data = PartitionData(
                partition_index=fetch.index,
                high_watermark=read.high_watermark,
                last_stable_offset=read.last_stable_offset,
                log_start_offset=read.log_start_offset,
                aborted_transactions=self._aborted(result) if self._read_committed else None,
                preferred_read_replica=result.preferred,
                records=records,
            )
            self._append(fetch, data)

    def add_idle(self, fetch: PartitionFetch, partition: Partition) -> None:
        """Add a partition without news, unless the session's client knows it."""
        log_start = partition.log_start_offset
        if self._fetch_context.must_respond(fetch, fetch.offset, log_start, has_records=False, always=False):
            data = PartitionData(
                partition_index=fetch.index,
                high_watermark=fetch.offset,
                last_stable_offset=partition.last_stable_offset,
                log_start_offset=log_start,
                aborted_transactions=[] if self._read_committed else None,
                records=b"",
            )
            self._append(fetch, data)

    def finish(self) -> FetchResponse:
        """Return the response."""
        self._response.responses = list(self._topics.values())
        self._response.session_id = self._fetch_context.finish()
        return self._response

    def _append(self, fetch: PartitionFetch, data: PartitionData) -> None:
        topic = self._topics.get(fetch.topic)
        if topic is None:
            name = fetch.topic
            topic = (
                FetchableTopicResponse(topic_id=name) if isinstance(name, bytes) else FetchableTopicResponse(topic=name)
            )
            self._topics[name] = topic
        topic.partitions.append(data)

    def _aborted(self, result: PartitionFetchResult) -> list[AbortedTransaction]:
        assert result.partition is not None
        assert result.read is not None
        fetched = result.read.fetched
        aborted: Sequence[AbortedTxn] = []
        if isinstance(fetched, TieredReadResult):
            aborted = fetched.aborted
        elif len(fetched):
            aborted = result.partition.log.reader.aborted(result.fetch.offset, fetched.next_offset)
        return [
            AbortedTransaction(producer_id=transaction.producer_id, first_offset=transaction.first_offset)
            for transaction in aborted
        ]

    def _error_data(self, result: PartitionFetchResult) -> PartitionData:
        code = code_of(result.error)
        data = PartitionData(
            partition_index=result.fetch.index,
            error_code=code,
            high_watermark=UNKNOWN,
            aborted_transactions=None,
            records=b"",
        )
        partition = result.partition
        if partition is not None and result.diverging is not None:
            data.diverging_epoch = EpochEndOffset(epoch=result.diverging.epoch, end_offset=result.diverging.end_offset)
            data.high_watermark, data.last_stable_offset = partition.high_watermark, partition.last_stable_offset
            data.log_start_offset = partition.log_start_offset
        if partition is not None and code in LEADER_HINT_CODES and self._context.api_version >= VERSION_LEADER_HINTS:
            add_leader_hint(self._context, partition, data, self._response, messages)
        return data
