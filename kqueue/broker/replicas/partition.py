"""A partition at this broker: log, high watermark, and the delayed operations that it wakes.

It is composed of parts, each with a rule of its own:

    replica     who leads, in which epoch, and what the others have (`replica`)
    log         the records; opened on first use
    flush       what is flushed, and who waits for it (`partition_flush`)
    watermark   what is committed; never goes back (`high_watermark`)
    lead()      what a leader does for its followers (`log_leader`)
    follow()    what a follower does to its log (`log_follower`)

`log`, `flush` and `watermark` exist together, while the log is open.

Durability: in group mode the high watermark never passes the flushed offset. All that a consumer
read, or a producer got confirmed with acks=all or 1, survives a power cut; records sent with acks=0
may be lost. In kafka mode the high watermark is the log end; the operating system writes at
its own time, or as `flush.messages` and `flush.ms` say. In a cluster it is at most what all in-sync
replicas have.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING

from kqueue.base.errors import (
    KqueueError,
    NotLeader,
    OffsetOutOfRange,
    OutOfOrderSequence,
    StorageUnavailable,
    UnknownTopicOrPartition,
)
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.replicas.append_queue import AppendQueue
from kqueue.broker.replicas.high_watermark import HighWatermark
from kqueue.broker.replicas.log_follower import LogFollower
from kqueue.broker.replicas.log_leader import LogLeader
from kqueue.broker.replicas.partition_flush import PartitionFlush
from kqueue.broker.replicas.partition_host import PartitionRead
from kqueue.broker.replicas.replica import Change, Replica, apply
from kqueue.broker.replicas.replica_metadata import ReplicaMetadata, check_epoch
from kqueue.log.config import LogConfig
from kqueue.log.formats.leader_epochs import EpochEndOffset
from kqueue.log.log import Log
from kqueue.log.log_state import LogState
from kqueue.log.recovery.read_verification import VerificationTask
from kqueue.log.results import AppendResult, ReadResult
from kqueue.records.batch import BatchHeader

if TYPE_CHECKING:
    from kqueue.broker.replicas.partition_host import BacklogGate, PartitionHost, TimeResult
    from kqueue.log.log_cut import RestartState
    from kqueue.replication.registrations import PartitionRegistration


CLOSED_LOGS_MAX = 8
"""So many logs may be opened in one turn; each takes up to 1 ms."""


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


class Partition:
    """One partition.

    It is itself a key of the purgatory, woken when the high watermark moves, the log fails, or the
    partition is deleted.

    Attributes:
        topic, index: its name.
        replica: what this broker is for it.
        flush, watermark: see the module; only while the log is open.
        appends: deferred appends, behind which later ones queue; None: there are none.
        backlog: of a topic with a bound.
        moving: why nothing is appended while the log is replaced.
        deleted: whether the topic is deleted.
        appended_bytes: bytes of the batches that were appended here as leader, since the start.
    """

    # Brokers have thousands of partitions, most of them closed: what an open log needs is not here.
    __slots__ = (
        "_host", "_log", "appended_bytes", "appends", "backlog",
        "deleted", "flush", "index", "moving", "replica", "topic", "watermark",
    )  # fmt: skip
    __deletable__ = ("flush", "watermark")  # for mypyc

    def __init__(self, topic: str, index: int, host: PartitionHost) -> None:
        self.topic = topic
        self.index = index
        self._host = host
        self._log: Log | None = None
        self.flush: PartitionFlush
        self.watermark: HighWatermark
        self.replica: Replica = host.sole_replica
        self.moving: StorageUnavailable | None = None
        self.backlog: BacklogGate | None = None
        self.deleted = False
        self.appended_bytes = 0
        self.appends: AppendQueue | None = None

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index})"

    # --- the registration

    @property
    def registration(self) -> PartitionRegistration:
        """Replicas, leader and epochs, as this broker knows them."""
        return self.replica.registration

    @property
    def leader(self) -> int:
        """Node id of the leader; `NO_LEADER`: none."""
        return self.replica.registration.leader

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the partition: it is registered as leader, and not fenced."""
        return self.replica.is_leader

    def check_leader(self) -> None:
        """Raises NotLeader: this broker does not lead the partition."""
        self.replica.check_leader()

    @property
    def leader_epoch(self) -> int:
        """Current leader epoch."""
        return self.replica.leader_epoch

    def check_leader_epoch(self, epoch: int) -> None:
        """Check the client's leader epoch; -1: none.

        Raises: FencedLeaderEpoch, UnknownLeaderEpoch: older or newer than ours. Source: KIP-320.
        """
        if epoch != -1 and epoch != self.replica.leader_epoch:
            check_epoch(f"{self.topic}-{self.index}", self.replica.leader_epoch, epoch)

    @property
    def replicas(self) -> tuple[int, ...]:
        """Node ids of the replicas; the first is the preferred leader."""
        return self.replica.registration.replicas

    @property
    def isr(self) -> tuple[int, ...]:
        """Node ids of the in-sync replicas."""
        return self.replica.registration.isr

    @property
    def has_replica(self) -> bool:
        """Whether this broker has a replica of the partition."""
        return self.replica.has_replica

    def apply(self, registration: PartitionRegistration) -> None:
        """Take over a registration of the metadata store, and tell `replica_events` what changed.

        One that is not newer has no effect (rule 8).
        """
        host = self._host
        # The sole replica, which all partitions share, is replaced at the first registration.
        self.replica = replica = self.replica.in_cluster(self._new_metadata)
        applied = apply(replica, registration, host.clock.monotonic_ms(), may_lead=host.replicas.may_lead())
        if applied is not None:
            self._replace_replica(*applied)

    def _new_metadata(self) -> ReplicaMetadata:
        return ReplicaMetadata(f"{self.topic}-{self.index}", self._host.node_id, self._read_min_isr())

    def review_leader(self) -> None:
        """Begin or cease to lead after this broker was unfenced or fenced, or lost its session."""
        replica, change = self.replica.review(self._host.replicas.may_lead())
        if change.leads or change.follows:
            self._replace_replica(replica, change)

    def _replace_replica(self, replica: Replica, change: Change) -> None:
        # In force first: all that is woken or called below asks the partition, and must see its new
        # role.
        host, self.replica = self._host, replica
        if replica.is_leader and self._log is not None:
            # A follower that was elected while its log is being cut leads from the end of the cut:
            # before, its log end is not decided.
            if not self._log.health.is_suspended:  # else at the end of the cut
                self._lead(self._log)
        # Opened without waiting for a request: with a closed log there is no `leadership`, so a
        # follower that never fetches would stay in sync. Not here, as a failover makes thousands of
        # leaders in one turn.
        elif change.leads and len(replica.registration.replicas) > 1:
            host.replicas.open_soon(self)
        host.purgatory.wake(self)  # what waits for a commit here fails, or has enough replicas now
        host.purgatory.wake(replica.key)
        if change.removed:
            self._emit_removed()
            host.replicas.drop(self)
        for event in host.replica_events if change.leads or change.follows else ():
            event.became_leader(self) if change.leads else event.became_follower(self)

    def note_removed(self) -> None:
        """Tell `replica_events` that the topic is deleted; of a single broker nothing."""
        if self.replica.key is not None and self.replica.has_replica:
            self._emit_removed()

    def _emit_removed(self) -> None:
        for event in self._host.replica_events:
            event.removed(self)

    # --- the log

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
        is_recovering = self._host.replicas.is_recovering(self.topic, self.index)
        return PartitionState.RECOVERING if is_recovering else PartitionState.ONLINE

    @property
    def log(self) -> Log:
        """The log, opened on first use.

        Raises: StorageFailed. LogRecovering: a crash came before, and it is not recovered yet.
            UnknownTopicOrPartition: deleted. NotLeader: this broker has no replica.
        """
        log = self._log
        return self._open() if log is None else log

    def _open(self) -> Log:
        if self.deleted:
            raise UnknownTopicOrPartition(f"partition {self.topic}-{self.index} was deleted")
        replica, host = self.replica, self._host
        if not replica.has_replica:
            raise NotLeader(f"broker {host.node_id} has no replica of {self.topic}-{self.index}")
        log = host.replicas.open_log(self.topic, self.index)
        self.flush = PartitionFlush(log, host, self._flush_ended)
        self._begin_watermark(replica.committed_end(log, self._checkpointed_high_watermark))
        # Only now is `_log` set: where it is, the other methods use `flush` and `watermark`
        # unasked.
        self._attach(log)
        self._lead(log)
        if self.backlog is not None:
            self.backlog.opened(log)
        return log

    def _attach(self, log: Log) -> None:
        if not self._host.verify_reads:
            log.reader.disable_verification()
        self._log = log

    def _checkpointed_high_watermark(self) -> int:
        return self._host.replicas.high_watermark(self.topic, self.index)

    def uses(self, log: Log) -> bool:
        """Return whether `log` is the one in use: it was neither replaced nor deleted."""
        return self._log is log

    def use_log(self, log: Log) -> None:
        """Use `log`, which holds the same records and is flushed, instead of the present one."""
        self.flush.use_log(log)
        self._attach(log)
        self.own_end_moved(log)
        self._host.purgatory.wake(self)
        self.flush.call_waiting()

    def log_was_cut(self, log: Log, restarts_at: int | None = None) -> None:
        """Begin again with a follower's log that was cut, or is empty.

        Args: restarts_at: where it begins now; None: there, where it began.
        """
        # A new object, as a high watermark can't go back: after an unclean election committed
        # records are cut.
        self._begin_watermark(min(self.watermark.value, log.end_offset))
        if self.backlog is not None:
            self.backlog.opened(log)
        if restarts_at is not None:
            self.watermark.advance(max(restarts_at, self.watermark.value))
            self.log_start_moved()
        if self.replica.is_leader:
            self._lead(log)
        if self._host.tier is not None:
            self._host.tier.log_was_cut(self)
        self._host.purgatory.wake(self)

    def detach_log(self) -> Log | None:
        """Use the log no more, because its owner deletes it; wake all delayed operations.

        Returns: the log, if it was open.
        """
        log, self._log = self._log, None
        self.replica.log_detached()
        if log is not None:
            flush = self.flush
            del self.flush, self.watermark  # first: a call of the flush may open the log again
            # Calls those that wait for a flush which will not come.
            flush.close()
        self._host.purgatory.wake(self)
        return log

    def mark_deleted(self) -> Log | None:
        """Mark as deleted and wake all delayed operations. Returns the log if open, for its owner
        to delete.
        """
        self.deleted = True
        return self.detach_log()

    def configure(self, config: LogConfig) -> None:
        """Put settings in force for the log if it is open; one opened later has them anyway."""
        log = self._log
        if self.replica.set_min_isr(self._read_min_isr):  # more may be committed now, or less
            if log is not None:
                self.own_end_moved(log)
            self._host.purgatory.wake(self)
        if log is not None:
            log.config = config  # the jitter of the active segment stays until it rolls, as in Kafka
            self.flush.policy_changed(log)

    def _read_min_isr(self) -> int:
        return self._host.replicas.min_isr(self.topic)

    def roll(self) -> None:
        """Roll the active segment, now or after the flush it depends on. Raises StorageFailed."""
        if not self.log.roll_if_ready():
            self.flush.now()

    def after_flush(self, offset: int, call: Callable[[], None]) -> None:
        """Call `call` when `offset` is flushed (in memory: now), or the log is offline.

        Raises: StorageFailed: the log can't be opened.
        """
        self.log  # noqa: B018  opening it makes the flush
        self.flush.after(offset, call)

    def _flush_ended(self) -> None:
        log = self._log or self._open()
        if log.health.failure is not None:
            self._host.purgatory.wake(self)
            if not log.health.is_suspended:
                self._host.replicas.log_failed(self)
        # Group mode: only what is flushed is committed, so the end of a flush is what moves the
        # high watermark (rule 21).
        if self._host.flush_before_visible:
            self.own_end_moved(log)
            # acks=1 waits for the flush: what followers still lack keeps the high watermark back
            if self.watermark.value < log.flusher.flushed_offset:
                self._host.purgatory.wake(self)

    # --- offsets

    @property
    def high_watermark(self) -> int:
        """Offset after the last record that consumers may read; never goes back."""
        if self._log is None:
            self._open()
        return self.watermark.value

    def log_without_news(self, offset: int) -> Log | None:
        """Return the log if it is open and intact, and the high watermark is at `offset`; else
        None. Whatever changes that wakes the partition.
        """
        log = self._log
        if log is None or self.watermark.value != offset or log.health.failure is not None:
            return None
        return log

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
        return self.log.last_stable_offset(self.watermark.value)

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
        current = self.replica.leader_epoch
        if not latest < epoch <= current:
            return log.epochs.end_offset_for(epoch, log.end_offset)
        is_known = epoch < current and latest >= 0
        return EpochEndOffset(latest if is_known else epoch, log.end_offset)

    @property
    def visible_end(self) -> int:
        """The high watermark that a request for the log's end waits for.

        A single broker's covers all that was appended before the request. A leader's has to reach
        the log end of its election, as its predecessor may have reported more (rule 23).
        Raises: StorageFailed.
        """
        return self.replica.visible_end(self.log)

    def _begin_watermark(self, offset: int) -> None:
        self.watermark = HighWatermark(offset, self._committed)

    def _committed(self, offset: int) -> None:
        """Handle a higher high watermark."""
        log = self._log
        # Producer state keeps where a transaction ended until that is committed: until then it
        # still bounds the last stable offset.
        if log is not None and log.producers.ended:
            log.producers.forget_ended(offset)
        self._host.purgatory.wake(self)

    def _lead(self, log: Log) -> None:
        """Begin to lead with an open log, if this broker is the leader in a cluster."""
        replica, host = self.replica, self._host
        replica.lead(log, self.watermark.value, host.clock.monotonic_ms())
        if replica.leadership is not None:
            host.replicas.isr_may_change(self)
            self.own_end_moved(log)

    def own_end_moved(self, log: Log) -> None:
        """Advance the high watermark to what this replica has, as far as the others have it too.

        In group mode it has what it has flushed (rule 21).
        """
        own_end = log.flusher.flushed_offset if self._host.flush_before_visible else log.end_offset
        self.replica.advance(self.watermark, own_end)

    # --- appends and reads

    def append(
        self, batch: memoryview, header: BatchHeader, *, client: bool = True, admitted: bool = False
    ) -> AppendResult:
        """Append one validated batch; writes offsets and leader epoch into `batch`.

        Args: admitted: another batch of the request was appended, so the backlog is not checked.
        Durability: in the page cache on return; on disk once `is_flushed` (group mode).
        Raises: what `Log.append` raises. PolicyViolation: the topic's backlog has reached a bound.
            NotLeader: also where a batch before this one was refused so; see `refused_batches`.
        """
        replica, host = self.replica, self._host
        try:
            if not replica.is_leader:
                replica.check_leader()
            log, backlog = self._log or self._open(), self.backlog
        except NotLeader:
            # The batches that were sent behind this one may arrive when this broker leads, and have
            # a gap before them. Noted, so that they are refused alike, and not as out of order.
            host.refused_batches.note(self, header)
            raise
        if self.moving is not None:
            raise self.moving
        if backlog is not None and backlog.is_exceeded and client and not admitted:
            self._check_backlog(backlog, log, header)
        try:
            appended = log.append(batch, header, leader_epoch=replica.leader_epoch, client=client)
        except OutOfOrderSequence as error:
            host.refused_batches.check(self, header, error)
            raise
        # Nothing was appended: no flush, no wake-up, no backlog. The response waits until the first
        # copy is committed.
        if appended.duplicate:
            return appended
        self.appended_bytes += len(batch)
        if backlog is not None:
            backlog.appended(appended.next_offset, len(batch))
        # Group mode: the end of the flush advances the high watermark (`_flush_ended`), not the
        # append.
        if host.flush_before_visible:
            self.flush.soon()
        else:
            replica.advance(self.watermark, log.end_offset)
            if host.flush_by_policy:
                self.flush.by_policy(log)
        if replica.key is not None:
            host.purgatory.wake(replica.key)  # followers fetch what is not committed yet
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
        # Before the queue exists: a refusal must leave none behind.
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

    def check_in_sync(self) -> None:
        """Check before an append with acks=all. Raises NotEnoughReplicas: rule 11."""
        self.replica.check_in_sync()

    def is_committed(self, offset: int) -> bool:
        """Return whether the high watermark covers `offset`, which was appended here.

        Raises: StorageFailed: the log is offline. NotLeader: another broker has become the leader
            (rule 10). NotEnoughReplicasAfterAppend: rule 13.
        """
        log, replica = self._log or self._open(), self.replica
        if not replica.is_leader:
            replica.check_leader()
        # Before the failure: what was committed stays confirmed, even if the log has failed since.
        if self.watermark.value >= offset:
            return True
        if log.health.failure is not None:
            raise log.health.failure
        replica.check_waiting()
        return False

    def is_flushed(self, offset: int) -> bool:
        """Return whether this leader has flushed all below `offset`, which was appended here.

        The high watermark of a sole replica covers `offset` then; followers may still lack it.
        Raises: StorageFailed: the log is offline. NotLeader: another broker has become the leader.
        """
        log = self.log
        self.replica.check_leader()
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
        log = self._log or self._open()
        if not log.start_offset <= offset <= log.end_offset:
            raise OffsetOutOfRange(
                f"{self.topic}-{self.index}: offset {offset} is not within {log.start_offset} and {log.end_offset}"
            )
        high_watermark = self.watermark.value
        stable = log.last_stable_offset(high_watermark)
        bound = stable if read_committed else high_watermark
        fetched = log.read(offset, max_bytes, end_offset=bound, min_one_batch=min_one_batch)
        return PartitionRead(high_watermark, stable, log.start_offset, fetched)

    def tiered_read(
        self, offset: int, max_bytes: int, *, read_committed: bool, min_one_batch: bool
    ) -> PartitionRead | None:
        """Return what `start_tiered_read` has read from `offset` on; None: nothing yet.

        Args: as those of `read`, which raised OffsetMovedToTieredStorage.
        Raises: the error of the read: StorageUnavailable, retriable; CorruptData: damaged there.
        """
        tier = self._host.tier
        assert tier is not None, f"{self!r} has a tiered log, and the broker no tier"
        fetched = tier.find(self, offset, max_bytes, read_committed=read_committed, min_one_batch=min_one_batch)
        if fetched is None:
            return None
        if not fetched and fetched.next_offset > offset:  # no batch of the tier has the offsets up to there
            return self.read(fetched.next_offset, max_bytes, read_committed=read_committed, min_one_batch=min_one_batch)
        return PartitionRead(self.high_watermark, self.last_stable_offset, self.log_start_offset, fetched)

    def start_tiered_read(self, offset: int, max_bytes: int, *, read_committed: bool) -> int:
        """Read from the tier, in a job whose end wakes the partition, unless that is under way.

        Returns: how long a fetch waits for it, in ms.
        """
        tier = self._host.tier
        assert tier is not None
        tier.start_read(self, offset, max_bytes, read_committed=read_committed)
        return tier.wait_ms

    def start_tiered_lookup(self, timestamp: int, end_offset: int, done: Callable[[TimeResult], None]) -> None:
        """Find the first record of the tier at or after `timestamp` below `end_offset`, in a job.

        `done` is called with it, None, or an error.
        """
        tier = self._host.tier
        assert tier is not None
        tier.find_time(self, timestamp, end_offset, done)

    def restart_state(self, offset: int, done: Callable[[RestartState | KqueueError], None]) -> None:
        """Find the state with which this follower goes on at `offset`, where its leader's local log
        starts; then call `done` with it, or with an error.

        Raises: StorageUnavailable: this broker has no tier.
        """
        tier = self._host.tier
        if tier is None:
            raise StorageUnavailable(f"{self!r}: the leader has records in the tier, which is disabled here")
        tier.restart_state(self, offset, done)

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

    # --- other replicas

    def lead(self) -> LogLeader:
        """Return what a leader does for its followers; each call checks that this broker leads."""
        return LogLeader(self, self._host)

    def follow(self, leader_epoch: int) -> LogFollower:
        """Return the changes that a follower makes to its log, by an answer of this leader epoch.

        Raises: FencedLeaderEpoch: this broker does not follow in that epoch any more.
            StorageFailed: the log can't be opened.
        """
        self.replica.check_follows(leader_epoch)
        return LogFollower(self, self._host.replicas, leader_epoch)
