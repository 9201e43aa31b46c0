"""One fetch loop of this broker from another: it copies partitions that the other leads.

    request     what changed: partitions that are new here, or whose log has grown since
    response    batches, appended as they are; where the logs differ, where they part
    flush       all partitions of the response in parallel (rule 21), then the next request

A long answer is applied in slices. A partition that fails leaves the fetch session for
`replica.fetch.backoff.ms`; the others go on. Rules 14 and 18 to 21. Source: KIP-227, Kafka's
AbstractFetcherThread, ReplicaFetcherThread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kqueue.base import events
from kqueue.base.errors import FencedLeaderEpoch, KqueueError, LogRecovering, StorageFailed, StorageUnavailable
from kqueue.base.timers import Timer
from kqueue.broker.replicas.partition import Partition
from kqueue.interbroker.contract import PeerError, Peers
from kqueue.interbroker.leader_offsets import LeaderOffsets, ask_leader_offsets, ask_local_start
from kqueue.log.follower_log import lacks_epochs
from kqueue.log.log_cut import RestartState
from kqueue.replication.config import FetcherConfig
from kqueue.replication.follower_replica import FollowerFetch, FollowerReplica
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

if TYPE_CHECKING:
    from kqueue.base.clock import Clock
    from kqueue.base.timers import Timers
    from kqueue.broker.fetch.replication_throttle import ReplicationThrottle
    from kqueue.broker.purgatory import Purgatory

NAMED_MAX = 1000
"""Partitions that one request names; others wait for the next, which then does not wait."""
SLICE_MS = 5.0
RESPONSE_EXTRA_MS = 30_000.0
"""A response may be later by this than the wait that the request asks for. Source:
replica.socket.timeout.ms.
"""
_SESSION_CODES = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
_EXPECTED_CODES = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""Errors while leaders move and topics come and go, which are not logged."""
logger = logging.getLogger("kqueue.replication")
Key = tuple[bytes, int]


class FetcherHost(Protocol):
    """The objects that the fetchers of a broker share."""

    clock: Clock
    timers: Timers
    purgatory: Purgatory
    peers: Peers
    node_id: int
    flush_before_fetch: bool
    throttle: ReplicationThrottle

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's present registration."""

    @property
    def config(self) -> FetcherConfig:
        """The present settings."""

    @property
    def skips_tiered(self) -> bool:
        """`follower.fetch.last.tiered.offset.enable`."""


class FetchedPartition:
    """A partition of a fetcher.

    fetch: the outstanding one; None: to be named next.
    has_restarted: whether its log has gone on from the tier.
    """

    __slots__ = ("failed_code", "fetch", "follower", "has_restarted", "key", "partition")

    def __init__(self, key: Key, partition: Partition) -> None:
        self.key = key
        self.partition = partition
        self.follower = FollowerReplica(partition.registration)
        self.fetch: FollowerFetch | None = None
        self.failed_code = 0  # logged already
        self.has_restarted = False


class _Answer(NamedTuple):
    key: Key
    data: PartitionData


class ReplicaFetcher:
    """Copies partitions from broker `leader` over one channel."""

    def __init__(self, host: FetcherHost, leader: int, index: int) -> None:
        self._host = host
        self._leader = leader
        self._channel = f"fetch-{index}"
        self._partitions: dict[Key, FetchedPartition] = {}
        self._to_name: dict[Key, None] = {}
        self._to_forget: dict[Key, None] = {}  # of the leader's session
        self._held_back: list[Key] = []  # by the throttle
        self._session_id = self._session_epoch = 0
        self._answers: deque[_Answer] = deque()
        self._unflushed = 0
        self._cancel: Callable[[], None] | None = None  # of the request under way
        self._is_busy = False  # a request is under way, or its response is applied
        self._pause: Timer | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._partitions)

    def add(self, topic_id: bytes, partition: Partition) -> None:
        """Copy a partition from now on; one that is copied already, in its present epoch."""
        key = (topic_id, partition.index)
        known = self._partitions.get(key)
        if known is not None and known.partition is partition:
            known.follower.applied(partition.registration)
            # A new epoch: what is outstanding was asked of another leader, or of an earlier life of
            # it.
            known.fetch = None
        else:
            self._partitions[key] = FetchedPartition(key, partition)
        self._to_name[key] = None
        self._to_forget.pop(key, None)
        self._fetch_soon()

    def remove(self, key: Key) -> None:
        """Copy a partition no more."""
        if self._partitions.pop(key, None) is not None:
            self._to_name.pop(key, None)
            if self._session_id:
                self._to_forget[key] = None

    def close(self) -> None:
        """Copy nothing more."""
        self._closed = True
        self._partitions.clear()
        self._answers.clear()
        if self._cancel is not None:
            self._cancel()
        if self._pause is not None:
            self._pause.cancel()

    # --- requests

    def _fetch_soon(self) -> None:
        if not self._is_busy and self._pause is None and not self._closed:
            self._is_busy = True
            # In a later turn: a failover adds partitions one by one, and the first request should
            # name all of them.
            self._host.purgatory.run_in_later_turn(self._fetch)

    def _fetch(self) -> None:
        if self._closed or not (self._partitions or self._to_forget):
            self._is_busy = False
            return
        config = self._host.config
        named = self._named(config)
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self._host.node_id, replica_epoch=self._host.broker_epoch),
            # Some were not named for want of room. The leader must not wait for news of the others
            # meanwhile.
            max_wait_ms=0 if self._to_name else config.wait_ms,
            min_bytes=config.min_bytes,
            max_bytes=config.response_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=named,
            forgotten_topics_data=self._forgotten(),
        )
        self._cancel = self._host.peers.send(
            self._leader,
            request,
            self._answered,
            timeout_ms=config.wait_ms + RESPONSE_EXTRA_MS,
            channel=self._channel,
        )

    def _named(self, config: FetcherConfig) -> list[FetchTopic]:
        topics: dict[bytes, FetchTopic] = {}
        until_ms = self._host.clock.monotonic_ms() + SLICE_MS
        count = 0
        while self._to_name and count < NAMED_MAX:
            key = next(iter(self._to_name))
            del self._to_name[key]
            fetched = self._partitions.get(key)
            if fetched is None or self._is_held_back(fetched):
                continue
            try:
                log = fetched.partition.log
                if log.health.is_suspended:  # its end is not the one that it will have
                    self._delay(fetched)
                    continue
                fetch = fetched.fetch = fetched.follower.next_fetch(log.end_offset, log.epochs.latest)
                start = log.start_offset
            except KqueueError as error:
                self._failed(fetched, error)
                continue
            topic_id, index = key
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = FetchTopic(topic_id=topic_id, partitions=[])
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=fetch.leader_epoch,
                    fetch_offset=fetch.offset,
                    last_fetched_epoch=fetch.last_epoch,
                    log_start_offset=start,
                    partition_max_bytes=config.partition_bytes,
                )
            )
            count += 1
            if self._host.clock.monotonic_ms() >= until_ms:  # logs that had to be opened
                break
        return list(topics.values())

    def _is_held_back(self, fetched: FetchedPartition) -> bool:
        """Whether the throttle lets the partition pause. It is out of the session meanwhile."""
        host = self._host
        if not host.throttle.holds_back(fetched.partition, host.node_id):
            return False
        if not self._held_back:
            # not for longer: the throttle may be changed
            pause_ms = min(host.throttle.wait_ms(), host.config.wait_ms)
            host.timers.at(host.clock.monotonic_ms() + pause_ms, self._name_held_back)
        self._held_back.append(fetched.key)
        self._leave_out(fetched)
        return True

    def _name_held_back(self) -> None:
        held_back, self._held_back = self._held_back, []
        for key in held_back:
            self._name_again(key)

    def _forgotten(self) -> list[ForgottenTopic]:
        topics: dict[bytes, ForgottenTopic] = {}
        for topic_id, index in self._to_forget:
            topics.setdefault(topic_id, ForgottenTopic(topic_id=topic_id, partitions=[])).partitions.append(index)
        self._to_forget.clear()
        return list(topics.values())

    # --- responses

    def _answered(self, response: FetchResponse | PeerError) -> None:
        self._cancel = None
        if self._closed:
            return
        if isinstance(response, PeerError):
            # Whether the leader took the request is unknown, so is what its session holds.
            self._restart_session()
            self._pause_for(self._host.config.backoff_ms)
            return
        if response.error_code:
            self._restart_session()
            if response.error_code in _SESSION_CODES:
                self._is_busy = False
                self._fetch_soon()
            else:
                self._pause_for(self._host.config.backoff_ms)
            return
        if self._session_id != response.session_id:
            self._session_id, self._session_epoch = response.session_id, 0
        # After 2^31-1 comes 1: 0 would ask for a new session (KIP-227).
        self._session_epoch = self._session_epoch % (2**31 - 1) + 1
        # Counted up before any flush begins: in memory a flush ends within `after_flush`, and the
        # count must not reach 0 before the whole response is applied.
        self._unflushed = 1  # the response itself
        self._answers.extend(
            _Answer((topic.topic_id, data.partition_index), data)
            for topic in response.responses
            for data in topic.partitions
        )
        self._apply_some()

    def _restart_session(self) -> None:
        """Name all partitions again, in a new session: no answer to an earlier fetch will come."""
        self._session_id = self._session_epoch = 0
        self._to_forget.clear()
        for key, fetched in self._partitions.items():
            # The others are named already, delayed or held back.
            if fetched.fetch is not None:
                fetched.follower.abandon(fetched.fetch)
                fetched.fetch = None
                self._to_name[key] = None

    def _pause_for(self, ms: float) -> None:
        def end() -> None:
            self._pause = None
            self._is_busy = False
            self._fetch_soon()

        self._pause = self._host.timers.at(self._host.clock.monotonic_ms() + ms, end)

    def _apply_some(self) -> None:
        until_ms = self._host.clock.monotonic_ms() + SLICE_MS
        while self._answers:
            answer = self._answers.popleft()
            fetched = self._partitions.get(answer.key)
            if fetched is not None and fetched.fetch is not None:
                try:
                    self._apply(fetched, fetched.fetch, answer.data)
                except KqueueError as error:
                    self._failed(fetched, error)
            # A view of the received buffer: kept over a slice it would hold the memory of the whole
            # response.
            del answer
            if self._answers and self._host.clock.monotonic_ms() >= until_ms:
                self._host.purgatory.run_in_later_turn(self._apply_some)
                return
        self._flushed()

    def _flushed(self) -> None:
        self._unflushed -= 1
        if not self._unflushed and not self._closed:
            self._is_busy = False
            self._fetch_soon()

    def _apply(self, fetched: FetchedPartition, fetch: FollowerFetch, data: PartitionData) -> None:
        """Raises KqueueError: the partition fails, the others go on."""
        partition, key = fetched.partition, fetched.key
        log, epoch = partition.log, fetch.leader_epoch
        if not (data.error_code or data.diverging_epoch.epoch >= 0 or data.records):
            # the fetch stays outstanding: the leader's session keeps its offset
            if fetch.leader_epoch == fetched.follower.leader_epoch:
                start = log.start_offset
                self._take_over(partition, data, epoch)
                if log.start_offset != start:  # the leader waits for it
                    self._to_name[key] = None
            return
        # Rule 18. Named again, so that the next request says where the log is now.
        if not fetched.follower.accepts(fetch, log.end_offset, log.epochs.latest):
            fetched.fetch = None
            self._to_name[key] = None
            return
        fetched.fetch = None
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._ask_offsets(fetched, epoch)
            return
        elif data.error_code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
            self._ask_local_start(fetched, epoch)
            return
        elif data.error_code:
            self._back_off(fetched, data.error_code)
            return
        elif data.diverging_epoch.epoch >= 0:
            self._truncate(fetched, data, epoch)
            return
        elif 0 <= data.log_start_offset < log.local_start_offset and lacks_epochs(log) and not fetched.has_restarted:
            self._ask_local_start(fetched, epoch)
            return
        else:
            assert isinstance(data.records, memoryview)
            # What is copied counts before it is appended: the leader has sent it, and the network
            # has carried it, either way.
            self._host.throttle.count(partition, len(data.records))
            follower = partition.follow(epoch)
            if follower.lacks_begin_of(data.records):
                self._leave_out(fetched)
                follower.append_whole(data.records, partial(self._cut, fetched))
                return
            end_offset = follower.append(data.records)
            # After the append: high watermark and log start are bounded by this log's end.
            self._take_over(partition, data, epoch)
            if self._host.flush_before_fetch:
                self._unflushed += 1
                # The next fetch confirms this offset to the leader, which commits by it: so it must
                # be on this disk first (rule 21).
                partition.after_flush(end_offset, self._flushed)
        fetched.failed_code = 0
        self._to_name[key] = None

    def _take_over(self, partition: Partition, data: PartitionData, epoch: int) -> None:
        if data.high_watermark >= 0:
            partition.follow(epoch).raise_high_watermark(data.high_watermark)
        if data.log_start_offset >= 0:
            partition.follow(epoch).raise_start(data.log_start_offset)

    def _truncate(self, fetched: FetchedPartition, data: PartitionData, epoch: int) -> None:
        partition, log = fetched.partition, fetched.partition.log
        diverging = (data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
        cut = fetched.follower.truncation(diverging, partition.epoch_end, log.end_offset, partition.high_watermark)
        event = events.REPLICA_RECORDS_LOST if cut.is_loss else events.REPLICA_TRUNCATED
        event.log(
            logger,
            "%s-%d: truncated from offset %d to %d, where broker %d's log differs (epoch %d)%s",
            topic=partition.topic,
            partition=partition.index,
            end_offset=log.end_offset,
            offset=cut.offset,
            leader=self._leader,
            leader_epoch=diverging[0],
            loss=": committed records are lost" if cut.is_loss else "",
        )
        # Out of the session: until the cut ends its offset would be asked for again and again.
        self._leave_out(fetched)
        partition.follow(epoch).truncate(cut.offset, partial(self._cut, fetched))

    def _ask_offsets(self, fetched: FetchedPartition, epoch: int) -> None:
        """Find out where the leader's log is: it has not got this log's end."""
        self._leave_out(fetched)

        def answered(offsets: LeaderOffsets | KqueueError) -> None:
            if self._partitions.get(fetched.key) is not fetched or fetched.fetch is not None:
                return  # it has another leader or epoch, and was named again
            try:
                if isinstance(offsets, KqueueError):
                    raise offsets
                if not self._start_again(fetched, offsets, epoch):
                    self._back_off(fetched, ErrorCode.OFFSET_OUT_OF_RANGE)
            except KqueueError as error:
                self._failed(fetched, error)

        host = self._host
        ask_leader_offsets(host.peers, host.node_id, self._leader, fetched.partition, epoch, answered)

    def _start_again(self, fetched: FetchedPartition, leaders: LeaderOffsets, epoch: int) -> bool:
        """Go on within the leader's log. Return False: this log's end lies within it already."""
        partition, done = fetched.partition, partial(self._cut, fetched)
        start, end = partition.log_start_offset, partition.log_end_offset
        # Three ways for a log to lie outside of its leader's; each has one way back into it.
        if end < leaders.start:
            said, go_on_at = "begins again at offset %d", leaders.start
            partition.follow(epoch).restart_at(go_on_at, done)
        elif leaders.end < start:
            said, go_on_at = "begins anew, to copy from offset %d on", leaders.start
            partition.follow(epoch).begin_anew()
            done(None)
        elif leaders.end < end:
            said, go_on_at = "truncated to offset %d", leaders.end
            partition.follow(epoch).truncate(go_on_at, done)
        else:
            return False
        events.REPLICA_BEGUN_AGAIN.log(
            logger,
            "%s-%d: %s: it had offsets %d to %d, and broker %d has %d to %d",
            topic=partition.topic,
            partition=partition.index,
            what=said % go_on_at,
            start_offset=start,
            end_offset=end,
            leader=self._leader,
            leader_start_offset=leaders.start,
            leader_end_offset=leaders.end,
        )
        return True

    def _ask_local_start(self, fetched: FetchedPartition, epoch: int) -> None:
        """Go on where the leader's local log starts: what is before, the tier has (KIP-405).

        Three steps, each of which the end of the leader epoch ends: the leader is asked for that
        offset, the tier for epochs and producers there, and the log restarts with them.
        """
        self._leave_out(fetched)
        partition, host = fetched.partition, self._host

        def in_turn(step: Callable[[], None]) -> None:
            if self._partitions.get(fetched.key) is not fetched or fetched.fetch is not None:
                return  # it has another leader or epoch, and was named again
            try:
                step()
            except KqueueError as error:
                self._failed(fetched, error)

        def answered(offset: int | KqueueError) -> None:
            in_turn(lambda: ask_tier(offset))

        def ask_tier(offset: int | KqueueError) -> None:
            if isinstance(offset, KqueueError):
                raise offset
            partition.restart_state(offset, lambda state: in_turn(lambda: restart(offset, state)))

        def done(error: KqueueError | None) -> None:
            fetched.has_restarted = error is None
            self._cut(fetched, error)

        def restart(offset: int, state: RestartState | KqueueError) -> None:
            if isinstance(state, KqueueError):
                raise state
            end = partition.log_end_offset
            partition.follow(epoch).restart_at(offset, done, state)
            events.REPLICA_SKIPS_TIER.log(
                logger,
                "%s-%d: goes on at offset %d, where broker %d's local log starts: it ended at %d",
                topic=partition.topic,
                partition=partition.index,
                offset=offset,
                leader=self._leader,
                end_offset=end,
            )

        ask_local_start(
            host.peers, host.node_id, self._leader, partition, epoch, answered, skips_tiered=host.skips_tiered
        )

    def _cut(self, fetched: FetchedPartition, error: KqueueError | None) -> None:
        if error is not None:
            self._failed(fetched, error)
        else:
            self._name_again(fetched.key)

    # --- partitions that fail

    def _failed(self, fetched: FetchedPartition, error: KqueueError) -> None:
        """Handle an error of this broker's replica."""
        partition = fetched.partition
        if isinstance(error, StorageFailed) and not isinstance(error, StorageUnavailable) and partition.is_offline:
            # Final until the next start: a log that failed is never written again (`log_state`).
            events.REPLICA_COPYING_ENDED.log(
                logger, "%s-%d is copied no more: %s", topic=partition.topic, partition=partition.index, error=error
            )
            self.remove(fetched.key)
            return
        if not isinstance(error, (FencedLeaderEpoch, LogRecovering)) and fetched.failed_code != -1:
            fetched.failed_code = -1
            events.REPLICA_COPYING_FAILED.log(
                logger,
                "%s-%d: copying from broker %d failed, trying again: %s",
                topic=partition.topic,
                partition=partition.index,
                leader=self._leader,
                error=error,
            )
        self._delay(fetched)

    def _back_off(self, fetched: FetchedPartition, code: int) -> None:
        """Handle an error of the leader."""
        if code not in _EXPECTED_CODES and fetched.failed_code != code:
            fetched.failed_code = code
            partition = fetched.partition
            name = ErrorCode(code).name if code in ErrorCode.__members__.values() else str(code)
            events.REPLICA_COPYING_FAILED.log(
                logger,
                "%s-%d: broker %d answers %s, trying again",
                topic=partition.topic,
                partition=partition.index,
                leader=self._leader,
                error=name,
            )
        self._delay(fetched)

    def _delay(self, fetched: FetchedPartition) -> None:
        self._leave_out(fetched)
        key = fetched.key
        self._host.timers.at(
            self._host.clock.monotonic_ms() + self._host.config.backoff_ms, lambda: self._name_again(key)
        )

    def _leave_out(self, fetched: FetchedPartition) -> None:
        """Take a partition out of the leader's session, until `_name_again`."""
        key = fetched.key
        fetched.fetch = None
        self._to_name.pop(key, None)
        if self._session_id:
            self._to_forget[key] = None

    def _name_again(self, key: Key) -> None:
        fetched = self._partitions.get(key)
        if fetched is not None and fetched.fetch is None:
            self._to_name[key] = None
            self._to_forget.pop(key, None)
            self._fetch_soon()
