"""One partition as its leader sees it: a log, a high watermark, and those who wait for it to move.

Durability. In group mode the high watermark never passes what is flushed, so whatever anyone has
read, or had confirmed with acks=all, survives a power cut; what was only appended (acks 0 or 1) may
be lost with the power. In kafka mode the high watermark follows the end of the log at once, and the
operating system writes when it likes, or as `flush.messages` and `flush.ms` say. Single node: the
leader's log is the only replica.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kqueue.base.errors import (
    FencedLeaderEpoch,
    KqueueError,
    OffsetOutOfRange,
    StorageFailed,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.base.timers import Timer
from kqueue.broker.append_queue import AppendQueue, AppendScheduler
from kqueue.log.log import Log
from kqueue.log.recovery.read_verification import VerificationTask
from kqueue.log.results import AppendResult, ReadResult
from kqueue.records.batch import BatchHeader

if TYPE_CHECKING:
    from kqueue.base.clock import Clock
    from kqueue.base.jobs import Jobs
    from kqueue.base.timers import Timers
    from kqueue.broker.purgatory import Purgatory


FLUSH_NEVER_MS = 2**63 - 1
FLUSH_AGAIN_MS = 100
"""A flush that could not open its files is tried again after this time, or with the next append."""


class PartitionHost(Protocol):
    """What a partition needs of its broker."""

    clock: Clock
    timers: Timers
    purgatory: Purgatory
    jobs: Jobs
    append_scheduler: AppendScheduler
    node_id: int
    leader_epoch: int
    flush_before_visible: bool  # group mode
    flush_by_policy: bool  # kafka mode; memory has neither
    verify_reads: bool  # compare the checksums of what was found on the disk before it is first served

    def open_log(self, topic: str, index: int) -> Log: ...


class PartitionRead(NamedTuple):
    """What a fetch finds: the watermarks of the moment, and whole batches below the bound of its
    isolation level.
    """

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    fetched: ReadResult


class Partition:
    """One partition that this broker leads. Its own identity is the key of `broker.purgatory`: woken
    when the high watermark moves, when the log fails, and when the partition is deleted.
    """

    __slots__ = (
        "_after_flush", "_flush_due", "_flush_timer", "_high_watermark", "_host", "_log", "_topic", "appends", "deleted",
        "index",
    )  # fmt: skip

    def __init__(self, topic: str, index: int, host: PartitionHost) -> None:
        self._topic = topic
        self.index = index
        self.deleted = False
        self._host = host
        self._log: Log | None = None
        self._high_watermark = 0
        self._flush_due = False
        self._flush_timer: Timer | None = None
        self._after_flush: tuple[
            tuple[int, Callable[[], None]], ...
        ] = ()  # nearly always empty: no list for each partition
        self.appends: AppendQueue | None = (
            None  # appends whose batches take long to check; what comes later waits behind them
        )

    def __repr__(self) -> str:
        return f"Partition({self._topic}-{self.index})"

    @property
    def topic(self) -> str:
        return self._topic

    @property
    def leader(self) -> int:
        return self._host.node_id

    @property
    def leader_epoch(self) -> int:
        return self._host.leader_epoch

    @property
    def is_open(self) -> bool:
        """Whether the log has been opened; an unopened one has nothing in memory to flush or to
        close.
        """
        return self._log is not None

    @property
    def log(self) -> Log:
        """The log, opened (and recovered, after a crash) on first use. Raises StorageFailed,
        UnknownTopicOrPartition: deleted.
        """
        if self._log is None:
            if self.deleted:
                raise UnknownTopicOrPartition(f"partition {self._topic}-{self.index} was deleted")
            log = self._host.open_log(self._topic, self.index)
            log.on_flushed = self._flushed
            log.defers_rolls = self._host.flush_before_visible or self._host.flush_by_policy
            if not self._host.verify_reads:
                log.reader.disable_verification()
            # what a single replica found on its disk when it opened is all there is, and it is
            # flushed
            self._high_watermark = log.end_offset
            self._log = log
        return self._log

    @property
    def high_watermark(self) -> int:
        """Offset after the last record that consumers may see; never goes back."""
        self.log  # noqa: B018  opening sets it
        return self._high_watermark

    @property
    def readable_end(self) -> int:
        """The high watermark, or of a read-only log what was flushed below it. Raises
        StorageFailed: the log is offline.
        """
        return min(self.high_watermark, self.log.readable_end)

    @property
    def last_stable_offset(self) -> int:
        """First offset of an open transaction, or the high watermark: what read_committed consumers
        may see.
        """
        return self.log.last_stable_offset(self._high_watermark)

    @property
    def log_start_offset(self) -> int:
        return self.log.start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.end_offset

    def check_leader_epoch(self, epoch: int) -> None:
        """Refuse a client that believes in another leader epoch; -1 means that it names none.
        Source: KIP-320.
        """
        if epoch == -1 or epoch == self.leader_epoch:
            return
        found = f"{self._topic}-{self.index} is led in epoch {self.leader_epoch}, the request names {epoch}"
        raise FencedLeaderEpoch(found) if epoch < self.leader_epoch else UnknownLeaderEpoch(found)

    def append(self, batch: memoryview, header: BatchHeader, *, client: bool = True) -> AppendResult:
        """Append one checked batch; offsets and leader epoch are written into `batch`.

        Durability: in memory and page cache on return; see the module for when it is safe,
        `is_committed` for whether. Raises: what `Log.append` raises.
        """
        log = self.log
        appended = log.append(batch, header, leader_epoch=self._host.leader_epoch, client=client)
        if appended.duplicate:
            return appended
        if self._host.flush_before_visible:
            self._flush_soon()
        else:
            self._advance(log.end_offset)
            if self._host.flush_by_policy:
                self._flush_by_policy(log)
        return appended

    def defer_append(self, steps: SlicedWork[AppendResult], size: int) -> Promise[AppendResult]:
        """Have an append made by `steps`, after all others that were put off; the promise is settled
        and woken at its end.

        Args: size: bytes that `steps` holds. Raises RequestTimedOut: too many are held already.
        """
        self._host.append_scheduler.reserve(size)
        if self.appends is None:
            self.appends = AppendQueue(self._host.append_scheduler, self._clear_appends)
        return self.appends.add(steps, size)

    def _clear_appends(self) -> None:
        self.appends = None

    def is_committed(self, offset: int) -> bool:
        """Whether all records below `offset` are below the high watermark. Raises StorageFailed:
        the log went offline meanwhile.
        """
        log = self.log
        if self._high_watermark >= offset:
            return True
        if log.offline is not None:
            raise log.offline
        return False

    def read(
        self, offset: int, max_bytes: int, *, read_committed: bool = False, min_one_batch: bool = True
    ) -> PartitionRead:
        """Whole batches from the one that holds `offset`, at most `max_bytes` (but one batch where
        `min_one_batch`).

        Where `fetched.check` is not None, what was read must not be served before that was done,
        and the read repeated: `start_check`. Raises: OffsetOutOfRange: below the log start or above
        the end. CorruptBatch: that was found to be damaged. StorageFailed: the log is offline, or
        read-only and `offset` lies above what was flushed.
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
        """Check what a read found, in a job; `done(error or None)` on the owner thread when the
        read is to be repeated.
        """
        job = self.log.reader.verification_job(check, done)
        if job is not None:
            self._host.jobs.submit(job)

    def read_now(self, offset: int, max_bytes: int) -> ReadResult:
        """`read` up to the high watermark, checked where that is needed. Blocks. Raises as `read`."""
        while True:
            fetched = self.read(offset, max_bytes).fetched
            if fetched.check is None:
                return fetched
            self.log.reader.verify_now(fetched.check)

    def flush(self) -> None:
        """Start flushing what is not flushed yet; `high_watermark` moves (in group mode) when it is
        done.
        """
        self._flush_due = False
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        if self._log is None or self._log.offline is not None:
            return
        job = self._log.flush_job()
        if job is not None:
            self._host.jobs.submit(job)

    def roll(self) -> None:
        """End the active segment, at once or after the flush that it has to wait for. Raises
        StorageFailed.
        """
        if not self.log.roll_if_ready():
            self.flush()

    def after_flush(self, offset: int, call: Callable[[], None]) -> None:
        """Call `call` once all below `offset` survives a power cut (at once where memory is all
        there is), or the log is offline.
        """
        on_disk = self._host.flush_before_visible or self._host.flush_by_policy
        if self.log.flushed_offset >= offset or self.log.offline is not None or not on_disk:
            call()
        else:
            self._after_flush += ((offset, call),)
            self.flush()

    def _call_after_flush(self) -> None:
        calls, self._after_flush = self._after_flush, ()
        for offset, call in calls:
            self.after_flush(offset, call)

    def mark_deleted(self) -> Log | None:
        """No more use of this partition: whoever waits hears of it. Returns the log if it was open,
        for its owner to delete.
        """
        self.deleted = True
        log, self._log = self._log, None
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        calls, self._after_flush = self._after_flush, ()
        for _, call in calls:
            call()
        self._host.purgatory.wake(self)
        return log

    def _flush_soon(self) -> None:
        # at the end of the turn, so that one fsync serves all requests that came in with it
        if not self._flush_due:
            self._flush_due = True
            self._host.purgatory.defer(self.flush)

    def _flush_by_policy(self, log: Log) -> None:
        config = log.config
        # an ended segment (or a new partition's folder) is flushed too, so that a recovery has the
        # active segment to read at most
        if log.end_offset - log.flushed_offset >= config.flush_messages or log.has_unflushed_segments:
            self._flush_soon()
        elif self._flush_timer is None and config.flush_ms < FLUSH_NEVER_MS:
            self._flush_later(config.flush_ms)

    def _flush_later(self, ms: float) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        self._flush_timer = self._host.timers.at(self._host.clock.monotonic_ms() + ms, self.flush)

    def _flushed(self) -> None:
        """The log's news: `flushed_offset` moved, the log went offline, or a flush could not open
        its files.
        """
        log = self._log
        if log is None:
            return
        if log.flush_refused:
            self._flush_later(FLUSH_AGAIN_MS)
            return
        if log.offline is not None:
            self._host.purgatory.wake(self)
        if self._host.flush_before_visible:
            self._advance(log.flushed_offset)  # first: what waits for the flush may move the log start up to it
            if log.needs_flush:
                self._flush_soon()
        elif log.has_unflushed_segments:  # ended while that flush was under way
            self._flush_soon()
        if log.roll_due and log.offline is None:
            with contextlib.suppress(StorageFailed):  # the next append meets it too
                log.roll_if_ready()
        if self._after_flush:
            self._call_after_flush()

    def _advance(self, offset: int) -> None:
        if offset > self._high_watermark:
            self._high_watermark = offset
            self._host.purgatory.wake(self)
