"""The changes that a follower makes to its log, so that it holds what the leader's holds.

Each is made in one leader epoch: the answer of a former leader changes nothing.

Durability: as `log.follower_log`. A follower's high watermark is checkpointed at an interval; after
a crash it begins with the checkpoint, at most the log end, and the leader says the newer one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from kqueue.base.errors import KqueueError, OffsetOutOfRange
from kqueue.log import follower_log
from kqueue.log.formats.producer_snapshot import encode_snapshot
from kqueue.log.log_cut import LogCut, RestartState
from kqueue.records.batch import BATCH_OVERHEAD, read_header

if TYPE_CHECKING:
    from kqueue.base.errors import StorageUnavailable
    from kqueue.broker.replicas.high_watermark import HighWatermark
    from kqueue.broker.replicas.partition_flush import PartitionFlush
    from kqueue.broker.replicas.partition_host import BacklogGate, ReplicaHost
    from kqueue.log.log import Log

Done = Callable[[KqueueError | None], None]


class FollowingPartition(Protocol):
    """The calls of a partition that copy its leader; see `Partition`."""

    backlog: BacklogGate | None
    flush: PartitionFlush
    moving: StorageUnavailable | None
    watermark: HighWatermark

    @property
    def log(self) -> Log:
        """The log, opened on first use."""

    @property
    def high_watermark(self) -> int:
        """Offset after the last record that consumers may read."""

    def follow(self, leader_epoch: int) -> LogFollower:
        """Return the log as a follower's. Raises FencedLeaderEpoch: another epoch has begun."""

    def uses(self, log: Log) -> bool:
        """Return whether `log` was neither replaced nor deleted."""

    def log_was_cut(self, log: Log, restarts_at: int | None = None) -> None:
        """Begin again with a log that was cut."""

    def log_start_moved(self) -> None:
        """Wake what waits for records that are deleted now."""

    def after_flush(self, offset: int, call: Callable[[], None]) -> None:
        """Call `call` when `offset` is flushed."""


class LogFollower:
    """A follower's log in one leader epoch; made by `Partition.follow` for the answer that is at
    hand.

    Raises: StorageFailed: the log can't be opened.
    """

    __slots__ = ("_leader_epoch", "_log", "_partition", "_replicas")

    def __init__(self, partition: FollowingPartition, replicas: ReplicaHost, leader_epoch: int) -> None:
        self._partition = partition
        self._replicas = replicas
        self._leader_epoch = leader_epoch
        self._log = partition.log

    def append(self, records: memoryview) -> int:
        """Append the whole batches that the leader sent, as they are (rule 20).

        In group mode fetch again after `Partition.after_flush` of the returned offset (rule 21).
        Returns: the log end.
        Raises: CorruptBatch: a batch is wrong; those before it are appended. StorageFailed,
            StorageUnavailable.
        """
        log, partition = self._log, self._partition
        if partition.moving is not None:
            raise partition.moving
        before = log.end_offset
        try:
            follower_log.append_replicated(log, records, self._leader_epoch)
        finally:
            # Also after a wrong batch: those before it are in the log, and have to be flushed.
            if log.end_offset > before:
                if partition.backlog is not None:
                    partition.backlog.appended(log.end_offset, len(records))
                partition.flush.appended(log)
        return log.end_offset

    def lacks_begin_of(self, records: memoryview) -> bool:
        """Return whether the local log is empty, and begins within the first batch that the leader
        sent: DeleteRecords may let a log start there, and batches are copied whole.
        """
        log = self._log
        if log.end_offset != log.local_start_offset or len(records) < BATCH_OVERHEAD:
            return False
        header = read_header(records, 0)
        return header.base_offset < log.end_offset <= header.last_offset

    def append_whole(self, records: memoryview, done: Done) -> None:
        """Restart the empty log where the first batch begins, in a job, and append the records;
        `done` as in `truncate`, once they are flushed. The log start is the leader's again then.

        Source: Kafka's UnexpectedAppendOffsetException.
        Raises: as `truncate` and `append`.
        """
        log, partition, epoch = self._log, self._partition, self._leader_epoch
        base, start, copied = read_header(records, 0).base_offset, log.start_offset, bytes(records)
        state = RestartState(min(start, base), log.epochs.entries(), encode_snapshot(log.producers))

        def restarted(error: KqueueError | None) -> None:
            try:
                if error is not None:
                    raise error
                follower = partition.follow(epoch)
                end_offset = follower.append(memoryview(copied))
                follower.raise_start(start)
            except KqueueError as failure:
                done(failure)
            else:
                partition.after_flush(end_offset, lambda: done(None))

        self.restart_at(base, restarted, state)

    def raise_high_watermark(self, leaders: int) -> None:
        """Raise the high watermark to the leader's, at most to the log end (rule 20)."""
        offset = min(leaders, self._log.end_offset)
        # A leader that was just elected may lag behind what its predecessor reported (rule 23).
        if offset > self._partition.high_watermark:
            self._partition.watermark.advance(offset)

    def raise_start(self, offset: int) -> None:
        """Raise the log start to the leader's, at most to the log end; segments below are dropped.

        Durability: a crash may bring the old start back; the leader says it again.
        """
        log, partition = self._log, self._partition
        if log.start_offset < min(offset, log.end_offset):
            log.advance_start(min(offset, log.end_offset))
            self.raise_high_watermark(log.start_offset)  # the leader has deleted nothing that is not committed
            self._replicas.drop_below_start(partition)
            partition.log_start_moved()

    def truncate(self, offset: int, done: Done) -> None:
        """Remove the records from `offset` on, which the leader's log lacks (rule 19), in a job.

        Below the local start of a tiered log nothing is left, and the log restarts empty at its log
        start: what its producers were at `offset`, it does not know. From there the leader either
        sends it all, or answers that the records are in the tier, which knows the producers.

        The log end may be below `offset` then, where a batch holds it. `done(error or None)` is
        called at the end, maybe at once. Until then the log refuses everything with
        StorageUnavailable. If the broker is elected meanwhile, it leads from the end of the job on.
        Raises: StorageFailed; `done` is called with it too, and with FencedLeaderEpoch.
        """
        log = self._log
        start = log.start_offset
        if offset >= log.end_offset:
            done(None)
        elif offset < log.local_start_offset and start < log.local_start_offset:
            self._cut(LogCut(log, start, state=RestartState(start, (), b"")), done)
        else:
            self._cut(LogCut(log, max(offset, start)), done)

    def restart_at(self, offset: int, done: Done, state: RestartState | None = None) -> None:
        """Remove all records and go on at `offset`, where the leader's local log starts, in a job;
        `done` as in `truncate`.

        Args: state: of the tiered log at `offset`, which may be any offset then; None: the leader's
            log starts there.
        Raises: OffsetOutOfRange: without a state: it is not above the log end. CorruptIndex: the
            state can't be used. StorageFailed.
        """
        log = self._log
        if state is None and offset <= log.end_offset:
            raise OffsetOutOfRange(f"{log.folder}: can't restart at {offset}, the log ends at {log.end_offset}")
        self._cut(LogCut(log, offset, restarts=True, state=state), done)

    def begin_anew(self) -> None:
        """Delete the log, which starts beyond the leader's end, and begin with an empty one at 0.

        Durability: as `LogManager.delete`. After a crash it is deleted, or is found too far ahead
            again.
        Raises: StorageFailed.
        """
        health = self._log.health
        if health.failure is not None and health.is_suspended:
            raise health.failure
        self._replicas.delete_log(self._partition)
        self._partition.log_was_cut(self._partition.log)

    def _cut(self, cut: LogCut, done: Done) -> None:
        log, partition = cut.log, self._partition

        def flushed() -> None:  # no flush is under way any more
            try:
                failure = partition.follow(self._leader_epoch)._log.health.failure
                if failure is not None:
                    raise failure
            except KqueueError as error:
                done(error)
                return
            self._replicas.cut_log(partition, cut, ended)

        def ended(error: KqueueError | None) -> None:
            if partition.uses(log) and error is None:
                partition.log_was_cut(log, cut.offset if cut.restarts else None)
            done(error)

        if log.health.failure is not None:
            raise log.health.failure
        partition.after_flush(log.end_offset, flushed)
