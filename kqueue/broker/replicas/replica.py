"""This broker's replica of a partition: the only one there is, the leader, or a follower.

    SoleReplica         of a single broker: it always leads, and what it has is committed
    LeadingReplica      in a cluster, in one leader epoch: it knows what its followers have
    FollowingReplica    in a cluster: it copies the leader's log, or there is no replica here

A partition asks its replica, and never which of the three it is. In a cluster a registration of the
metadata can end one and begin another: `apply` and `review` return the one in force, and what
changed. A new leader epoch begins a new object, so what a leader knows ends with its epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import ClassVar, NamedTuple, Protocol

from kqueue.base import events
from kqueue.base.errors import FencedLeaderEpoch, NotLeader
from kqueue.broker.replicas.high_watermark import HighWatermark
from kqueue.broker.replicas.replica_metadata import ReplicaMetadata
from kqueue.log.log import Log
from kqueue.replication.leader_replica import LeaderReplica
from kqueue.replication.registrations import NO_LEADER, PartitionRegistration, sole_registration

logger = logging.getLogger("kqueue.broker")


class Change(NamedTuple):
    """A change as it concerns this broker. `leads`: it leads now, or in a new epoch.

    `follows`: another broker leads now, or in a new epoch, or there is no leader, or this
    broker must not lead.
    `removed`: it had a replica.
    """

    leads: bool = False
    follows: bool = False
    removed: bool = False


class Replica(Protocol):
    """The replica of a partition, as the partition uses it. The first three are plain attributes,
    for the hot path.
    """

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads: it is registered as leader, and not fenced."""

    @property
    def leader_epoch(self) -> int:
        """Current leader epoch; appends are stamped with it."""

    @property
    def key(self) -> ReplicaMetadata | None:
        """Key of the purgatory for followers' fetches: woken by each append, and a new role. It
        stays the same as roles change. None: there are no followers.
        """

    @property
    def registration(self) -> PartitionRegistration:
        """Replicas, leader and epochs, as this broker knows them."""

    @property
    def has_replica(self) -> bool:
        """Whether this broker has a replica."""

    @property
    def leadership(self) -> LeaderReplica | None:
        """The state of the followers as this broker knows it; None: it has none, or no open log."""

    # --- changes

    def in_cluster(self, new_metadata: Callable[[], ReplicaMetadata]) -> LeadingReplica | FollowingReplica:
        """Return the replica that takes over registrations: one without a registration, of
        `new_metadata()`, at the first one.
        """

    def review(self, may_lead: bool) -> tuple[Replica, Change]:
        """Begin or cease to lead where the registration names this broker as leader.

        Args: may_lead: see `apply`.
        """

    def set_min_isr(self, read: Callable[[], int]) -> bool:
        """Set the topic's `min.insync.replicas` to `read()`; return whether it changed."""

    # --- checks

    def check_leader(self) -> None:
        """Raises NotLeader: this broker does not lead the partition (rule 10)."""

    def check_follows(self, leader_epoch: int) -> None:
        """Raises FencedLeaderEpoch: this broker does not follow in that epoch any more."""

    def check_in_sync(self) -> None:
        """Check before an append with acks=all. Raises NotEnoughReplicas: rule 11."""

    def check_waiting(self) -> None:
        """Check on behalf of an append that waits to be committed.

        Raises: NotEnoughReplicasAfterAppend: the in-sync set has become too small (rule 13).
        """

    # --- the log

    def committed_end(self, log: Log, checkpointed: Callable[[], int]) -> int:
        """Return the high watermark of a log that was just opened.

        Args: checkpointed: returns the one that was checkpointed last.
        """

    def lead(self, log: Log, high_watermark: int, now_ms: float) -> None:
        """Begin to lead with an open log: rule 9. Does nothing if it leads already, or follows."""

    def log_detached(self) -> None:
        """Forget the leadership; it begins again with the log that is opened next."""

    def advance(self, high_watermark: HighWatermark, own_end: int, /) -> None:
        """Advance the high watermark to `own_end`, as far as the others have it too (rule 22)."""

    def visible_end(self, log: Log) -> int:
        """See `Partition.visible_end`."""


class SoleReplica:
    """The replica of each partition of a single broker. It has no state of a partition, so all
    partitions share one.
    """

    __slots__ = ("leader_epoch", "registration")

    is_leader = has_replica = True
    key = leadership = None
    advance = staticmethod(HighWatermark.advance)  # what it has is committed; bound, as each append asks

    def __init__(self, node_id: int) -> None:
        self.leader_epoch = 0
        self.registration = sole_registration(node_id, 0)

    def begin_epoch(self, leader_epoch: int) -> None:
        """Stamp all appends with a new epoch from now on."""
        self.leader_epoch = leader_epoch
        self.registration = sole_registration(self.registration.leader, leader_epoch)

    def in_cluster(self, new_metadata: Callable[[], ReplicaMetadata]) -> LeadingReplica | FollowingReplica:
        return FollowingReplica(new_metadata())

    def review(self, may_lead: bool) -> tuple[Replica, Change]:
        return self, Change()

    def set_min_isr(self, read: Callable[[], int]) -> bool:
        return False  # one replica is always enough of one

    def check_leader(self) -> None:
        pass

    def check_follows(self, leader_epoch: int) -> None:
        raise FencedLeaderEpoch(f"a single broker follows none, and got an answer of epoch {leader_epoch}")

    def check_in_sync(self) -> None:
        pass

    def check_waiting(self) -> None:
        pass

    def committed_end(self, log: Log, checkpointed: Callable[[], int]) -> int:
        return log.end_offset  # all that recovery kept is flushed, and no other replica can lack it

    def lead(self, log: Log, high_watermark: int, now_ms: float) -> None:
        pass

    def log_detached(self) -> None:
        pass

    def visible_end(self, log: Log) -> int:
        return log.end_offset


class _ClusterReplica:
    """Answers that leader and follower have in common: those of the metadata of the partition."""

    __slots__ = ("key", "leader_epoch")

    is_leader: ClassVar[bool]

    def __init__(self, metadata: ReplicaMetadata) -> None:
        self.key = metadata
        self.leader_epoch = metadata.registration.leader_epoch

    @property
    def registration(self) -> PartitionRegistration:
        return self.key.registration

    @property
    def has_replica(self) -> bool:
        return self.key.has_replica

    def set_min_isr(self, read: Callable[[], int]) -> bool:
        metadata, min_isr = self.key, read()
        if metadata.min_isr == min_isr:
            return False
        metadata.min_isr = min_isr
        metadata.log_too_few(self.is_leader)
        return True

    def check_waiting(self) -> None:
        self.key.check_waiting()

    def committed_end(self, log: Log, checkpointed: Callable[[], int]) -> int:
        # never the log end, which may hold what was not committed (rule 20)
        # But all that only the remote tier has is.
        return max(min(checkpointed(), log.end_offset), log.local_start_offset)


class LeadingReplica(_ClusterReplica):
    """The leader of a partition of a cluster, in one leader epoch.

    Attributes: leadership: None until its log is open.
    """

    __slots__ = ("leadership",)

    is_leader = True

    def __init__(self, metadata: ReplicaMetadata) -> None:
        super().__init__(metadata)
        self.leadership: LeaderReplica | None = None

    def in_cluster(self, new_metadata: Callable[[], ReplicaMetadata]) -> LeadingReplica | FollowingReplica:
        return self

    def review(self, may_lead: bool) -> tuple[Replica, Change]:
        return _settle(self, False, may_lead)

    def check_leader(self) -> None:
        pass

    def check_follows(self, leader_epoch: int) -> None:
        raise _fenced(self.key.name, leader_epoch, self.leader_epoch)

    def check_in_sync(self) -> None:
        self.key.check_in_sync()

    def lead(self, log: Log, high_watermark: int, now_ms: float) -> None:
        if self.leadership is None:
            metadata = self.key
            self.leadership = LeaderReplica(
                metadata.node_id, metadata.registration, log.end_offset, high_watermark, now_ms
            )

    def log_detached(self) -> None:
        # Its ends are those of the log that goes: another one begins elsewhere.
        self.leadership = None

    def advance(self, high_watermark: HighWatermark, own_end: int, /) -> None:
        leadership = self.leadership
        if leadership is not None and leadership.advance(own_end, self.key.min_isr):
            high_watermark.advance(leadership.high_watermark)

    def visible_end(self, log: Log) -> int:
        return 0 if self.leadership is None else self.leadership.leso


class FollowingReplica(_ClusterReplica):
    """A partition of a cluster that this broker does not lead, in one leader epoch.

    It follows another broker, or waits for an election, or is fenced; or it has no replica.
    """

    __slots__ = ()

    is_leader = False
    leadership = None

    def in_cluster(self, new_metadata: Callable[[], ReplicaMetadata]) -> LeadingReplica | FollowingReplica:
        return self

    def review(self, may_lead: bool) -> tuple[Replica, Change]:
        return _settle(self, False, may_lead)

    def check_leader(self) -> None:
        name, leader = self.key.name, self.key.registration.leader
        if leader == self.key.node_id:
            raise NotLeader(f"broker {leader} is registered as leader of {name}, but fenced")
        raise NotLeader(f"{f'broker {leader}' if leader != NO_LEADER else 'no broker'} leads {name}")

    def check_follows(self, leader_epoch: int) -> None:
        if leader_epoch != self.leader_epoch:
            raise _fenced(self.key.name, leader_epoch, self.leader_epoch)

    def check_in_sync(self) -> None:
        pass  # the append says who leads

    def lead(self, log: Log, high_watermark: int, now_ms: float) -> None:
        pass

    def log_detached(self) -> None:
        pass

    def advance(self, high_watermark: HighWatermark, own_end: int, /) -> None:
        pass  # by the leader's answers only: `LogFollower.raise_high_watermark`

    def visible_end(self, log: Log) -> int:
        return 0


def apply(
    replica: LeadingReplica | FollowingReplica,
    registration: PartitionRegistration,
    now_ms: float,
    *,
    may_lead: bool = True,
) -> tuple[LeadingReplica | FollowingReplica, Change] | None:
    """Take over a registration; return the replica in force and the change. None: it is not newer
    (rule 8).

    Args: may_lead: whether this broker is unfenced in its present session. One that is not may be
        registered as leader by a former life, or by a broker that knows of that life only; others
        can lead by now, and its log can lack what it confirmed (rules 1, 2 and 9).
    """
    metadata, old = replica.key, replica.key.registration
    if registration.partition_epoch <= old.partition_epoch:
        return None
    had_replica, metadata.registration = metadata.has_replica, registration
    is_new = (old.leader, old.leader_epoch) != (registration.leader, registration.leader_epoch)
    # Within an epoch the leader keeps what it knows of its followers; a new one begins with nothing
    # (rule 9).
    if not is_new and replica.leadership is not None:
        replica.leadership.applied(registration, now_ms)
    replica, change = _settle(replica, is_new or not had_replica, may_lead)
    return replica, change if metadata.has_replica else Change(removed=had_replica)


def _settle(
    replica: LeadingReplica | FollowingReplica, is_new: bool, may_lead: bool
) -> tuple[LeadingReplica | FollowingReplica, Change]:
    metadata = replica.key
    leads = may_lead and metadata.registration.leader == metadata.node_id
    is_new |= leads != replica.is_leader
    if is_new:
        replica = LeadingReplica(metadata) if leads else FollowingReplica(metadata)
    metadata.log_too_few(leads)
    if is_new and metadata.has_replica:
        events.REPLICA_CHANGED.log(logger, "%s: %s", partition=metadata.name, replica=_description(metadata, leads))
    return replica, Change(leads=is_new and leads, follows=is_new and not leads)


def _description(metadata: ReplicaMetadata, leads: bool) -> str:
    now = metadata.registration
    if leads:
        isr = ", ".join(map(str, now.isr))
        return f"leads in epoch {now.leader_epoch}, in sync: {isr}"
    if now.leader == NO_LEADER:
        return f"no leader in epoch {now.leader_epoch}"
    if now.leader == metadata.node_id:
        return f"does not lead in epoch {now.leader_epoch} while this broker is fenced"
    return f"follows broker {now.leader} in epoch {now.leader_epoch}"


def _fenced(name: str, leader_epoch: int, current: int) -> FencedLeaderEpoch:
    return FencedLeaderEpoch(f"{name}: an answer of epoch {leader_epoch} came in epoch {current}")
