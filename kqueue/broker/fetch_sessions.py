"""Fetch sessions: the broker remembers what a consumer fetches, so that requests and answers need
name only what changed.

    request (id, epoch)    meaning
    (any, 0)               a full fetch that asks for a session; one that was named ends
    (any, -1)              a full fetch without a session; one that was named ends
    (id, n > 0)            an incremental fetch: n is 1 for the first after the full one, and counts up (after 2^31-1 comes 1)

Sessions live in memory only: a client that finds its own gone starts again with a full fetch.
Source: KIP-227, Kafka's FetchSession.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kqueue.base.clock import Clock
from kqueue.base.errors import FetchSessionNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch
from kqueue.base.names import TOPIC_LENGTH_MAX

if TYPE_CHECKING:
    from kqueue.broker.partition import Partition

NO_SESSION = 0
EPOCH_FULL = 0
EPOCH_NONE = -1
EPOCH_MAX = 2**31 - 1
EVICTABLE_AFTER_MS = 120_000
PARTITIONS_MAX = 250_000
"""Partitions that all sessions together remember, some 350 bytes each. Past it stale sessions go,
then fetches are served without one.
"""

Key = tuple[str | bytes, int]


@dataclass(slots=True)
class PartitionFetch:
    """One partition of a fetch. `topic` is a name, or a 16-byte id; epochs are -1 where the client
    names none.

    `high_watermark` and `log_start_offset` are what the session's client was last told; -1:
    nothing, so tell. `partition` is where it was last found, for whoever looks it up.
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

    @property
    def key(self) -> Key:
        return self.topic, self.index


def _is_impossible(wanted: PartitionFetch) -> bool:
    """Whether the name is longer than that of any topic: sessions remember none of up to 32 KB,
    which a client could fill them with.
    """
    return len(wanted.topic) > TOPIC_LENGTH_MAX


@dataclass(slots=True, eq=False)
class FetchSession:
    """What one client is known to fetch, in the order in which its partitions take turns."""

    id: int
    by_id: bool
    created_ms: float
    used_ms: float
    epoch: int = 1
    partitions: dict[Key, PartitionFetch] = field(default_factory=dict)
    counted: int = 0
    """Partitions that the cache counts for it; stays at the last count while a request changes
    them.
    """


class FetchContext:
    """One fetch without a session: every partition is answered. `wanted` holds them in the order in
    which to read them.
    """

    def __init__(self, wanted: list[PartitionFetch]) -> None:
        self.wanted = wanted

    def check(self) -> None:
        """Call before answering. Raises InvalidFetchSessionEpoch: a later request of this session
        has overtaken this one.
        """

    def tells(
        self, wanted: PartitionFetch, high_watermark: int, log_start_offset: int, *, has_records: bool, always: bool
    ) -> bool:
        """Whether the answer includes this partition, given what there is to say of it; called once
        for each of `wanted`.

        `always`: an error or a divergence, which is told again and again while it lasts.
        """
        return True

    def finish(self) -> int:
        """The session id of the answer; 0 for none."""
        return NO_SESSION


class FullContext(FetchContext):
    """A full fetch that asks for a session, which comes to be with the answer."""

    def __init__(self, sessions: FetchSessions, wanted: list[PartitionFetch], by_id: bool) -> None:
        super().__init__(wanted)
        self._sessions = sessions
        self._by_id = by_id

    def tells(
        self, wanted: PartitionFetch, high_watermark: int, log_start_offset: int, *, has_records: bool, always: bool
    ) -> bool:
        wanted.high_watermark = -1 if always else high_watermark
        wanted.log_start_offset = log_start_offset
        return True

    def finish(self) -> int:
        return self._sessions._create(self.wanted, self._by_id)


class IncrementalContext(FetchContext):
    """A fetch within a session: only what changed since the last answer is told."""

    def __init__(self, session: FetchSession) -> None:
        super().__init__(list(session.partitions.values()))
        self._session = session
        self._epoch = session.epoch

    def check(self) -> None:
        if self._session.epoch != self._epoch:
            raise InvalidFetchSessionEpoch(f"fetch session {self._session.id} went on while this request waited")

    def tells(
        self, wanted: PartitionFetch, high_watermark: int, log_start_offset: int, *, has_records: bool, always: bool
    ) -> bool:
        changed = has_records or wanted.high_watermark != high_watermark or wanted.log_start_offset != log_start_offset
        wanted.high_watermark = -1 if always else high_watermark
        wanted.log_start_offset = log_start_offset
        if has_records:
            # to the end of the line, so that a busy partition never starves the others
            partitions = self._session.partitions
            if partitions.pop(wanted.key, None) is not None:
                partitions[wanted.key] = wanted
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
        """Partitions that all sessions together remember."""
        return self._partition_count

    def partitions_of(self, session_id: int) -> list[Key]:
        """What the session's client fetches besides what its next request names; nothing if there
        is no such session.
        """
        session = self._sessions.get(session_id)
        return [] if session is None else list(session.partitions)

    def open(
        self,
        session_id: int,
        epoch: int,
        wanted: Iterable[PartitionFetch],
        forgotten: Iterable[Key] = (),
        *,
        by_id: bool,
    ) -> FetchContext:
        """What to read for this request. `by_id`: its topics are ids.

        Raises: FetchSessionNotFound, InvalidFetchSessionEpoch, FetchSessionTopicIdError: the client
        starts anew with a full fetch.
        """
        if epoch in (EPOCH_FULL, EPOCH_NONE):
            self._remove(session_id)
            partitions = list({one.key: one for one in wanted}.values())
            return FetchContext(partitions) if epoch == EPOCH_NONE else FullContext(self, partitions, by_id)
        session = self._sessions.get(session_id)
        if session is None:
            raise FetchSessionNotFound(f"fetch session {session_id} is not known (any more)")
        if session.epoch != epoch:
            raise InvalidFetchSessionEpoch(f"fetch session {session_id}: expected epoch {session.epoch}, found {epoch}")
        if session.by_id != by_id:
            raise FetchSessionTopicIdError(
                f"fetch session {session_id} names topics by {'id' if session.by_id else 'name'} only"
            )
        return self._go_on(session, wanted, forgotten)

    def _go_on(self, session: FetchSession, wanted: Iterable[PartitionFetch], forgotten: Iterable[Key]) -> FetchContext:
        partitions, impossible = session.partitions, False
        for one in wanted:
            there = partitions.get(one.key)
            if there is None:
                partitions[one.key] = one
                impossible = impossible or _is_impossible(one)
            else:
                there.offset, there.max_bytes = one.offset, one.max_bytes
                there.leader_epoch, there.last_fetched_epoch = one.leader_epoch, one.last_fetched_epoch
        for key in forgotten:
            partitions.pop(key, None)
        self._partition_count += len(partitions) - session.counted
        session.counted = len(partitions)
        if not partitions or impossible or self._partition_count > PARTITIONS_MAX:
            self._remove(session.id)
            return FetchContext(list(partitions.values()))
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        session.used_ms = self._clock.monotonic_ms()
        self._sessions[session.id] = self._sessions.pop(session.id)
        return IncrementalContext(session)

    def _create(self, wanted: list[PartitionFetch], by_id: bool) -> int:
        now = self._clock.monotonic_ms()
        if not wanted or any(map(_is_impossible, wanted)):
            return NO_SESSION
        self._drop_stale(len(wanted), now)
        if self._partition_count + len(wanted) > PARTITIONS_MAX or not self._make_room(len(wanted), now):
            return NO_SESSION
        id = self._rng.randrange(1, EPOCH_MAX)
        while id in self._sessions:
            id = self._rng.randrange(1, EPOCH_MAX)
        partitions = {one.key: one for one in wanted}
        self._sessions[id] = FetchSession(id, by_id, now, now, 1, partitions, len(partitions))
        self._partition_count += len(partitions)
        return id

    def _drop_stale(self, size: int, now: float) -> None:
        """Let the longest unused sessions go, as far as they are stale and `size` partitions need
        their room.
        """
        while self._partition_count + size > PARTITIONS_MAX:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now - oldest.used_ms <= EVICTABLE_AFTER_MS:
                return
            self._remove(oldest.id)

    def _make_room(self, size: int, now: float) -> bool:
        """Whether a session of `size` partitions may come in: there is room, or one goes that is
        stale, or settled and smaller.
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
