"""A partition's follower: what it fetches, and which answers it takes: rules 10, 14, 18 to 20.

It touches no log: its caller truncates and appends, and keeps the high watermark. Becoming a
follower truncates nothing (rule 10): the leader's answer says where the logs part. Source: KIP-101,
KIP-279, KIP-320, Kafka's AbstractFetcherThread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kqueue.replication.registrations import PartitionRegistration

UNKNOWN = -1


class FollowerFetch(NamedTuple):
    """One fetch of a partition. `last_epoch`: the newest of the log's epoch cache; -1: none."""

    leader: int
    leader_epoch: int
    offset: int
    last_epoch: int


class Truncation(NamedTuple):
    """The offset at which to cut the log. `is_loss`: committed records are cut, as an unclean
    election does.
    """

    offset: int
    is_loss: bool


class FollowerReplica:
    """A follower of one leader in one leader epoch; a newer registration is `applied`.

    Attributes:
        leader: node id; -1: there is none, nothing is fetched.
        leader_epoch: sent with each fetch.
    """

    __slots__ = ("_outstanding", "leader", "leader_epoch")

    def __init__(self, registration: PartitionRegistration) -> None:
        self.leader = registration.leader
        self.leader_epoch = registration.leader_epoch
        self._outstanding: FollowerFetch | None = None

    def applied(self, registration: PartitionRegistration) -> None:
        """Take over a registration; an answer from before it is not accepted any more if the
        leader or its epoch changed.
        """
        if (registration.leader, registration.leader_epoch) != (self.leader, self.leader_epoch):
            self.leader, self.leader_epoch = registration.leader, registration.leader_epoch
            self._outstanding = None

    def next_fetch(self, log_end: int, last_epoch: int) -> FollowerFetch:
        """Return what to fetch (rule 14); it replaces an earlier fetch, whose answer is void.

        The caller has flushed the log up to `log_end` where a follower must (rule 21), and keeps
        the object with the request: it identifies the answer.
        """
        self._outstanding = FollowerFetch(self.leader, self.leader_epoch, log_end, last_epoch)
        return self._outstanding

    def accepts(self, fetch: FollowerFetch, log_end: int, last_epoch: int) -> bool:
        """Whether the answer to `fetch` may be used: rule 18. At most once for each fetch.

        It is the outstanding one, the very object that `next_fetch` returned, and the log has not
        changed since.
        """
        if fetch is not self._outstanding:
            return False
        self._outstanding = None
        # The epoch too: after a truncation and new batches the log may end at the same offset with
        # other records.
        return fetch.offset == log_end and fetch.last_epoch == last_epoch

    def abandon(self, fetch: FollowerFetch) -> None:
        """No answer to `fetch` will come."""
        if fetch is self._outstanding:
            self._outstanding = None

    def truncation(
        self,
        diverging: tuple[int, int],
        end_of_epoch: Callable[[int], tuple[int, int]],
        log_end: int,
        high_watermark: int,
    ) -> Truncation:
        """Return where to cut after the answer `diverging` (epoch, end offset): rule 19.

        The caller cuts log and epoch cache there, lowers its high watermark to the new end, and
        fetches again.

        Args: end_of_epoch: of the follower's log, as in `LeaderReplica.fetched`.
        """
        epoch, end = diverging
        _, own_end = end_of_epoch(epoch)
        # The smaller of both ends: up to there both logs have this epoch. Behind it the follower
        # has other epochs, which the next fetch compares.
        offset = min(max(end, 0), log_end if own_end == UNKNOWN else min(own_end, log_end))
        return Truncation(offset, offset < high_watermark)

    def high_watermark(self, leaders: int, log_end: int, own: int) -> int:
        """Return the follower's high watermark after an append: rule 20. It never goes back."""
        return max(own, min(leaders, log_end))
