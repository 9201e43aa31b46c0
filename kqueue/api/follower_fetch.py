"""Fetch requests of followers: batches up to the log end, for replicas of this broker's partitions.

A response has only partitions with news, also the one to a full fetch: a follower asks again for
what it does not get. Source: KIP-227, KIP-903, KIP-595.
"""

from __future__ import annotations

from collections.abc import Sequence

from kqueue.api.errors import code_of
from kqueue.api.leader_hints import LEADER_HINT_CODES, add_leader_hint
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import in_slices
from kqueue.base.errors import InvalidFetchSessionEpoch, KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.fetch.fetch_sessions import EPOCH_NONE, Key, PartitionFetch
from kqueue.broker.fetch.follower_sessions import RECORD_PARTS, FollowerResult, FollowerSession, Look
from kqueue.broker.purgatory import DelayedOperation
from kqueue.wire.messages import fetch as messages
from kqueue.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

UNKNOWN = -1
VERSION_REPLICA_STATE = 15
VERSION_LEADER_HINTS = 16


def replica_of(request: FetchRequest, version: int) -> tuple[int, int]:
    """Return node id and broker epoch of the follower; (-1, -1): the request is a consumer's."""
    if version < VERSION_REPLICA_STATE:
        return request.replica_id, UNKNOWN
    return request.replica_state.replica_id, request.replica_state.replica_epoch


def handle(
    request: FetchRequest, context: RequestContext, fetches: Sequence[PartitionFetch], forgotten: Sequence[Key]
) -> FetchResponse | DelayedOperation[FetchResponse]:
    """Respond now if there are `min_bytes`, an error, or no time to wait; else delay the fetch.

    Args: fetches, forgotten: of the request; they keep nothing of its buffer.
    """
    node_id, broker_epoch = replica_of(request, context.api_version)
    try:
        session = context.broker.fetch_sessions.of_followers.open(
            request.session_id, request.session_epoch, node_id, broker_epoch
        )
    except KqueueError as error:
        return FetchResponse(error_code=code_of(error))
    delayed = DelayedFollowerFetch(request, context, session)
    return in_slices(context, delayed.start(fetches, forgotten))


class DelayedFollowerFetch:
    """One fetch of a follower until its response."""

    __slots__ = ("_context", "_deadline_ms", "_epoch", "_is_kept", "_max_bytes", "_min_bytes", "_session", "_wait_ms")

    def __init__(self, request: FetchRequest, context: RequestContext, session: FollowerSession) -> None:
        self._context = context
        self._session = session
        self._epoch = session.epoch
        self._is_kept = request.session_epoch != EPOCH_NONE
        self._max_bytes = request.max_bytes
        self._min_bytes = min(request.min_bytes, request.max_bytes)
        self._wait_ms = request.max_wait_ms

    def start(
        self, fetches: Sequence[PartitionFetch], forgotten: Sequence[Key]
    ) -> SlicedWork[FetchResponse | DelayedOperation[FetchResponse]]:
        """Take over the request's partitions, then respond or wait."""
        session, broker = self._session, self._context.broker
        for key in forgotten:
            session.forget(key)
            yield None
        for fetch in fetches:
            session.put(fetch)
            yield None
        if fetches and self._is_kept:
            try:
                broker.fetch_sessions.of_followers.check_size(session)
            except KqueueError as error:
                return FetchResponse(error_code=code_of(error))
        now_ms = broker.scheduler.clock.monotonic_ms()
        session.record_some(now_ms, broker.config["replica.lag.time.max.ms"] / RECORD_PARTS)
        self._deadline_ms = now_ms + max(self._wait_ms, 0)
        look = session.look(self._max_bytes)
        if self._wait_ms <= 0 or self._is_complete(look):
            return self._respond(look)
        return DelayedOperation((session,), self._deadline_ms, self._try_complete)

    def _try_complete(self, expired: bool) -> FetchResponse | None:
        session = self._session
        look = session.look(self._max_bytes)
        if expired or self._is_complete(look) or session.epoch != self._epoch:
            return self._respond(look)
        return None

    def _is_complete(self, look: Look) -> bool:
        return look.is_urgent or (look.size > 0 and look.size >= self._min_bytes)

    def _respond(self, look: Look) -> FetchResponse:
        session = self._session
        if session.epoch != self._epoch:
            error = InvalidFetchSessionEpoch(f"fetch session {session.id} was used while this request waited")
            return FetchResponse(error_code=code_of(error))
        response = FetchResponse(session_id=session.id)
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        for result in look.results:
            name = result.followed.fetch.topic
            topic = topics.get(name)
            if topic is None:
                is_id = isinstance(name, bytes)
                topic = FetchableTopicResponse(topic_id=name) if is_id else FetchableTopicResponse(topic=name)  # type: ignore[arg-type]
                topics[name] = topic
            topic.partitions.append(self._data(result, response))
        response.responses = list(topics.values())
        session.answered(look.results)
        if not self._is_kept:
            session.close()
        return response

    def _data(self, result: FollowerResult, response: FetchResponse) -> PartitionData:
        followed, read = result.followed, result.read
        index, partition = followed.fetch.index, followed.partition
        if read is not None:
            return PartitionData(
                partition_index=index,
                high_watermark=read.high_watermark,
                last_stable_offset=read.last_stable_offset,
                log_start_offset=read.log_start_offset,
                aborted_transactions=None,
                records=read.fetched.data,
            )
        code = code_of(result.error)
        data = PartitionData(
            partition_index=index, error_code=code, high_watermark=UNKNOWN, aborted_transactions=None, records=b""
        )
        if result.diverging is not None:
            data.diverging_epoch = EpochEndOffset(epoch=result.diverging.epoch, end_offset=result.diverging.end_offset)
        if partition is not None and partition.is_open and partition.is_leader:
            data.high_watermark, data.log_start_offset = partition.high_watermark, partition.log_start_offset
        if partition is not None and code in LEADER_HINT_CODES and self._context.api_version >= VERSION_LEADER_HINTS:
            add_leader_hint(self._context, partition, data, response, messages)
        return data
