"""Share sessions: the broker keeps which partitions a member of a share group fetches.

    request epoch    meaning
    0                a new session; one that the member had ends
    n > 0            a request in the session: n counts up from 1, after 2^31-1 comes 1
    -1               the last request: the session ends, and what the member holds is released

Sessions are in memory only. A connection that is closed ends its sessions. A session belongs to the
principal that began it: to all others it is unknown, and none of them can begin it anew.
Source: KIP-932, Kafka's ShareSessionCache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kqueue.base.errors import InvalidRequest
from kqueue.share.errors import InvalidShareSessionEpoch, ShareSessionLimitReached, ShareSessionNotFound

EPOCH_NEW = 0
EPOCH_FINAL = -1
EPOCH_MAX = 2**31 - 1
SESSION_PARTITIONS_MAX = 2000
"""Partitions of one session: all are looked at in one turn."""
PARTITIONS_MAX = 250_000
"""Partitions of all sessions together, some 200 bytes each."""

SessionPartition = tuple[bytes, int]
"""The id of a topic, and the index of a partition."""


class MemberKey(NamedTuple):
    """A member of a group."""

    group: str
    member_id: str


class ShareSession:
    """One session. `partitions`: in reading order. `epoch`: of the next request."""

    __slots__ = ("connection", "epoch", "key", "owner", "partitions")

    def __init__(self, key: MemberKey, connection: object, owner: object) -> None:
        self.key = key
        self.owner = owner
        self.connection = connection
        self.epoch = 1
        self.partitions: dict[SessionPartition, None] = {}

    def rotate(self, partition: SessionPartition) -> None:
        """Read this partition last from now on, as it gave records."""
        if partition in self.partitions:
            del self.partitions[partition]
            self.partitions[partition] = None


class ShareSessions:
    """All share sessions of a broker. Thread: the owner thread.

    Args:
        sessions_max: returns the setting `group.share.max.share.sessions`.
    """

    def __init__(self, sessions_max: Callable[[], int]) -> None:
        self._sessions_max = sessions_max
        self._sessions: dict[MemberKey, ShareSession] = {}
        self._by_connection: dict[object, set[MemberKey]] = {}
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, key: MemberKey) -> ShareSession | None:
        """Return a member's session, or None."""
        return self._sessions.get(key)

    def open(
        self,
        key: MemberKey,
        epoch: int,
        partitions: Sequence[SessionPartition],
        forgotten: Iterable[SessionPartition],
        connection: object,
        owner: object = None,
    ) -> tuple[ShareSession, list[SessionPartition]]:
        """Return the session of a fetch, and those of `partitions` that are new in it.

        The last request changes no partitions.

        Args:
            partitions, forgotten: to add and to remove.
            owner: the principal of the client.
        Raises: as `create` and `use`.
        """
        if epoch == EPOCH_NEW:
            session = self.create(key, partitions, connection, owner)
            return session, list(session.partitions)
        session = self.use(key, epoch, owner)
        added = [partition for partition in partitions if partition not in session.partitions]
        if epoch != EPOCH_FINAL:
            self.update(session, partitions, forgotten)
        return session, added

    def create(
        self, key: MemberKey, partitions: Iterable[SessionPartition], connection: object, owner: object = None
    ) -> ShareSession:
        """Begin a session in place of the member's former one.

        Args:
            owner: the principal of the client.
        Raises: ShareSessionLimitReached. ShareSessionNotFound: the former one is of another owner.
        """
        former = self._sessions.get(key)
        if former is not None and former.owner != owner:
            raise _unknown(key)
        self.remove(key)
        session = ShareSession(key, connection, owner)
        if len(self._sessions) >= self._sessions_max():
            raise ShareSessionLimitReached(
                f"there are {len(self._sessions)} share sessions already (group.share.max.share.sessions)"
            )
        self._sessions[key] = session
        if connection is not None:
            self._by_connection.setdefault(connection, set()).add(key)
        self.update(session, partitions, ())
        return session

    def update(
        self, session: ShareSession, added: Iterable[SessionPartition], forgotten: Iterable[SessionPartition]
    ) -> None:
        """Change the partitions of a session. Raises ShareSessionLimitReached: too many; the
        session ends.
        """
        before = len(session.partitions)
        session.partitions.update(dict.fromkeys(added))
        for partition in forgotten:
            session.partitions.pop(partition, None)
        self._partition_count += len(session.partitions) - before
        if len(session.partitions) > SESSION_PARTITIONS_MAX:
            self.remove(session.key)
            raise ShareSessionLimitReached(f"a share session has at most {SESSION_PARTITIONS_MAX} partitions")
        if self._partition_count > PARTITIONS_MAX:
            self.remove(session.key)
            raise ShareSessionLimitReached(f"all share sessions have {PARTITIONS_MAX} partitions already")

    def use(self, key: MemberKey, epoch: int, owner: object = None) -> ShareSession:
        """Return the member's session for a request with `epoch`, which is not EPOCH_NEW.

        Args:
            owner: the principal of the client.

        Raises: ShareSessionNotFound. InvalidShareSessionEpoch: expected another.
        """
        session = self._sessions.get(key)
        if session is None or session.owner != owner:
            raise _unknown(key)
        if epoch == EPOCH_FINAL:
            return session
        if session.epoch != epoch:
            raise InvalidShareSessionEpoch(
                f"share session of member {key.member_id!r}: expected epoch {session.epoch}, found {epoch}"
            )
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        return session

    def remove(self, key: MemberKey) -> ShareSession | None:
        """End a session; return it, or None."""
        session = self._sessions.pop(key, None)
        if session is not None:
            self._partition_count -= len(session.partitions)
            keys = self._by_connection.get(session.connection)
            if keys is not None:
                keys.discard(key)
                if not keys:
                    del self._by_connection[session.connection]
        return session

    def of_connection(self, connection: object) -> list[ShareSession]:
        """Return the sessions that began on a connection."""
        return [self._sessions[key] for key in self._by_connection.get(connection, ())]


def _unknown(key: MemberKey) -> ShareSessionNotFound:
    return ShareSessionNotFound(f"member {key.member_id!r} of group {key.group!r} has no share session")


def check_member(group: str | None, member_id: str | None, id_length_max: int = 1000) -> MemberKey:
    """Return the key of a member. Raises InvalidRequest: an empty name, or one that is too long."""
    for what, name in (("group id", group), ("member id", member_id)):
        if not name or len(name) > id_length_max:
            raise InvalidRequest(f"expected a {what} of 1 to {id_length_max} characters, found {str(name)[:80]!r}")
    assert group is not None
    assert member_id is not None
    return MemberKey(group, member_id)
