"""Opens, cuts and deletes the logs of replicas in a cluster, as `ReplicaHost` asks.

A cut goes through four steps, each begun by the end of the one before: the log is locked, its
recovery point is written, a job cuts it, and it is used again. Until then a deletion of the log
waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from kqueue.base.errors import KqueueError, StorageFailed, StorageUnavailable
from kqueue.base.jobs import IoJob
from kqueue.broker.cluster.partition_changes import PartitionChanges
from kqueue.broker.metadata.broker_metadata import BrokerMetadata
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.replicas.partition_host import PartitionHost
from kqueue.broker.scheduler import Scheduler
from kqueue.broker.topics.topics import Topics
from kqueue.broker.upkeep.log_upkeep import LogUpkeep
from kqueue.log.log import Log
from kqueue.log.log_cut import LogCut
from kqueue.log.manager import LogManager

SLICE_MS = 5.0
"""So long logs are opened in one turn."""


class Replicas:
    """Opens, cuts and deletes the logs of replicas. Belongs to the owner thread.

    Attributes:
        host: what all partitions share.
        changes: of replicas and leaders, which clients ask for.
        on_isr_progress: called with a partition whose in-sync set may change.
        on_log_failed: called with a partition whose log is read-only, offline, or can't be opened.
        may_lead: returns whether this broker is unfenced in its present session.
    """

    def __init__(
        self,
        host: PartitionHost,
        topics: Topics,
        logs: LogManager,
        upkeep: LogUpkeep,
        metadata: BrokerMetadata,
        scheduler: Scheduler,
    ) -> None:
        self.host = host
        host.replicas = self
        self.changes = PartitionChanges(topics, metadata.cache, metadata.cluster, scheduler.slices)
        self._topics = topics
        self._logs = logs
        self._folders = upkeep.folders
        self._recovery = upkeep.recovery
        self._moves = upkeep.moves
        self._cleanup = upkeep.cleanup
        self._purgatory = scheduler.purgatory
        self._clock = scheduler.clock
        self._jobs = scheduler.jobs
        self._to_open: deque[Partition] = deque()
        self.on_isr_progress: Callable[[Partition], None] = _ignore
        self.on_log_failed: Callable[[Partition], None] = _ignore
        self.may_lead: Callable[[], bool] = _always

    def open_log(self, topic: str, index: int) -> Log:
        """Open the log of a partition, for `Partition` only.

        Raises: StorageFailed. LogRecovering.
        """
        if self.host.tier is not None:
            self.host.tier.check_open(topic, index)
        return self._folders.open_log(topic, index)

    def is_recovering(self, topic: str, index: int) -> bool:
        """Whether the log of a partition is being recovered."""
        return self._recovery.is_pending(topic, index)

    def review_leaders(self) -> None:
        """Begin or cease to lead what this broker is registered as leader of: see `may_lead`."""
        for topic in self._topics:
            for partition in topic.partitions:
                partition.review_leader()

    def min_isr(self, topic: str) -> int:
        """Return `min.insync.replicas` of a topic."""
        return int(self._topics.get(topic).config["min.insync.replicas"])

    def high_watermark(self, topic: str, index: int) -> int:
        """Return the high watermark that was checkpointed last; 0: none."""
        return self._logs.checkpoints.high_watermark((topic, index))

    def isr_may_change(self, partition: Partition) -> None:
        """A follower's fetch was recorded, or this broker begins to lead."""
        self.on_isr_progress(partition)

    def open_soon(self, partition: Partition) -> None:
        """Open the log of a partition in a later turn, because this broker leads it now."""
        self._to_open.append(partition)
        if len(self._to_open) == 1:
            self._purgatory.run_in_later_turn(self._open_some)

    def _open_some(self) -> None:
        until_ms = self._clock.monotonic_ms() + SLICE_MS
        while self._to_open:
            partition = self._to_open.popleft()
            try:
                if partition.is_leader and not partition.deleted:
                    partition.log  # noqa: B018  opening it begins to lead
            except KqueueError as error:  # its requests say why, or a recovery ends first
                if isinstance(error, StorageFailed) and not isinstance(error, StorageUnavailable):
                    self.log_failed(partition)
            if self._to_open and self._clock.monotonic_ms() >= until_ms:
                self._purgatory.run_in_later_turn(self._open_some)
                return

    def log_failed(self, partition: Partition) -> None:
        """The log is read-only or offline, or can't be opened."""
        self.on_log_failed(partition)

    def cut_log(self, partition: Partition, cut: LogCut, done: Callable[[KqueueError | None], None]) -> None:
        """Cut the log of a follower in a job, then call `done(error or None)`.

        What is under way with its records is forgotten, and a deletion waits for the end.
        Durability: see `LogCut`. Errors: StorageUnavailable: there was no room; the log is as it
            was where the recovery point could not be written, else it is being recovered.
            StorageFailed: it is offline.
        """
        # A copy to another data folder has the records that are cut now.
        self._moves.forget(partition)
        key = topic, index = partition.topic, partition.index

        def saved(error: BaseException | None) -> None:
            if error is None:
                self._jobs.submit(IoJob(f"cut {cut.log.folder}", cut.run, finish, cut.log.storage.location))
                return
            cut.cancel()
            end(error if isinstance(error, KqueueError) else StorageFailed(f"{partition!r}: {error!r}"))

        def finish(_: None, error: BaseException | None) -> None:
            failure = cut.end(error)
            if isinstance(failure, StorageUnavailable):
                self._give_up_log(partition)
                end(failure, recovers=partition)
            elif failure is None and cut.restarts:
                self._save_start(partition, cut.log, end)
            else:
                end(failure)

        def end(error: KqueueError | None, recovers: Partition | None = None) -> None:
            # Before the release: a deletion that waited must find the log in use again, not locked.
            done(error)
            self._recovery.release(topic, index, recovers)

        # The recovery point is on disk before the log is cut: a start after a crash would report as
        # lost what was cut, and go on at the old recovery point. Before a restart the log start is
        # too: that of a tiered log is below its first segment, so no file besides tells it.
        self._recovery.hold(topic, index)
        cut.begin()
        self._logs.checkpoints.note_offsets(key)
        cut.lock()
        checkpoints = self._logs.checkpoints
        (checkpoints.save_log_starts if cut.restarts else checkpoints.save_recovery_point)(key, saved)

    def _save_start(self, partition: Partition, log: Log, end: Callable[[KqueueError | None], None]) -> None:
        """Write where a log starts that has restarted, before it is used; then call `end`.

        With the start from before the cut, a leader would miss in the tier what was deleted. A
        failed write is logged, and repeated at intervals.
        """
        key, checkpoints = (partition.topic, partition.index), self._logs.checkpoints
        checkpoints.note_offsets(key)
        log.health.suspend(StorageUnavailable(f"{log.folder} restarts: try again"))

        def saved(_: BaseException | None) -> None:
            log.health.resume()
            end(log.health.failure)

        checkpoints.save_log_starts(key, saved)

    def _give_up_log(self, partition: Partition) -> None:
        """Let the log be recovered from its files: what it has in memory is that of neither side of
        a cut that found no room.
        """
        partition.detach_log()
        self._logs.give_up(partition.topic, partition.index)
        if self.host.tier is not None:
            self.host.tier.log_given_up(partition)

    def drop_below_start(self, partition: Partition) -> None:
        """Drop the segments of a follower that are wholly below the log start."""
        topic = self._topics.find(partition.topic)
        if topic is not None:
            self._cleanup.drop_below_start(partition, topic)

    def drop(self, partition: Partition) -> None:
        """Delete the log of a partition of which this broker has no replica any more.

        Durability: as `LogManager.delete`; the next start deletes what remains.
        """
        key = (partition.topic, partition.index)
        self._recovery.drop([key], lambda: self._drop(partition))

    def _drop(self, partition: Partition) -> None:
        if not partition.deleted and not partition.has_replica:
            self.delete_log(partition)

    def delete_log(self, partition: Partition) -> None:
        """Delete the log of a partition, whose next use makes an empty one.

        Durability: as `drop`.
        """
        self._moves.forget(partition)
        partition.detach_log()
        self._logs.delete(partition.topic, partition.index)
        self._cleanup.forget(partition)


def _ignore(partition: Partition) -> None:
    pass


def _always() -> bool:
    return True
