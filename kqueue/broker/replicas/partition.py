"""A partition at this broker: log, high watermark, and the delayed operations that it wakes.

Durability: in group mode the high watermark never passes the flushed offset. All that a consumer
read, or a producer got confirmed with acks=all or 1, survives a power cut; records sent with acks=0
may be lost. In kafka mode the high watermark is the log end; the operating system writes at
its own time, or as `flush.messages` and `flush.ms` say. The leader's log is the only replica.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable
from typing import TYPE_CHECKING

from kqueue.base.errors import (
    KqueueError,
    NotLeader,
    OffsetOutOfRange,
    OutOfOrderSequence,
    StorageFailed,
    UnknownTopicOrPartition,
)
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.base.timers import Timer
from kqueue.broker.replicas.append_queue import AppendQueue
from kqueue.broker.replicas.partition_host import PartitionRead
from kqueue.broker.replicas.partition_replica import PartitionReplica
from kqueue.log.config import LogConfig
from kqueue.log.formats.leader_epochs import EpochEndOffset
from kqueue.log.log import Log
from kqueue.log.log_state import LogState
from kqueue.log.recovery.read_verification import VerificationTask
from kqueue.log.results import AppendResult, ReadResult
from kqueue.records.batch import BatchHeader

if TYPE_CHECKING:
    from kqueue.broker.replicas.partition_host import BacklogGate, PartitionHost

FLUSH_NEVER_MS = 2**63 - 1
FLUSH_AGAIN_MS = 100
"""A flush that could not open its files is retried after this time, or at the next append."""


class PartitionState(enum.Enum):
    """Whether a partition serves.

    RECOVERING: its log is being recovered after a crash; requests get NOT_LEADER_OR_FOLLOWER, and
        metadata names no leader. It becomes ONLINE, or its log is refused with the error.
    ONLINE: its log is open, or opens at its first use.
    OFFLINE: its log failed (`LogState.OFFLINE`), until the next start.
    """

    RECOVERING = "recovering"
    ONLINE = "online"
    OFFLINE = "offline"


class Partition(PartitionReplica):
    """One partition.

    It is itself a key of the purgatory, woken when the high watermark moves, the log fails, or the
    partition is deleted.
    """

    __slots__ = ("_after_flush", "_flush_due", "_flush_timer", "appends", "deleted")

    def __init__(self, topic: str, index: int, host: PartitionHost) -> None:
        super().__init__(topic, index, host)
        self.deleted = False
        self._flush_due = False
        self._flush_timer: Timer | None = None
        self._after_flush: tuple[tuple[int, Callable[[], None]], ...] = ()  # nearly always empty: a shared tuple
        self.appends: AppendQueue | None = None  # deferred appends; later ones queue behind them

    def __repr__(self) -> str:
        return f"Partition({self._topic}-{self.index})"

    @property
    def is_offline(self) -> bool:
        """Whether nothing of the log is served: it failed, or it is not recovered yet."""
        return self.state is not PartitionState.ONLINE

    @property
    def is_open(self) -> bool:
        """Whether the log is open; else there is nothing to flush or close."""
        return self._log is not None

    @property
    def state(self) -> PartitionState:
        """Whether the partition serves; opens nothing."""
        if self._log is not None:
            return PartitionState.OFFLINE if self._log.health.state is LogState.OFFLINE else PartitionState.ONLINE
        is_recovering = self._host.is_recovering(self._topic, self.index)
        return PartitionState.RECOVERING if is_recovering else PartitionState.ONLINE

    @property
    def log(self) -> Log:
        """The log, opened on first use.

        Raises: StorageFailed. LogRecovering: a crash came before, and it is not recovered yet.
            UnknownTopicOrPartition: deleted. NotLeader: this broker has no replica.
        """
        if self._log is None:
            if self.deleted:
                raise UnknownTopicOrPartition(f"partition {self._topic}-{self.index} was deleted")
            self._check_replica()
            log = self._host.open_log(self._topic, self.index)
            self._attach(log)
            if self._role is None:  # the only replica: all that recovery kept is flushed and committed
                self._high_watermark = log.end_offset
            else:
                self._opened(log)
            if self.backlog is not None:
                self.backlog.opened(log)
            return log
        return self._log

    def _attach(self, log: Log) -> None:
        log.on_flushed = self._flushed
        log.defers_rolls = self._host.flush_before_visible or self._host.flush_by_policy
        if not self._host.verify_reads:
            log.reader.disable_verification()
        self._log = log

    def use_log(self, log: Log) -> None:
        """Use `log`, which holds the same records and is flushed, instead of the present one."""
        self._attach(log)
        self._own_end_moved(log)
        self._host.purgatory.wake(self)
        self._call_after_flush()

    @property
    def high_watermark(self) -> int:
        """Offset after the last record that consumers may read; never goes back."""
        self.log  # noqa: B018  opening sets it
        return self._high_watermark

    @property
    def readable_end(self) -> int:
        """The high watermark, in a read-only log at most its flushed offset. Raises StorageFailed:
        offline.
        """
        return min(self.high_watermark, self.log.readable_end)

    @property
    def last_stable_offset(self) -> int:
        """First offset of an open transaction, else the high watermark: the bound of
        read_committed.
        """
        return self.log.last_stable_offset(self._high_watermark)

    @property
    def log_start_offset(self) -> int:
        """First offset of the log. Raises StorageFailed."""
        return self.log.start_offset

    @property
    def log_end_offset(self) -> int:
        """Offset after the last appended record. Raises StorageFailed."""
        return self.log.end_offset

    def epoch_end(self, epoch: int) -> EpochEndOffset:
        """Return where `epoch` ends, as `LeaderEpochCache.end_offset_for`.

        The current epoch counts as begun at the log end until its first append. So an older epoch
        has an end even if the log has no epoch left, because all its records are deleted: else
        clients would reset their positions. Source: Kafka's Partition.makeLeader.
        """
        log = self.log
        latest = log.epochs.latest
        if not latest < epoch <= self.leader_epoch:
            return log.epochs.end_offset_for(epoch, log.end_offset)
        is_known = epoch < self.leader_epoch and latest >= 0
        return EpochEndOffset(latest if is_known else epoch, log.end_offset)

    def append(
        self, batch: memoryview, header: BatchHeader, *, client: bool = True, admitted: bool = False
    ) -> AppendResult:
        """Append one validated batch; writes offsets and leader epoch into `batch`.

        Args: admitted: another batch of the request was appended, so the backlog is not checked.
        Durability: in the page cache on return; on disk once `is_flushed` (group mode).
        Raises: what `Log.append` raises. PolicyViolation: the topic's backlog has reached a bound.
            NotLeader: also where a batch before this one was refused so; see `refused_batches`.
        """
        role = self._role
        try:
            epoch = self._host.leader_epoch if role is None else role.leading_epoch()
            log, backlog = self.log, self.backlog
        except NotLeader:
            self._host.refused_batches.note(self, header)
            raise
        if self.moving is not None:
            raise self.moving
        if backlog is not None and backlog.is_exceeded and client and not admitted:
            self._check_backlog(backlog, log, header)
        try:
            appended = log.append(batch, header, leader_epoch=epoch, client=client)
        except OutOfOrderSequence as error:
            self._host.refused_batches.check(self, header, error)
            raise
        if appended.duplicate:
            return appended
        if backlog is not None:
            backlog.appended(appended.next_offset, len(batch))
        if role is not None:
            self._appended_in_cluster(log, role)
        elif self._host.flush_before_visible:
            self._flush_soon()
        else:
            self._advance(log.end_offset)
            if self._host.flush_by_policy:
                self._flush_by_policy(log)
        return appended

    def _check_backlog(self, backlog: BacklogGate, log: Log, header: BatchHeader) -> None:
        # a batch that is there already is confirmed: its producer has only missed the response
        if header.producer_id < 0 or log.producers.check(header) is None:
            backlog.check()

    def log_start_moved(self) -> None:
        """Wake what waits for records that are deleted now."""
        if self.backlog is not None:
            self.backlog.start_moved()
        self._host.purgatory.wake(self)

    def defer_append(self, steps: SlicedWork[AppendResult], size: int) -> Promise[AppendResult]:
        """Run the append `steps` after all other deferred ones; its end settles and wakes the
        promise.

        Args:
            size: bytes that `steps` holds.
        Raises: RequestTimedOut: deferred appends hold too many bytes.
        """
        self._host.append_scheduler.reserve(size)
        if self.appends is None:
            self.appends = AppendQueue(self._host.append_scheduler, self._clear_appends)
        return self.appends.add(steps, size)

    def run_in_append_queue(self, steps: SlicedWork[None]) -> None:
        """Run `steps` after the deferred appends, and before all that come later."""
        if self.appends is None:
            self.appends = AppendQueue(self._host.append_scheduler, self._clear_appends)
        self.appends.add(steps)

    def _clear_appends(self) -> None:
        self.appends = None

    def is_committed(self, offset: int) -> bool:
        """Return whether the high watermark covers `offset`, which was appended here.

        Raises: StorageFailed: the log is offline. NotLeader: another broker has become the leader
            (rule 10). NotEnoughReplicasAfterAppend: rule 13.
        """
        log, role = self.log, self._role
        if role is not None:
            role.check_leader()
        if self._high_watermark >= offset:
            return True
        if log.health.failure is not None:
            raise log.health.failure
        if role is not None:
            role.check_waiting()
        return False

    def is_flushed(self, offset: int) -> bool:
        """Return whether this leader has flushed all below `offset`, which was appended here.

        The high watermark of a sole replica covers `offset` then; followers may still lack it.
        Raises: StorageFailed: the log is offline. NotLeader: another broker has become the leader.
        """
        log, role = self.log, self._role
        if role is None:
            return self.is_committed(offset)
        role.check_leader()
        if log.flushed_offset >= offset:
            return True
        if log.health.failure is not None:
            raise log.health.failure
        return False

    def read(
        self, offset: int, max_bytes: int, *, read_committed: bool = False, min_one_batch: bool = True
    ) -> PartitionRead:
        """Read whole batches from the one with `offset` on, at most `max_bytes`.

        Args:
            min_one_batch: return one batch even if it is larger.
        Returns: if `fetched.check` is not None, run it with `start_check` and read again: the
            data is not verified.
        Raises: OffsetOutOfRange: below the log start or above the end. CorruptBatch: damaged.
            StorageFailed: offline, or read-only with `offset` above the flushed offset.
        """
        log = self.log
        if not log.start_offset <= offset <= log.end_offset:
            raise OffsetOutOfRange(
                f"{self._topic}-{self.index}: offset {offset} is not within {log.start_offset} and {log.end_offset}"
            )
        stable = self.last_stable_offset
        bound = stable if read_committed else self._high_watermark
        fetched = log.read(offset, max_bytes, end_offset=bound, min_one_batch=min_one_batch)
        return PartitionRead(self._high_watermark, stable, log.start_offset, fetched)

    def start_check(self, check: VerificationTask, done: Callable[[KqueueError | None], None]) -> None:
        """Verify what a read returned, in a job; then call `done(error or None)` on the owner
        thread.
        """
        job = self.log.reader.verification_job(check, done)
        if job is not None:
            self._host.jobs.submit(job)

    def read_now(self, offset: int, max_bytes: int) -> ReadResult:
        """Read up to the high watermark, verified. Blocks. Raises what `read` raises."""
        while True:
            fetched = self.read(offset, max_bytes).fetched
            if fetched.check is None:
                return fetched
            self.log.reader.verify_now(fetched.check)

    def flush(self) -> None:
        """Flush what is unflushed, in a job; in group mode its end moves the high watermark."""
        self._flush_due = False
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        if self._log is None or self._log.health.failure is not None:
            return
        job = self._log.flush_job()
        if job is not None:
            self._host.jobs.submit(job)

    def roll(self) -> None:
        """Roll the active segment, now or after the flush it depends on. Raises StorageFailed."""
        if not self.log.roll_if_ready():
            self.flush()

    def after_flush(self, offset: int, call: Callable[[], None]) -> None:
        """Call `call` when `offset` is flushed (in memory: now), or the log is offline."""
        on_disk = self._host.flush_before_visible or self._host.flush_by_policy
        if self.log.flushed_offset >= offset or self.log.health.failure is not None or not on_disk:
            call()
        else:
            self._after_flush += ((offset, call),)
            self.flush()

    def _call_after_flush(self) -> None:
        calls, self._after_flush = self._after_flush, ()
        for offset, call in calls:
            self.after_flush(offset, call)

    def configure(self, config: LogConfig) -> None:
        """Put settings in force for the log if it is open; one opened later has them anyway."""
        self._read_min_isr()
        log = self._log
        if log is None:
            return
        log.config = config  # the jitter of the active segment stays until it rolls, as in Kafka
        if self._host.flush_by_policy and log.needs_flush:
            if self._flush_timer is not None:
                self._flush_timer.cancel()
                self._flush_timer = None
            self._flush_by_policy(log)

    def mark_deleted(self) -> Log | None:
        """Mark as deleted and wake all delayed operations. Returns the log if open, for its owner
        to delete.
        """
        self.deleted = True
        return self.detach_log()

    def detach_log(self) -> Log | None:
        """Use the log no more, because its owner deletes it; wake all delayed operations.

        Returns: the log, if it was open.
        """
        log, self._log = self._log, None
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        calls, self._after_flush = self._after_flush, ()
        for _, call in calls:
            call()
        self._host.purgatory.wake(self)
        return log

    def _flush_appended(self, log: Log) -> None:
        if self._host.flush_before_visible:
            self._flush_soon()
        elif self._host.flush_by_policy:
            self._flush_by_policy(log)

    def _flush_soon(self) -> None:
        # at the end of the turn: one fsync for all requests of the turn
        if not self._flush_due:
            self._flush_due = True
            self._host.purgatory.defer(self.flush)

    def _flush_by_policy(self, log: Log) -> None:
        config = log.config
        # rolled segments and new folders are flushed too: recovery reads the active segment at most
        if log.end_offset - log.flushed_offset >= config.flush_messages or log.has_unflushed_segments:
            self._flush_soon()
        elif self._flush_timer is None and config.flush_ms < FLUSH_NEVER_MS:
            self._flush_later(config.flush_ms)

    def _flush_later(self, ms: float) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        self._flush_timer = self._host.timers.at(self._host.clock.monotonic_ms() + ms, self.flush)

    def _flushed(self) -> None:
        """Handle the end of a flush: `flushed_offset` moved, the log went offline, or no file could
        be opened.
        """
        log = self._log
        if log is None:
            return
        if log.flush_refused:
            self._flush_later(FLUSH_AGAIN_MS)
            return
        if log.health.failure is not None:
            self._host.purgatory.wake(self)
            if self._role is not None and not log.health.is_suspended:
                self._host.replicas.log_failed(self)
        if self._host.flush_before_visible:
            self._own_end_moved(log)  # first: calls after the flush may move the log start up to it
            if self._role is not None:  # acks=1 waits for the flush, though followers are behind
                self._host.purgatory.wake(self)
            if log.needs_flush:
                self._flush_soon()
        elif log.has_unflushed_segments:  # rolled during that flush
            self._flush_soon()
        if log.roll_due and log.health.failure is None:
            with contextlib.suppress(StorageFailed):  # the next append fails too
                log.roll_if_ready()
        if self._after_flush:
            self._call_after_flush()
