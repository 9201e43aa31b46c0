"""The surroundings of a partition: what all partitions of a broker share, the gate of its topic's
backlog, and what its reads return.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kqueue.broker.replicas.append_queue import AppendScheduler
from kqueue.broker.replicas.flush_gathering import FlushGathering
from kqueue.broker.replicas.flush_meter import FlushMeter
from kqueue.broker.replicas.refused_batches import RefusedBatches
from kqueue.broker.replicas.replica import SoleReplica
from kqueue.log.results import ReadResult, TieredReadResult, TimestampAndOffset

if TYPE_CHECKING:
    from kqueue.base.config import Config
    from kqueue.base.errors import KqueueError
    from kqueue.broker.metadata.brokers import Cluster
    from kqueue.broker.replicas.replica_events import ReplicaEvents
    from kqueue.broker.scheduler import Scheduler
    from kqueue.log.log import Log
    from kqueue.log.log_cut import LogCut, RestartState

    TimeResult = TimestampAndOffset | KqueueError | None


class ReplicaHost(Protocol):
    """The part of its broker that a replica uses; all but the first two only in a cluster."""

    def open_log(self, topic: str, index: int) -> Log:
        """Open the log of a partition. Raises StorageFailed, LogRecovering."""

    def is_recovering(self, topic: str, index: int) -> bool:
        """Whether the log of a partition is being recovered."""

    def may_lead(self) -> bool:
        """Whether this broker is unfenced in its present session; else it leads nothing."""

    def min_isr(self, topic: str) -> int:
        """Return `min.insync.replicas` of a topic."""

    def high_watermark(self, topic: str, index: int) -> int:
        """Return the high watermark that was checkpointed last; 0: none."""

    def isr_may_change(self, partition: Any) -> None:
        """A follower's fetch was recorded, or this broker begins to lead."""

    def log_failed(self, partition: Any) -> None:
        """The log is read-only or offline, or can't be opened."""

    def open_soon(self, partition: Any) -> None:
        """Open the log of a partition in a later turn, because this broker leads it now."""

    def cut_log(self, partition: Any, cut: LogCut, done: Callable[[KqueueError | None], None]) -> None:
        """Cut the log of a follower in a job, then call `done`; see `Replicas.cut_log`."""

    def drop_below_start(self, partition: Any) -> None:
        """Drop the segments of a follower that are wholly below the log start."""

    def drop(self, partition: Any) -> None:
        """Delete the log of a partition of which this broker has no replica any more."""

    def delete_log(self, partition: Any) -> None:
        """Delete the log of a partition, whose next use makes an empty one."""


class Tier(Protocol):
    """The tiered storage of a broker, as its partitions use it; see `broker.tier`."""

    @property
    def wait_ms(self) -> int:
        """The longest wait of a fetch for a read of the tier."""

    def find(
        self, partition: Any, offset: int, max_bytes: int, *, read_committed: bool, min_one_batch: bool
    ) -> TieredReadResult | None:
        """Return what was read from `offset` on; None: no read has ended, or its result is gone.

        Raises: the error of the read.
        """

    def start_read(self, partition: Any, offset: int, max_bytes: int, *, read_committed: bool) -> None:
        """Read in a job, unless that is under way; its end wakes the partition."""

    def find_time(self, partition: Any, timestamp: int, end_offset: int, done: Callable[[TimeResult], None]) -> None:
        """Find the first record in the tier at or after `timestamp` (ms) below `end_offset`, in a
        job; then call `done` with it, None, or an error.
        """

    def check_open(self, topic: str, index: int) -> None:
        """Raises: LogRecovering: it is not known yet whether the tier has this partition, of which
        nothing is here.
        """

    def log_was_cut(self, partition: Any) -> None:
        """Records of a follower were removed: what was read for its clients may be of these."""

    def log_given_up(self, partition: Any) -> None:
        """The log of a partition was cut in part, and is to be recovered from its files."""

    def restart_state(self, partition: Any, offset: int, done: Callable[[RestartState | KqueueError], None]) -> None:
        """Find the state with which a follower goes on at `offset`, its leader's local log start;
        then call `done` with it, or with an error.
        """


class PartitionHost:
    """The parts that the partitions of one broker share.

    Attributes:
        sole_replica: the replica of each partition, in a single broker.
        replicas: the upkeep of replicas; `Replicas` sets it before a log is opened.
        replica_events: subscribers, in the order in which they are called.
        flush_before_visible: group mode.
        flush_by_policy: kafka mode. Memory has neither.
        verify_reads: verify checksums of data that was on disk at the start, before its first read.
        flush_meter: while metrics are exported.
        tier: None: there is no tiered storage.
    """

    replicas: ReplicaHost

    def __init__(self, config: Config, cluster: Cluster, scheduler: Scheduler) -> None:
        self.clock, self.timers, self.jobs = scheduler.clock, scheduler.timers, scheduler.jobs
        self.purgatory = scheduler.purgatory
        self.gathering = FlushGathering(self.purgatory)
        self.node_id, self.cluster = cluster.node_id, cluster
        self.append_scheduler = AppendScheduler(self.purgatory, self.jobs, self.clock)
        self.refused_batches = RefusedBatches()
        self.sole_replica = SoleReplica(self.node_id)
        self.replica_events: list[ReplicaEvents[Any]] = []
        on_disk = config["kqueue.storage"] != "memory"  # memory has nothing to flush
        self.flush_before_visible = on_disk and config["kqueue.flush"] == "group"
        self.flush_by_policy = on_disk and not self.flush_before_visible
        self.verify_reads = bool(config["kqueue.verify.reads"])
        self.flush_meter: FlushMeter | None = None
        self.tier: Tier | None = None


class BacklogGate(Protocol):
    """Counts a partition's unread records, and may refuse appends; see `broker.upkeep.backlog`."""

    @property
    def is_exceeded(self) -> bool:
        """Whether `check` may refuse."""

    def check(self) -> None:
        """Raises PolicyViolation: nothing may be appended now."""

    def throttle_ms(self) -> int:
        """The wait of the producer of the last append; 0: none."""

    def opened(self, log: Log) -> None:
        """The partition's log was opened."""

    def appended(self, end_offset: int, size: int) -> None:
        """A batch of `size` bytes was appended."""

    def start_moved(self) -> None:
        """The log start was raised."""


class PartitionRead(NamedTuple):
    """Result of a read: current watermarks, and whole batches below the bound of the isolation
    level.
    """

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    fetched: ReadResult
