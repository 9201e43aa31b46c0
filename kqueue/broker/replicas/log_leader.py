"""A leader's work for its followers: to serve their fetches, and to know their log starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kqueue.base.errors import NotLeader, OffsetOutOfRange
from kqueue.broker.replicas.partition_host import PartitionRead
from kqueue.log.formats.leader_epochs import EpochEndOffset
from kqueue.replication.leader_replica import ReplicaFetch

if TYPE_CHECKING:
    from kqueue.broker.replicas.high_watermark import HighWatermark
    from kqueue.broker.replicas.partition_host import PartitionHost
    from kqueue.broker.replicas.replica import Replica
    from kqueue.log.log import Log


class LedPartition(Protocol):
    """The calls of a partition that serve its followers; see `Partition`."""

    topic: str
    index: int
    replica: Replica
    watermark: HighWatermark

    @property
    def log(self) -> Log:
        """The log, opened on first use."""

    def check_leader(self) -> None:
        """Raises NotLeader."""

    def check_leader_epoch(self, epoch: int) -> None:
        """Raises FencedLeaderEpoch, UnknownLeaderEpoch."""

    def epoch_end(self, epoch: int) -> EpochEndOffset:
        """Return where `epoch` ends."""

    def own_end_moved(self, log: Log) -> None:
        """Advance the high watermark as far as all in-sync replicas have the log."""


class LogLeader:
    """A partition's log as its followers see it; made by `Partition.lead` for one request."""

    __slots__ = ("_host", "_partition")

    def __init__(self, partition: LedPartition, host: PartitionHost) -> None:
        self._partition = partition
        self._host = host

    def fetch(
        self, fetch: ReplicaFetch, max_bytes: int, *, min_one_batch: bool = True
    ) -> PartitionRead | EpochEndOffset:
        """Serve a follower: whole batches from its log end on, up to ours (rules 15 to 17).

        Returns: an EpochEndOffset: the logs differ from there on; the follower truncates.
            Of a read: as `Partition.read`; repeat the call after the check of `fetched.check`.
        Raises: FencedLeaderEpoch, UnknownLeaderEpoch. NotLeader: this broker does not lead, or the
            other one has no replica, or a newer life. OffsetOutOfRange: below the log start, or
            beyond the end. StorageFailed.
        """
        partition, host = self._partition, self._host
        # The epoch first, as for consumers: a follower of another epoch learns that, not who leads.
        partition.check_leader_epoch(fetch.leader_epoch)
        partition.check_leader()
        log = partition.log
        leadership = partition.replica.leadership
        if leadership is None:
            raise NotLeader(f"{partition.topic}-{partition.index} has no other replicas")
        start, epoch_end = log.start_offset, partition.epoch_end
        # Where the logs differ besides, that comes first: `fetched` below answers with it.
        if fetch.offset < start and not leadership.diverging(fetch.offset, fetch.last_epoch, epoch_end):
            raise OffsetOutOfRange(
                f"{partition.topic}-{partition.index} starts at {start}, broker {fetch.node_id} fetches {fetch.offset}"
            )
        known = leadership.followers.get(fetch.node_id)
        has_new_start = known is not None and known.log_start != fetch.log_start
        diverging = leadership.fetched(fetch, epoch_end, log.end_offset, host.clock.monotonic_ms())
        if diverging is not None:
            return EpochEndOffset(*diverging)
        if has_new_start:
            # DeleteRecords waits until all followers report a log start at or above the offset.
            host.purgatory.wake(leadership)
        # Before the read: the fetch confirms all below its offset, and the response carries the
        # high watermark that follows from it (rule 22).
        partition.own_end_moved(log)
        host.replicas.isr_may_change(partition)
        fetched = log.read(fetch.offset, max_bytes, end_offset=log.end_offset, min_one_batch=min_one_batch)
        high_watermark = partition.watermark.value
        return PartitionRead(high_watermark, log.last_stable_offset(high_watermark), log.start_offset, fetched)

    @property
    def low_watermark(self) -> int:
        """All records below are deleted at all replicas whose brokers are alive; -1: one has not
        reported its log start yet. The purgatory wakes `Replica.leadership` when a follower's log
        start moves.

        Raises: StorageFailed. NotLeader.
        """
        partition = self._partition
        partition.check_leader()
        start, leadership = partition.log.start_offset, partition.replica.leadership
        if leadership is None:
            return start

        def is_alive(node: int) -> bool:
            broker = self._host.cluster.find(node)
            return broker is not None and not broker.fenced

        return leadership.low_watermark(start, is_alive)
