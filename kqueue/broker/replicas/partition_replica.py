"""A partition's replica at this broker: who leads, and what leader and followers do for each other.

Of a single broker it has no role: the broker leads it for ever, as its only replica. In a cluster
`apply` takes over each new registration; a leader serves the fetches of its followers, a follower
appends what it fetches, and truncates where its leader says.

Durability: as `log.follower_log`. A follower's high watermark is checkpointed at an interval; after
a crash it begins with the checkpoint, at most the log end, and the leader says the newer one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kqueue.base.errors import FencedLeaderEpoch, KqueueError, NotLeader, OffsetOutOfRange
from kqueue.broker.replicas.partition_host import PartitionRead
from kqueue.broker.replicas.replica_role import Change, ReplicaRole, check_epoch
from kqueue.log import follower_log
from kqueue.log.formats.leader_epochs import EpochEndOffset
from kqueue.log.log import Log
from kqueue.log.log_cut import LogCut
from kqueue.replication.leader_replica import LeaderReplica, ReplicaFetch

if TYPE_CHECKING:
    from kqueue.base.errors import StorageUnavailable
    from kqueue.broker.replicas.partition_host import BacklogGate, PartitionHost
    from kqueue.replication.registrations import PartitionRegistration

Done = Callable[[KqueueError | None], None]


class PartitionReplica:
    """The part of a `Partition` that knows of other replicas."""

    __slots__ = ("_high_watermark", "_host", "_log", "_role", "_topic", "backlog", "index", "moving")

    def __init__(self, topic: str, index: int, host: PartitionHost) -> None:
        self._topic = topic
        self.index = index
        self._host = host
        self._log: Log | None = None
        self._high_watermark = 0
        self._role: ReplicaRole | None = None  # of a single broker: none
        self.moving: StorageUnavailable | None = None  # why nothing is appended while the log is replaced
        self.backlog: BacklogGate | None = None  # of a topic with a bound

    # --- what `Partition` has

    @property
    def log(self) -> Log:
        """See `Partition`."""
        raise NotImplementedError

    def epoch_end(self, epoch: int) -> EpochEndOffset:
        """See `Partition`."""
        raise NotImplementedError

    def log_start_moved(self) -> None:
        """See `Partition`."""
        raise NotImplementedError

    def after_flush(self, offset: int, call: Callable[[], None]) -> None:
        """See `Partition`."""
        raise NotImplementedError

    def _flush_appended(self, log: Log) -> None:
        """Flush what was appended, when it is time to."""
        raise NotImplementedError

    # --- the registration

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._topic

    @property
    def registration(self) -> PartitionRegistration:
        """Replicas, leader and epochs, as this broker knows them."""
        return self._host.sole_registration if self._role is None else self._role.registration

    @property
    def leader(self) -> int:
        """Node id of the leader; `NO_LEADER`: none."""
        return self._host.node_id if self._role is None else self._role.registration.leader

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the partition: it is registered as leader, and not fenced."""
        return self._role is None or self._role.is_leader

    def check_leader(self) -> None:
        """Raises NotLeader: this broker does not lead the partition."""
        if self._role is not None:
            self._role.check_leader()

    @property
    def leader_epoch(self) -> int:
        """Current leader epoch."""
        return self._host.leader_epoch if self._role is None else self._role.registration.leader_epoch

    def check_leader_epoch(self, epoch: int) -> None:
        """Check the client's leader epoch; -1: none.

        Raises: FencedLeaderEpoch, UnknownLeaderEpoch: older or newer than ours. Source: KIP-320.
        """
        if epoch != -1 and epoch != self.leader_epoch:
            check_epoch(f"{self._topic}-{self.index}", self.leader_epoch, epoch)

    @property
    def replicas(self) -> tuple[int, ...]:
        """Node ids of the replicas; the first is the preferred leader."""
        return self.registration.replicas

    @property
    def isr(self) -> tuple[int, ...]:
        """Node ids of the in-sync replicas."""
        return self.registration.isr

    @property
    def has_replica(self) -> bool:
        """Whether this broker has a replica of the partition."""
        return self._role is None or self._role.has_replica

    @property
    def leadership(self) -> LeaderReplica | None:
        """What this broker knows of the followers; None: it does not lead, its log is not open yet,
        or it is a single broker.
        """
        return None if self._role is None else self._role.leadership

    @property
    def replica_key(self) -> ReplicaRole | None:
        """Key of the purgatory for followers' fetches: woken by each append, and a new role."""
        return self._role

    def apply(self, registration: PartitionRegistration) -> None:
        """Take over a registration of the metadata store, and tell `replica_events` what changed.

        One that is not newer has no effect (rule 8).
        """
        role, host = self._role, self._host
        if role is None:
            name, min_isr = f"{self._topic}-{self.index}", host.replicas.min_isr(self._topic)
            role = self._role = ReplicaRole(name, host.node_id, min_isr)
        change = role.apply(registration, host.clock.monotonic_ms(), may_lead=host.replicas.may_lead())
        if change is not None:
            self._role_changed(role, change)

    def review_leader(self) -> None:
        """Begin or cease to lead after this broker was unfenced or fenced, or lost its session."""
        role = self._role
        if role is not None:
            change = role.review(self._host.replicas.may_lead())
            if change.leads or change.follows:
                self._role_changed(role, change)

    def _role_changed(self, role: ReplicaRole, change: Change) -> None:
        host = self._host
        if role.is_leader and self._log is not None:
            if not self._log.health.is_suspended:  # else at the end of the cut
                self._lead(self._log)
        elif change.leads and len(role.registration.replicas) > 1:
            host.replicas.open_soon(self)
        host.purgatory.wake(self)  # what waits for a commit here fails, or has enough replicas now
        host.purgatory.wake(role)
        if change.removed:
            self._emit_removed()
            host.replicas.drop(self)
        for event in host.replica_events if change.leads or change.follows else ():
            event.became_leader(self) if change.leads else event.became_follower(self)

    def note_removed(self) -> None:
        """Tell `replica_events` that the topic is deleted; of a single broker nothing."""
        if self._role is not None and self._role.has_replica:
            self._emit_removed()

    def _emit_removed(self) -> None:
        for event in self._host.replica_events:
            event.removed(self)

    def _check_replica(self) -> None:
        """Raises NotLeader: this broker has no replica."""
        if not self.has_replica:
            raise NotLeader(f"broker {self._host.node_id} has no replica of {self._topic}-{self.index}")

    # --- the high watermark

    def _opened(self, log: Log) -> None:
        """Begin with the checkpointed high watermark: never with the log end, which may hold what
        was not committed.
        """
        checkpointed = self._host.replicas.high_watermark(self._topic, self.index)
        self._high_watermark = max(min(checkpointed, log.end_offset), log.start_offset)
        self._lead(log)

    def _lead(self, log: Log) -> None:
        assert self._role is not None
        self._role.lead(log, self._high_watermark, self._host.clock.monotonic_ms())
        self._host.replicas.isr_may_change(self)
        self._own_end_moved(log)

    def _read_min_isr(self) -> None:
        """Put a changed `min.insync.replicas` in force: more may be committed now, or less."""
        role, min_isr = self._role, 0 if self._role is None else self._host.replicas.min_isr(self._topic)
        if role is not None and role.min_isr != min_isr:
            role.set_min_isr(min_isr)
            if self._log is not None:
                self._own_end_moved(self._log)
            self._host.purgatory.wake(self)

    def _own_end_moved(self, log: Log) -> None:
        """Advance the high watermark to what this replica has, as far as the others have it too.

        In group mode it has what it has flushed (rule 21).
        """
        own_end = log.flushed_offset if self._host.flush_before_visible else log.end_offset
        role = self._role
        if role is None:
            self._advance(own_end)
        elif role.leadership is not None and role.leadership.advance(own_end, role.min_isr):
            self._advance(role.leadership.high_watermark)

    def _advance(self, offset: int) -> None:
        if offset > self._high_watermark:
            self._high_watermark = offset
            if self._log is not None and self._log.producers.has_ended:
                self._log.producers.forget_ended(offset)
            self._host.purgatory.wake(self)

    @property
    def visible_end(self) -> int:
        """The high watermark that a request for the log's end waits for.

        A single broker's covers all that was appended before the request. A leader's has to reach
        the log end of its election, as its predecessor may have reported more (rule 23).
        Raises: StorageFailed.
        """
        log = self.log
        if self._role is None:
            return log.end_offset
        return 0 if self._role.leadership is None else self._role.leadership.leso

    # --- as leader

    def _appended_in_cluster(self, log: Log, role: ReplicaRole) -> None:
        self._flush_appended(log)
        if not self._host.flush_before_visible:
            self._own_end_moved(log)
        self._host.purgatory.wake(role)

    def check_in_sync(self) -> None:
        """Check before an append with acks=all. Raises NotEnoughReplicas: rule 11."""
        if self._role is not None:
            self._role.check_in_sync()

    @property
    def low_watermark(self) -> int:
        """What lies below is deleted at all replicas whose brokers are alive; -1: one has not told
        its log start yet. The purgatory wakes `leadership` when a follower's log start moves.

        Raises: StorageFailed. NotLeader.
        """
        self.check_leader()
        start, leadership = self.log.start_offset, self.leadership
        if leadership is None:
            return start

        def is_alive(node: int) -> bool:
            broker = self._host.cluster.find(node)
            return broker is not None and not broker.fenced

        return leadership.low_watermark(start, is_alive)

    def follower_fetch(
        self, fetch: ReplicaFetch, max_bytes: int, *, min_one_batch: bool = True
    ) -> PartitionRead | EpochEndOffset:
        """Serve a follower: whole batches from its log end on, up to ours (rules 15 to 17).

        Returns: an EpochEndOffset: the logs differ from there on; the follower truncates.
            Of a read: as `Partition.read`; repeat the call after the check of `fetched.check`.
        Raises: FencedLeaderEpoch, UnknownLeaderEpoch. NotLeader: this broker does not lead, or the
            other one has no replica, or a newer life. OffsetOutOfRange: below the log start, or
            beyond the end. StorageFailed.
        """
        self.check_leader_epoch(fetch.leader_epoch)
        self.check_leader()
        log = self.log
        leadership = self.leadership
        if leadership is None:
            raise NotLeader(f"{self._topic}-{self.index} has no other replicas")
        start = log.start_offset
        if fetch.offset < start and not leadership.diverging(fetch.offset, fetch.last_epoch, self.epoch_end):
            raise OffsetOutOfRange(
                f"{self._topic}-{self.index} starts at {start}, broker {fetch.node_id} fetches {fetch.offset}"
            )
        known = leadership.followers.get(fetch.node_id)
        has_new_start = known is not None and known.log_start != fetch.log_start
        diverging = leadership.fetched(fetch, self.epoch_end, log.end_offset, self._host.clock.monotonic_ms())
        if diverging is not None:
            return EpochEndOffset(*diverging)
        if has_new_start:
            self._host.purgatory.wake(leadership)
        self._own_end_moved(log)
        self._host.replicas.isr_may_change(self)
        fetched = log.read(fetch.offset, max_bytes, end_offset=log.end_offset, min_one_batch=min_one_batch)
        stable = log.last_stable_offset(self._high_watermark)
        return PartitionRead(self._high_watermark, stable, log.start_offset, fetched)

    # --- as follower

    def _follow(self, leader_epoch: int) -> Log:
        role = self._role
        if role is None or role.is_leader or role.registration.leader_epoch != leader_epoch:
            raise FencedLeaderEpoch(
                f"{self._topic}-{self.index}: an answer of epoch {leader_epoch} came in epoch {self.leader_epoch}"
            )
        return self.log

    def append_as_follower(self, records: memoryview, leader_epoch: int) -> int:
        """Append the whole batches that the leader of an epoch sent, as they are (rule 20).

        In group mode fetch again after `after_flush` of the returned offset (rule 21).
        Returns: the log end.
        Raises: FencedLeaderEpoch: this broker does not follow in that epoch any more. CorruptBatch:
            a batch is wrong; those before it are appended. StorageFailed, StorageUnavailable.
        """
        log = self._follow(leader_epoch)
        if self.moving is not None:
            raise self.moving
        before = log.end_offset
        try:
            follower_log.append_replicated(log, records, leader_epoch)
        finally:
            if log.end_offset > before:
                if self.backlog is not None:
                    self.backlog.appended(log.end_offset, len(records))
                self._flush_appended(log)
        return log.end_offset

    def set_follower_high_watermark(self, leaders: int, leader_epoch: int) -> None:
        """Raise the high watermark to the leader's, at most to the log end (rule 20).

        Raises: FencedLeaderEpoch, StorageFailed.
        """
        self._advance(min(leaders, self._follow(leader_epoch).end_offset))

    def raise_start_as_follower(self, offset: int, leader_epoch: int) -> None:
        """Raise the log start to the leader's, at most to the log end; segments below are dropped.

        Durability: a crash may bring the old start back; the leader says it again.
        Raises: FencedLeaderEpoch, StorageFailed.
        """
        log = self._follow(leader_epoch)
        if log.start_offset < min(offset, log.end_offset):
            log.advance_start(min(offset, log.end_offset))
            self._advance(log.start_offset)  # the leader has deleted nothing that is not committed
            self._host.replicas.drop_below_start(self)
            self.log_start_moved()

    def truncate_as_follower(self, offset: int, leader_epoch: int, done: Done) -> None:
        """Remove what lies from `offset` on, and differs from the leader's log (rule 19), in a job.

        The log end may be below `offset` then, where a batch holds it. `done(error or None)` is
        called at the end, maybe at once. Until then the log refuses everything with
        StorageUnavailable, and the broker may become the leader, which it is then from the end on.
        Raises: FencedLeaderEpoch, StorageFailed; `done` is called with them too.
        """
        log = self._follow(leader_epoch)
        if offset >= log.end_offset:
            done(None)
        else:
            self._cut(LogCut(log, max(offset, log.start_offset)), leader_epoch, done)

    def restart_at(self, offset: int, leader_epoch: int, done: Done) -> None:
        """Remove all records and go on at `offset`, where the leader's log starts, in a job; `done`
        as in `truncate_as_follower`.

        Raises: FencedLeaderEpoch. OffsetOutOfRange: it is not above the log end. StorageFailed.
        """
        log = self._follow(leader_epoch)
        if offset <= log.end_offset:
            raise OffsetOutOfRange(f"{log.folder}: can't restart at {offset}, the log ends at {log.end_offset}")
        self._cut(LogCut(log, offset, restarts=True), leader_epoch, done)

    def begin_anew(self, leader_epoch: int) -> None:
        """Delete the log, which starts beyond the leader's end, and begin with an empty one at 0.

        Durability: as `LogManager.delete`. After a crash it is deleted, or is found too far ahead
            again.
        Raises: FencedLeaderEpoch, StorageFailed.
        """
        log = self._follow(leader_epoch)
        if log.health.failure is not None and log.health.is_suspended:
            raise log.health.failure
        self._host.replicas.delete_log(self)
        self._log_was_cut(self.log)

    def _cut(self, cut: LogCut, leader_epoch: int, done: Done) -> None:
        log = cut.log

        def flushed() -> None:  # no flush is under way any more
            try:
                failure = self._follow(leader_epoch).health.failure
                if failure is not None:
                    raise failure
            except KqueueError as error:
                done(error)
                return
            self._host.replicas.cut_log(self, cut, ended)

        def ended(error: KqueueError | None) -> None:
            if self._log is log and error is None:
                self._log_was_cut(log, cut.offset if cut.restarts else None)
            done(error)

        if log.health.failure is not None:
            raise log.health.failure
        self.after_flush(log.end_offset, flushed)

    def _log_was_cut(self, log: Log, restarts_at: int | None = None) -> None:
        self._high_watermark = min(self._high_watermark, log.end_offset)
        if self.backlog is not None:
            self.backlog.opened(log)
        if restarts_at is not None:
            self._advance(restarts_at)
            self.log_start_moved()
        if self._role is not None and self._role.is_leader:
            self._lead(log)
        self._host.purgatory.wake(self)
