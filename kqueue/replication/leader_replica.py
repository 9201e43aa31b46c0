"""A partition's leader: what it knows of its followers, and the in-sync set that it proposes.

Rules 9, 11 to 17 and 22 to 29. One object lives as long as the broker leads in one leader epoch.
Its caller, in this order, when the broker becomes leader: assigns the epoch to the log's epoch
cache at the log end (so that rule 16 knows where older epochs end), then makes the object. A broker
leads only while its registration is unfenced: one that has just registered, and may have lost
records, still is in in-sync sets of its former life. Source: KIP-101, KIP-279, KIP-903, KIP-966,
Kafka's Partition and Replica.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kqueue.base.errors import (
    FencedLeaderEpoch,
    NotLeader,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from kqueue.replication.elections import effective_min_isr, raise_epochs, with_isr
from kqueue.replication.registrations import BrokerRegistration, PartitionRegistration

UNKNOWN = -1
NEVER = float("-inf")


class ReplicaFetch(NamedTuple):
    """A follower's fetch of one partition (rule 14).

    Attributes:
        node_id, broker_epoch: the follower's.
        leader_epoch: in which it fetches.
        offset: its log end.
        last_epoch: the newest of its log's epoch cache; -1: it has none.
        log_start: of its log; -1: not told.
    """

    node_id: int
    broker_epoch: int
    leader_epoch: int
    offset: int
    last_epoch: int = UNKNOWN
    log_start: int = UNKNOWN


class IsrProposal(NamedTuple):
    """A change of the in-sync set for the store (rule 26). See `accept_proposal`.

    Attributes:
        added: broker epoch by node id, of the members that are new.
        lagging: by node id, of the members that leave: milliseconds since it was caught up.
    """

    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    added: Mapping[int, int]
    lagging: Mapping[int, float] = {}


class FollowerState:
    """A follower, as its fetches show it. `leo`, `log_start`: -1: it has not fetched in this leader
    epoch.
    """

    __slots__ = ("broker_epoch", "fetched_end", "fetched_ms", "last_caught_up_ms", "leo", "log_start")

    def __init__(self, last_caught_up_ms: float) -> None:
        self.leo = UNKNOWN
        self.log_start = UNKNOWN
        self.broker_epoch = UNKNOWN
        self.last_caught_up_ms = last_caught_up_ms
        self.fetched_ms = NEVER
        self.fetched_end = 0  # the leader's log end at that fetch

    def fetched(self, fetch: ReplicaFetch, log_end: int, now_ms: float) -> None:
        """Record a fetch. The follower was caught up when it asked for the then log end or more."""
        if fetch.offset >= log_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        # It has all that was there at its last fetch. On a busy log it never reaches the present
        # end.
        elif fetch.offset >= self.fetched_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.fetched_ms)
        self.leo, self.broker_epoch, self.log_start = fetch.offset, fetch.broker_epoch, fetch.log_start
        self.fetched_ms, self.fetched_end = now_ms, log_end


class LeaderReplica:
    """A leader in one leader epoch (rule 9).

    Args:
        leo: log end when it was elected.
        high_watermark: its own as a follower; at most `leo`.
        now_ms: time of any clock that does not go back.

    Attributes:
        registration: the newest one that was applied.
        leso: log end when it was elected. ListOffsets waits for a high watermark that reaches it
            (rule 23).
        maximal_isr: the in-sync set, and members that may be in it soon (rule 26).
        followers: by node id, of all other replicas.
        high_watermark: never goes back.
    """

    __slots__ = (
        "_node_id",
        "_pending",
        "_uncertain",
        "followers",
        "high_watermark",
        "leso",
        "maximal_isr",
        "registration",
    )

    def __init__(
        self, node_id: int, registration: PartitionRegistration, leo: int, high_watermark: int, now_ms: float
    ) -> None:
        self._node_id = node_id
        self.registration = registration
        self.leso = leo
        self.high_watermark = min(high_watermark, leo)
        # At least what the store has: the controller may elect any of these.
        self.maximal_isr = frozenset(registration.isr)
        self._pending: IsrProposal | None = None
        self._uncertain: frozenset[int] = frozenset()  # of proposals whose outcome is unknown
        self.followers = {
            # Members of the set get the whole `replica.lag.time.max.ms` to show up; a new leader
            # has seen no fetch, and would throw out all of them.
            node: FollowerState(now_ms if node in registration.isr else NEVER)
            for node in registration.replicas
            if node != node_id
        }

    @property
    def leader_epoch(self) -> int:
        """The epoch that batches are stamped with."""
        return self.registration.leader_epoch

    # --- appends

    def is_under_min_isr(self, min_isr: int) -> bool:
        """Whether the in-sync set is too small to commit; appends with acks=all are refused
        (rule 11), waiting ones fail (rule 13).
        """
        return len(self.registration.isr) < effective_min_isr(self.registration, min_isr)

    # --- fetches of followers

    def check_epoch(self, leader_epoch: int) -> None:
        """Check the leader epoch of a request: rule 15. -1: it has none.

        Raises: FencedLeaderEpoch: an older one. UnknownLeaderEpoch: a newer one.
        """
        if leader_epoch == UNKNOWN or leader_epoch == self.leader_epoch:
            return
        error = FencedLeaderEpoch if leader_epoch < self.leader_epoch else UnknownLeaderEpoch
        raise error(f"the request is of leader epoch {leader_epoch}, this leader of {self.leader_epoch}")

    def fetched(
        self, fetch: ReplicaFetch, end_of_epoch: Callable[[int], tuple[int, int]], log_end: int, now_ms: float
    ) -> tuple[int, int] | None:
        """Record a follower's fetch: rules 15 to 17.

        Args:
            end_of_epoch: returns (epoch, end offset) of the largest epoch of the leader's log that
                is not above the one given; an epoch of -1: unknown.
            log_end: of the leader's log, flushed or not.

        Returns:
            The (epoch, end offset) from which on the logs differ, and nothing is recorded; None:
            they agree so far, and batches can be read from `fetch.offset` on.
        Raises:
            FencedLeaderEpoch, UnknownLeaderEpoch: another leader epoch.
            NotLeader: the broker is no replica, or the fetch is of its former broker epoch.
            OffsetOutOfRange: beyond the log end, or of an epoch that the leader can't place.
        """
        self.check_epoch(fetch.leader_epoch)
        follower = self.followers.get(fetch.node_id)
        if follower is None:
            raise NotLeader(f"broker {fetch.node_id} is no replica of the partition: {self.registration.replicas}")
        # Rule 15. A fetch of the follower's former life, delayed by the network, would claim a log
        # end that it may have lost since.
        if fetch.broker_epoch < follower.broker_epoch:
            raise NotLeader(
                f"the fetch is of broker epoch {fetch.broker_epoch} of broker {fetch.node_id}; "
                f"it has fetched with {follower.broker_epoch} since"
            )
        diverging = self.diverging(fetch.offset, fetch.last_epoch, end_of_epoch)
        if diverging is not None:
            return diverging
        if fetch.offset > log_end:
            raise OffsetOutOfRange(f"offset {fetch.offset} of broker {fetch.node_id} is beyond the log end {log_end}")
        follower.fetched(fetch, log_end, now_ms)
        return None

    def diverging(
        self, offset: int, last_epoch: int, end_of_epoch: Callable[[int], tuple[int, int]]
    ) -> tuple[int, int] | None:
        """Return (epoch, end offset) from which on a log that ends with `last_epoch` at `offset`
        differs; None: it does not. Rule 16; consumers' fetches are checked with it, too.

        Raises: OffsetOutOfRange: no such epoch is known.
        """
        if last_epoch == UNKNOWN:
            return None
        epoch, end = end_of_epoch(last_epoch)
        if epoch == UNKNOWN or end == UNKNOWN:
            raise OffsetOutOfRange(f"the end of epoch {last_epoch} is unknown to this leader")
        return (epoch, end) if epoch < last_epoch or end < offset else None

    # --- high watermark

    def advance(self, own_leo: int, min_isr: int) -> bool:
        """Raise the high watermark to what all possible members have: rule 22.

        It stays while the in-sync set is below the minimum, and while others outside of it are
        eligible: what is committed without them they must not lead without.

        Args: own_leo: what counts of the leader's log: its end, or its flushed end (rule 21).
        Returns: whether it was raised.
        """
        # Rule 6. An eligible replica outside of the set may be elected, so nothing may be committed
        # that it lacks.
        if self.registration.elr or self.is_under_min_isr(min_isr):
            return False
        end = own_leo
        for node in self.maximal_isr:
            if node != self._node_id:
                # -1 of one that has not fetched in this epoch holds all back: what it has is
                # unknown.
                end = min(end, self.followers[node].leo)
        if end <= self.high_watermark:
            return False
        self.high_watermark = end
        return True

    def low_watermark(self, own_start: int, is_alive: Callable[[int], bool]) -> int:
        """Return the smallest log start of this broker and all followers that are alive: what lies
        below is deleted everywhere. -1: one has not fetched yet.

        Source: KIP-107, Kafka's Partition.lowWatermarkIfLeader.
        """
        starts = [follower.log_start for node, follower in self.followers.items() if is_alive(node)]
        return min([own_start, *starts])

    # --- the in-sync set

    def proposal(
        self, log_end: int, now_ms: float, lag_max_ms: float, min_isr: int, active: Mapping[int, int]
    ) -> IsrProposal | None:
        """Return the change of the in-sync set to commit now: rules 24 to 26; None: none.

        One is in flight until `rejected`, `unknown` or `applied`. Its new members count
        for the high watermark from now on.

        Args:
            active: broker epoch by node id, of the brokers that may join.
        """
        # One at a time (rule 26): the next one would be made from a registration that this one is
        # about to change.
        if self._pending is not None:
            return None
        now = self.registration
        lagging = self._lagging(log_end, now_ms, lag_max_ms)
        added = self._joining(active)
        is_due = lagging or added or self._uncertain or now.recovering
        # Or only to end the ELR of a set that is large enough again, as until then nothing is
        # committed.
        if not is_due and not (now.elr and not self.is_under_min_isr(min_isr)):
            return None
        members = {*now.isr, *added} - lagging.keys()
        isr = tuple(node for node in now.replicas if node in members)
        self._pending = IsrProposal(self._node_id, now.leader_epoch, now.partition_epoch, isr, added, lagging)
        # Those that join count from now on, those that leave until the store has it: the
        # election in between may be of either.
        self.maximal_isr = frozenset(now.isr) | added.keys() | self._uncertain
        return self._pending

    def rejected(self, proposal: IsrProposal) -> None:
        """The store has refused the proposal, and it changes nothing any more: rule 28.

        Nothing happens if it is not the one in flight: a newer registration came in between. New
        members of earlier proposals whose outcome is unknown keep counting: one of these may be
        why this one was refused.
        """
        if proposal is self._pending:
            self._pending = None
            self.maximal_isr = frozenset(self.registration.isr) | self._uncertain

    def unknown(self, proposal: IsrProposal) -> None:
        """Nobody knows whether the proposal was, or still will be, committed: rule 28.

        Its new members keep counting until a newer registration is applied. Until then `proposal`
        returns a proposal in any case: the store takes either, but not both.
        """
        if proposal is self._pending:
            self._uncertain |= proposal.added.keys()
            self._pending = None

    def applied(self, registration: PartitionRegistration, now_ms: float) -> bool:
        """Take over a newer registration of the same leader epoch: rules 8 and 28.

        Returns: whether it was newer. One with another leader epoch needs a new object (rule 9).
        """
        if registration.partition_epoch <= self.registration.partition_epoch:
            return False
        if registration.leader_epoch != self.leader_epoch:
            # What is known of followers ends with the epoch (rule 9): `broker.replicas.replica`
            # makes a new object.
            raise AssertionError(f"epoch {registration.leader_epoch} applied to the leader of {self.leader_epoch}")
        for node in registration.replicas:
            if node != self._node_id and node not in self.followers:
                self.followers[node] = FollowerState(NEVER)
        for node in self.followers.keys() - set(registration.replicas):
            del self.followers[node]
        self.registration = registration
        self._pending = None
        # Settled: the store takes a proposal at its own partition epoch only, and this registration
        # is of a later one (rule 28).
        self._uncertain = frozenset()
        self.maximal_isr = frozenset(registration.isr)
        return True

    def _lagging(self, log_end: int, now_ms: float, lag_max_ms: float) -> dict[int, float]:
        lagging = {}
        for node in self.registration.isr:
            follower = self.followers.get(node)
            # One that is at the log end does not lag, however long ago it asked: nothing was
            # appended since.
            if follower is not None and follower.leo != log_end:
                behind_ms = now_ms - follower.last_caught_up_ms
                if behind_ms > lag_max_ms:
                    lagging[node] = behind_ms
        return lagging

    def _joining(self, active: Mapping[int, int]) -> dict[int, int]:
        # The high watermark of a new leader may lag behind its predecessor's; the log end of the
        # election covers that (rule 25).
        enough = max(self.high_watermark, self.leso)
        return {
            node: follower.broker_epoch
            for node, follower in self.followers.items()
            if follower.leo >= enough
            and node not in self.registration.isr
            # Its fetches and its registration are of the same life (rule 25).
            and active.get(node) == follower.broker_epoch
        }


def accept_proposal(
    partition: PartitionRegistration,
    proposal: IsrProposal,
    brokers: Mapping[int, BrokerRegistration],
    min_isr: int,
) -> PartitionRegistration | None:
    """Return the partition that a proposal makes of the one in the store; None: refuse it.

    Rule 27. The commit guards the topic's record, the records of the added brokers as they are in
    `brokers`, and the session of the leader (its broker epoch). On a conflict read again, and call
    again: the topic's other partitions may have changed.
    """
    if (partition.leader, partition.leader_epoch) != (proposal.leader, proposal.leader_epoch):
        return None
    if partition.partition_epoch != proposal.partition_epoch:
        return None
    for node, epoch in proposal.added.items():
        broker = brokers.get(node)
        if broker is None or broker.epoch != epoch or not broker.is_active or node not in partition.replicas:
            return None
    after = with_isr(partition, proposal.isr, min_isr)._replace(recovering=False)
    # The epoch rises nevertheless: a proposal of unknown outcome is settled by a newer registration
    # only (rule 28).
    if after == partition:
        return partition._replace(partition_epoch=partition.partition_epoch + 1)
    return raise_epochs(partition, after)
