"""Fetch sessions: the broker keeps what a consumer fetches; requests and responses name only
changes.

    request (id, epoch)    meaning
    (any, 0)               a full fetch that requests a session; a named one ends
    (any, -1)              a full fetch without a session; a named one ends
    (id, n > 0)            an incremental fetch: n counts up from 1, after 2^31-1 comes 1

Sessions are in memory only: a client whose session is unknown starts with a full fetch. A session
belongs to the principal that began it: to all others it is unknown. In Kafka whoever guesses its id
may use it, and so learns and changes what another user fetches.
Source: KIP-227, Kafka's FetchSession.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from kqueue.base.clock import Clock
from kqueue.base.errors import FetchSessionNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch
from kqueue.base.names import TOPIC_LENGTH_MAX
from kqueue.broker.replicas.partition import Partition
from kqueue.security.principals import ANONYMOUS, Principal

NO_SESSION = 0
EPOCH_FULL = 0
EPOCH_NONE = -1
EPOCH_MAX = 2**31 - 1
EVICTABLE_AFTER_MS = 120_000
PARTITIONS_MAX = 250_000
"""Partitions of all sessions together, some 350 bytes each. Above it stale sessions are evicted,
then fetches are served without a session.
"""

Key = tuple[str | bytes, int]


@dataclass(slots=True)
class PartitionFetch:
    """One partition of a fetch. Source: Kafka's CachedPartition.

    `topic`: name, or 16-byte id. Epochs are -1 if the client names none. `high_watermark`,
    `log_start_offset`: last values sent to the session's client; -1: none. `replica_start`: log
    start of a follower; -1: of a consumer. `partition`: cached by `fetch_reader.find_partition`.
    """

    topic: str | bytes
    index: int
    offset: int
    max_bytes: int
    leader_epoch: int = -1
    last_fetched_epoch: int = -1
    high_watermark: int = -1
    log_start_offset: int = -1
    partition: Partition | None = None
    replica_start: int = -1

    @property
    def key(self) -> Key:
        """Topic name or id, and partition index."""
        return self.topic, self.index


def _is_too_long(fetch: PartitionFetch) -> bool:
    """Return whether no topic can have this name; sessions keep no names of up to 32 KB."""
    return len(fetch.topic) > TOPIC_LENGTH_MAX


@dataclass(slots=True, eq=False)
class FetchSession:
    """The partitions that one client fetches, in the order in which they are read."""

    id: int
    owner: Principal
    by_id: bool
    created_ms: float
    used_ms: float
    epoch: int = 1
    partitions: dict[Key, PartitionFetch] = field(default_factory=dict)
    counted: int = 0
    """Partitions counted for the session; a request that changes them updates it at its end."""


class FetchContext:
    """One fetch without a session; the response has all partitions.

    Attributes:
        fetches: in reading order.
        session_id: of the session that the request uses; 0: none yet.
    """

    def __init__(self, fetches: list[PartitionFetch]) -> None:
        self.fetches = fetches
        self.session_id = NO_SESSION

    def check(self) -> None:
        """Call before responding. Raises InvalidFetchSessionEpoch: a later request used the
        session.
        """

    def must_respond(
        self, fetch: PartitionFetch, high_watermark: int, log_start_offset: int, *, has_records: bool, always: bool
    ) -> bool:
        """Return whether the response includes this partition; called once for each of `fetches`.

        Args:
            always: an error or a divergence, which every response repeats while it lasts.
        """
        return True

    def finish(self) -> int:
        """Return the session id for the response; 0: none."""
        return NO_SESSION


class FullContext(FetchContext):
    """A full fetch that requests a session; `finish` creates it."""

    def __init__(self, sessions: FetchSessions, fetches: list[PartitionFetch], by_id: bool, owner: Principal) -> None:
        super().__init__(fetches)
        self._sessions = sessions
        self._by_id = by_id
        self._owner = owner

    def must_respond(
        self, fetch: PartitionFetch, high_watermark: int, log_start_offset: int, *, has_records: bool, always: bool
    ) -> bool:
        fetch.high_watermark = -1 if always else high_watermark
        fetch.log_start_offset = log_start_offset
        return True

    def finish(self) -> int:
        return self._sessions._create(self.fetches, self._by_id, self._owner)


class IncrementalContext(FetchContext):
    """A fetch within a session: the response has only what changed since the last one."""

    def __init__(self, session: FetchSession) -> None:
        super().__init__(list(session.partitions.values()))
        self._session = session
        self.session_id = session.id
        self._epoch = session.epoch

    def check(self) -> None:
        if self._session.epoch != self._epoch:
            raise InvalidFetchSessionEpoch(f"fetch session {self._session.id} was used while this request waited")

    def must_respond(
        self, fetch: PartitionFetch, high_watermark: int, log_start_offset: int, *, has_records: bool, always: bool
    ) -> bool:
        changed = has_records or fetch.high_watermark != high_watermark or fetch.log_start_offset != log_start_offset
        # -1 differs from every high watermark: the first response without the error is news, too.
        fetch.high_watermark = -1 if always else high_watermark
        fetch.log_start_offset = log_start_offset
        if has_records:
            # to the end of the order, so that a busy partition does not starve the others
            partitions = self._session.partitions
            if partitions.pop(fetch.key, None) is not None:
                partitions[fetch.key] = fetch
        return changed or always

    def finish(self) -> int:
        return self._session.id


class FetchSessions:
    """All sessions of one broker, at most `slots`. Runs on the owner thread."""

    def __init__(self, slots: int, clock: Clock, rng: random.Random) -> None:
        self._slots = slots
        self._clock = clock
        self._rng = rng
        self._sessions: dict[int, FetchSession] = {}  # the longest unused first
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """Partitions of all sessions together."""
        return self._partition_count

    def partitions_of(self, session_id: int) -> list[Key]:
        """Return the partitions of a session, whoever owns it; none if it is unknown."""
        session = self._sessions.get(session_id)
        return [] if session is None else list(session.partitions)

    def open(
        self,
        session_id: int,
        epoch: int,
        fetches: Iterable[PartitionFetch],
        forgotten: Iterable[Key] = (),
        *,
        by_id: bool,
        principal: Principal = ANONYMOUS,
    ) -> FetchContext:
        """Return the context of this request, with the partitions to read.

        Args:
            by_id: topics are ids.
            principal: of the client.
        Raises: FetchSessionNotFound, InvalidFetchSessionEpoch, FetchSessionTopicIdError: the client
            must start again with a full fetch.
        """
        if epoch in (EPOCH_FULL, EPOCH_NONE):
            # A full fetch ends the session that it names, even if the new one gets no slot: its
            # client has forgotten it.
            if session_id != NO_SESSION and self._find(session_id, principal) is not None:
                self._remove(session_id)
            partitions = list({(fetch.topic, fetch.index): fetch for fetch in fetches}.values())
            return FetchContext(partitions) if epoch == EPOCH_NONE else FullContext(self, partitions, by_id, principal)
        session = self._find(session_id, principal)
        if session is None:
            raise FetchSessionNotFound(f"fetch session {session_id} is unknown or was evicted")
        if session.epoch != epoch:
            raise InvalidFetchSessionEpoch(f"fetch session {session_id}: expected epoch {session.epoch}, found {epoch}")
        # Version 13 names topics by id. A client that is upgraded or rolled back within a session
        # has to begin a new one, as keys of both kinds would be two partitions.
        if session.by_id != by_id:
            raise FetchSessionTopicIdError(
                f"fetch session {session_id} names topics by {'id' if session.by_id else 'name'} only"
            )
        return self._update(session, fetches, forgotten)

    def _find(self, session_id: int, principal: Principal) -> FetchSession | None:
        session = self._sessions.get(session_id)
        return session if session is not None and session.owner == principal else None

    def _update(
        self, session: FetchSession, fetches: Iterable[PartitionFetch], forgotten: Iterable[Key]
    ) -> FetchContext:
        partitions, too_long = session.partitions, False
        for fetch in fetches:
            known = partitions.get(fetch.key)
            if known is None:
                partitions[fetch.key] = fetch
                too_long = too_long or _is_too_long(fetch)
            else:
                known.offset, known.max_bytes = fetch.offset, fetch.max_bytes
                known.leader_epoch, known.last_fetched_epoch = fetch.leader_epoch, fetch.last_fetched_epoch
        for key in forgotten:
            partitions.pop(key, None)
        self._partition_count += len(partitions) - session.counted
        session.counted = len(partitions)
        if not partitions or too_long or self._partition_count > PARTITIONS_MAX:
            self._remove(session.id)
            return FetchContext(list(partitions.values()))
        # Counted before the response is made: a request that comes twice, after a lost connection,
        # has the old epoch and is refused, as what its response said is lost.
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        session.used_ms = self._clock.monotonic_ms()
        # To the end of the dict, which is ordered by last use for `_evict_stale`.
        self._sessions[session.id] = self._sessions.pop(session.id)
        return IncrementalContext(session)

    def _create(self, fetches: list[PartitionFetch], by_id: bool, owner: Principal) -> int:
        now = self._clock.monotonic_ms()
        if not fetches or any(map(_is_too_long, fetches)):
            return NO_SESSION
        self._evict_stale(len(fetches), now)
        if self._partition_count + len(fetches) > PARTITIONS_MAX or not self._free_slot(len(fetches), now):
            return NO_SESSION
        # Random, not counted: a client of a former start should get FETCH_SESSION_ID_NOT_FOUND, and
        # not hit a session of this start.
        id = self._rng.randrange(1, EPOCH_MAX)
        while id in self._sessions:
            id = self._rng.randrange(1, EPOCH_MAX)
        partitions = {fetch.key: fetch for fetch in fetches}
        self._sessions[id] = FetchSession(id, owner, by_id, now, now, 1, partitions, len(partitions))
        self._partition_count += len(partitions)
        return id

    def _evict_stale(self, size: int, now: float) -> None:
        """Evict stale sessions, the longest unused first, until `size` more partitions fit."""
        while self._partition_count + size > PARTITIONS_MAX:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now - oldest.used_ms <= EVICTABLE_AFTER_MS:
                return
            self._remove(oldest.id)

    def _free_slot(self, size: int, now: float) -> bool:
        """Return whether a session of `size` partitions gets a slot: free, or of an evicted
        session.

        Evicts a stale session, else a smaller one that is old enough.
        """
        if len(self._sessions) < self._slots:
            return True
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now - oldest.used_ms > EVICTABLE_AFTER_MS:
            self._remove(oldest.id)
            return True
        settled = [session for session in self._sessions.values() if now - session.created_ms > EVICTABLE_AFTER_MS]
        smallest = min(settled, key=lambda session: session.counted, default=None)
        if smallest is None or smallest.counted >= size:
            return False
        self._remove(smallest.id)
        return True

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partition_count -= session.counted
