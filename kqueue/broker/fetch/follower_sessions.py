"""Fetch sessions of followers: the leader's side of replica fetches.

A follower names a partition only when its offset changed. So a session keeps a set of the
partitions that are due: named by the request, with new records, or with a new role. A fetch looks
at these alone; thousands of idle partitions cost it nothing. The leader must hear of each
partition's follower now and then, or it would look out of date at the next append: each fetch
records a part of them again, all within a quarter of `replica.lag.time.max.ms`.

Rules 15 to 17 are those of `LogLeader.fetch`. Source: KIP-227.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.base.errors import (
    FetchSessionNotFound,
    InvalidFetchSessionEpoch,
    KqueueError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kqueue.broker.fetch.fetch_sessions import EPOCH_FULL, EPOCH_MAX, EPOCH_NONE, Key, PartitionFetch
from kqueue.broker.fetch.replication_throttle import ReplicationThrottle
from kqueue.broker.purgatory import DelayedOperation, Purgatory, WatchedOperation
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.replicas.partition_host import PartitionRead
from kqueue.broker.topics.topics import Topics
from kqueue.log.formats.leader_epochs import EpochEndOffset
from kqueue.replication.config import LEADER_SIDE
from kqueue.replication.leader_replica import ReplicaFetch

SESSIONS_MAX = 256
"""Sessions of all followers together; above it the one unused for longest ends."""
PARTITIONS_MAX = 250_000
"""Partitions of all sessions together; above it the same."""
LOOKS_MAX = 500
LOOK_MS = 5.0
"""Partitions that are looked at in one turn, and for how long: logs may have to be opened."""
REGIONS_MAX = 64
"""Partitions with records in one response: each may hold a file descriptor until it is sent."""
RECORD_PARTS = 4
UNKNOWN_PARTITION = UnknownTopicOrPartition("there is no such topic, or it has no such partition")
UNKNOWN_ID = UnknownTopicId("no topic has this id")


class FollowedPartition:
    """One partition of a session. `sent`: high watermark and log start that the follower knows."""

    __slots__ = ("error", "fetch", "is_checking", "partition", "sent", "watch")

    def __init__(self, fetch: PartitionFetch) -> None:
        self.fetch = fetch
        self.partition: Partition | None = None
        self.sent = (-1, -1)
        self.watch: WatchedOperation | None = None
        self.is_checking = False
        self.error: KqueueError | None = None  # of the check of its records


class FollowerResult(NamedTuple):
    """The outcome of a fetch for one partition: `read`, `diverging` or `error`."""

    followed: FollowedPartition
    read: PartitionRead | None = None
    diverging: EpochEndOffset | None = None
    error: KqueueError | None = None


class Look(NamedTuple):
    """The outcome of one fetch. `is_urgent`: an error, logs that differ, or more news than were
    looked at: answer at once.
    """

    results: list[FollowerResult]
    size: int
    is_urgent: bool


class FollowerSession:
    """The partitions that one fetcher of a follower fetches. It is a key of the purgatory, woken
    when a partition becomes due.
    """

    def __init__(self, id: int, node_id: int, broker_epoch: int, host: FollowerSessions) -> None:
        self.id = id
        self.node_id = node_id
        self.broker_epoch = broker_epoch
        self.epoch = EPOCH_FULL
        self.recorded_ms = 0.0
        self.partitions: dict[Key, FollowedPartition] = {}
        self.due: dict[Key, None] = {}
        self._topics = host.topics
        self._purgatory = host.purgatory
        self._clock = host.clock
        self._throttle = host.throttle

    def put(self, fetch: PartitionFetch) -> None:
        """Fetch a partition from now on, or from another offset."""
        key = fetch.key
        followed = self.partitions.get(key)
        if followed is None:
            followed = self.partitions[key] = FollowedPartition(fetch)
        else:
            followed.fetch = fetch
        followed.error = None
        self.due[key] = None

    def forget(self, key: Key) -> None:
        """Fetch a partition no more."""
        followed = self.partitions.pop(key, None)
        self.due.pop(key, None)
        if followed is not None and followed.watch is not None:
            followed.watch.cancel()

    def close(self) -> None:
        """Forget all partitions."""
        for key in list(self.partitions):
            self.forget(key)

    def record_some(self, now_ms: float, all_within_ms: float) -> None:
        """Have the next `look` record a part of the partitions again, the oldest first."""
        count = len(self.partitions)
        part = math.ceil(count * min(1.0, (now_ms - self.recorded_ms) / all_within_ms)) if count else 0
        self.recorded_ms = now_ms
        for key in [key for key, _ in zip(self.partitions, range(part), strict=False)]:
            self.partitions[key] = self.partitions.pop(key)
            self.due[key] = None

    def look(self, max_bytes: int) -> Look:
        """Read what is due, within `max_bytes` but for the first batch. Raises no KqueueError.

        A partition without news is due no more; `answered` does so for the others. Where there is
        too much to look at, the waiting fetch is woken for the rest in a later turn.
        """
        results: list[FollowerResult] = []
        size = regions = 0
        is_urgent = False
        due, until_ms = len(self.due), self._clock.monotonic_ms() + LOOK_MS
        looked_at: list[Key] = []
        # A copy of the first ones: a look makes partitions no longer due.
        for key in list(islice(self.due, LOOKS_MAX)):
            if looked_at and self._clock.monotonic_ms() >= until_ms:
                break
            looked_at.append(key)
            followed = self.partitions[key]
            if followed.is_checking:
                continue
            is_full = regions >= REGIONS_MAX or (size > 0 and size >= max_bytes)
            result = self._look_at(followed, 0 if is_full else max_bytes - size, min_one_batch=size == 0)
            if result.read is None:
                # An error, or logs that differ: the follower can do nothing for this partition
                # before it knows.
                is_urgent = True
            else:
                fetched = result.read.fetched
                if fetched.check is not None:
                    self._check(followed, result)
                    continue
                size += len(fetched)
                regions += fetched.region is not None
                # Not even a watermark is new: the partition is left out of the response (KIP-227).
                if not len(fetched) and (result.read.high_watermark, result.read.log_start_offset) == followed.sent:
                    self._note_done(followed)
                    continue
            results.append(result)
        if len(looked_at) < due:
            is_urgent = is_urgent or bool(results)
            self._go_on_behind(looked_at, made_progress=len(self.due) < due)
        return Look(results, size, is_urgent)

    def _go_on_behind(self, looked_at: Iterable[Key], *, made_progress: bool) -> None:
        for key in looked_at:
            if key in self.due:
                # Behind the others, so that each gets its turn however many are due.
                self.due[key] = self.due.pop(key)
        if made_progress:
            self._purgatory.wake_in_later_turn(self)

    def answered(self, results: Iterable[FollowerResult]) -> None:
        """Note that these results are sent."""
        for result in results:
            followed, read = result.followed, result.read
            if read is not None:
                followed.sent = (read.high_watermark, read.log_start_offset)
                if len(read.fetched):
                    assert followed.partition is not None
                    self._throttle.count(followed.partition, len(read.fetched))
                    # With its new offset, once it has appended: until then the same records would
                    # be read again.
                    self.due.pop(followed.fetch.key, None)  # the follower names it again
                else:
                    self._note_done(followed)
            elif followed.partition is None:  # the follower names it again when it is there
                self.forget(followed.fetch.key)
            else:
                followed.sent = (-1, -1)
                self.due.pop(followed.fetch.key, None)

    def _note_done(self, followed: FollowedPartition) -> None:
        partition, fetch = followed.partition, followed.fetch
        if partition is None or not partition.is_open or partition.log_end_offset <= fetch.offset:
            self.due.pop(fetch.key, None)

    def _look_at(self, followed: FollowedPartition, max_bytes: int, *, min_one_batch: bool) -> FollowerResult:
        fetch = followed.fetch
        if followed.error is not None:
            return FollowerResult(followed, error=followed.error)
        partition = self._find(followed)
        if partition is None:
            is_unknown_id = isinstance(fetch.topic, bytes) and self._topics.find_by_id(fetch.topic) is None
            return FollowerResult(followed, error=UNKNOWN_ID if is_unknown_id else UNKNOWN_PARTITION)
        if self._throttle.holds_back(partition, self.node_id):
            max_bytes, min_one_batch = 0, False  # its fetch is recorded nevertheless
        of_replica = ReplicaFetch(
            self.node_id,
            self.broker_epoch,
            fetch.leader_epoch,
            fetch.offset,
            fetch.last_fetched_epoch,
            fetch.replica_start,
        )
        try:
            answer = partition.lead().fetch(
                of_replica, max(0, min(fetch.max_bytes, max_bytes)), min_one_batch=min_one_batch
            )
        except KqueueError as error:
            return FollowerResult(followed, error=error.with_traceback(None))
        if isinstance(answer, EpochEndOffset):
            return FollowerResult(followed, diverging=answer)
        return FollowerResult(followed, answer)

    def _find(self, followed: FollowedPartition) -> Partition | None:
        partition = followed.partition
        if partition is not None and not partition.deleted:
            return partition
        fetch = followed.fetch
        topic = (
            self._topics.find_by_id(fetch.topic) if isinstance(fetch.topic, bytes) else self._topics.find(fetch.topic)
        )
        if topic is None or not 0 <= fetch.index < len(topic.partitions):
            return None
        followed.partition = partition = topic.partitions[fetch.index]
        if followed.watch is not None:
            followed.watch.cancel()

        def woken(expired: bool) -> None:
            key = followed.fetch.key
            if self.partitions.get(key) is followed:
                self.due[key] = None
                self._purgatory.wake(self)

        keys = (partition,) if partition.replica.key is None else (partition, partition.replica.key)
        followed.watch = self._purgatory.add(DelayedOperation[None](keys, None, woken), lambda _: None)
        return partition

    def _check(self, followed: FollowedPartition, result: FollowerResult) -> None:
        """Verify records that were on disk at the start, before they are sent."""
        check = None if result.read is None else result.read.fetched.check
        assert followed.partition is not None
        assert check is not None
        followed.is_checking = True

        def checked(error: KqueueError | None) -> None:
            followed.is_checking, followed.error = False, error
            key = followed.fetch.key
            if self.partitions.get(key) is followed:
                self.due[key] = None
                self._purgatory.wake(self)

        followed.partition.start_check(check, checked)


class FollowerSessions:
    """The sessions of all followers. Runs on the owner thread."""

    def __init__(
        self, topics: Topics, purgatory: Purgatory, clock: Clock, rng: random.Random, config: Config, node_id: int
    ) -> None:
        self.topics = topics
        self.purgatory = purgatory
        self.clock = clock
        self.throttle = ReplicationThrottle(LEADER_SIDE, config, topics, clock, node_id)
        self._rng = rng
        self._sessions: dict[int, FollowerSession] = {}  # the longest unused first

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, session_id: int, epoch: int, node_id: int, broker_epoch: int) -> FollowerSession:
        """Return the session of a request; a new one is empty.

        Raises: FetchSessionNotFound, InvalidFetchSessionEpoch: the follower must start again with a
            full fetch.
        """
        if epoch in (EPOCH_FULL, EPOCH_NONE):
            self.close(session_id, node_id)
            session = FollowerSession(0, node_id, broker_epoch, self)
            if epoch == EPOCH_FULL:
                self._keep(session)
        else:
            existing = self._sessions.get(session_id)
            if existing is None or (existing.node_id, existing.broker_epoch) != (node_id, broker_epoch):
                raise FetchSessionNotFound(f"broker {node_id} has no fetch session {session_id} here")
            session = existing
            if session.epoch != epoch:
                raise InvalidFetchSessionEpoch(
                    f"fetch session {session_id}: expected epoch {session.epoch}, found {epoch}"
                )
            self._sessions[session.id] = self._sessions.pop(session.id)
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        return session

    def check_size(self, session: FollowerSession) -> None:
        """End the sessions unused for longest while all of them have too many partitions; call it
        after partitions were put into `session`, the one that is used now.

        Raises: FetchSessionNotFound: it alone has too many, and is ended too.
        """
        count = sum(len(one.partitions) for one in self._sessions.values())
        for old in list(self._sessions.values()) if count > PARTITIONS_MAX else ():
            count -= len(old.partitions)
            self.close(old.id, old.node_id)
            if count <= PARTITIONS_MAX:
                break
        if not session.partitions and session.id not in self._sessions:
            raise FetchSessionNotFound(f"expected at most {PARTITIONS_MAX} partitions of all followers")

    def close(self, session_id: int, node_id: int) -> None:
        """End a session of this follower, if there is one."""
        session = self._sessions.get(session_id)
        if session is not None and session.node_id == node_id:
            del self._sessions[session_id]
            session.close()

    def _keep(self, session: FollowerSession) -> None:
        for old in [one for one in self._sessions.values() if one.node_id == session.node_id]:
            # A follower that crashed can't close its sessions.
            if old.broker_epoch < session.broker_epoch:  # of its former life
                self.close(old.id, old.node_id)
        while len(self._sessions) >= SESSIONS_MAX:
            oldest = next(iter(self._sessions.values()))
            self.close(oldest.id, oldest.node_id)
        while session.id == 0 or session.id in self._sessions:
            session.id = self._rng.randrange(1, EPOCH_MAX)
        session.recorded_ms = self.clock.monotonic_ms()
        self._sessions[session.id] = session
