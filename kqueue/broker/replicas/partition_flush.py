"""Flushes of one open log: when they are due, and who waits for them.

Only what is flushed is shown, and one flush serves all who wait: appends of one turn share the
flush at its end, and what is appended while a flush runs shares the next one.

    group mode    a flush is due at the end of each turn with an append; `flush_gathering` may let
                  it wait for more of them
    kafka mode    after `flush.messages` or `flush.ms`, and for each sealed segment
    memory        never
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kqueue.base.errors import StorageFailed
from kqueue.base.timers import Timer
from kqueue.broker.replicas.flush_gathering import AppendCounts
from kqueue.log.log import Log

if TYPE_CHECKING:
    from kqueue.broker.replicas.partition_host import PartitionHost

FLUSH_NEVER_MS: Final = 2**63 - 1
FLUSH_AGAIN_MS = 100
"""A flush that could not open its files is retried after this time, or at the next append."""


class PartitionFlush:
    """The flushes of one open log, from its opening until `close`.

    Args:
        host: its clock, timers, jobs and purgatory; and the mode.
        on_ended: called after each flush that moved `Log.flushed_offset` or failed, before all who
            wait in `after`: their calls may move the log start up to the high watermark.
    Attributes: counts: the appends that wait for a flush, in group mode.
    Durability: a flush under way when `close` is called ends in its job, and calls nothing.
    """

    __slots__ = ("_calls", "_host", "_is_due", "_log", "_on_ended", "_timer", "counts")

    def __init__(self, log: Log, host: PartitionHost, on_ended: Callable[[], None]) -> None:
        self._host = host
        self._on_ended = on_ended
        self._is_due = False
        self.counts = AppendCounts()
        self._timer: Timer | None = None
        self._calls: tuple[tuple[int, Callable[[], None]], ...] = ()  # nearly always empty: a shared tuple
        self._log: Log | None = None
        self.use_log(log)

    def use_log(self, log: Log) -> None:
        """Flush `log` from now on; see `Partition.use_log`."""
        self._log = log
        log.on_flushed = self._ended
        log.defers_rolls = self._host.flush_before_visible or self._host.flush_by_policy

    def close(self) -> None:
        """Flush no more, because the log's owner deletes it; call all who wait."""
        self._log = None
        self._cancel_timer()
        calls, self._calls = self._calls, ()
        for _, call in calls:
            call()

    def now(self) -> None:
        """Flush what is unflushed, in a job; while one runs, its end starts the next."""
        self._is_due = False
        if self._timer is not None:
            self._cancel_timer()
        log = self._log
        if log is None or log.health.failure is not None:
            return
        job = log.flush_job()
        if job is not None:
            self.counts.flush_began()
            meter = self._host.flush_meter
            if meter is not None:
                job = meter.measured(job, log.end_offset - log.flushed_offset)
            self._host.jobs.submit(job)

    def soon(self) -> None:
        """Flush what was appended: one fsync for all requests that come together."""
        self.counts.waiting += 1
        if not self._is_due:
            self._gather()

    def _gather(self) -> None:
        self._is_due = True
        self._host.gathering.add(self)

    def _at_end_of_turn(self) -> None:
        if not self._is_due:
            self._is_due = True
            # Deferred to the end of the turn: all connections that are readable now append first,
            # and share the fsync. That is what makes one producer with many connections fast on a
            # slow disk.
            self._host.purgatory.defer(self.now)

    def by_policy(self, log: Log) -> None:
        """Flush if `flush.messages` says so, or a segment was sealed; else after `flush.ms`."""
        config = log.config
        # rolled segments and new folders are flushed too: recovery reads the active segment at most
        flusher = log.flusher  # each append asks: without the calls of the log
        if log.end_offset - flusher.flushed_offset >= config.flush_messages or flusher.has_files:
            self._at_end_of_turn()
        elif self._timer is None and config.flush_ms < FLUSH_NEVER_MS:
            self._after_ms(config.flush_ms)

    def appended(self, log: Log) -> None:
        """Flush what was appended, when the mode says so."""
        if self._host.flush_before_visible:
            self.soon()
        elif self._host.flush_by_policy:
            self.by_policy(log)

    def policy_changed(self, log: Log) -> None:
        """Put the present `flush.messages` and `flush.ms` in force for what is unflushed."""
        if self._host.flush_by_policy and log.needs_flush:
            self._cancel_timer()
            self.by_policy(log)

    def after(self, offset: int, call: Callable[[], None]) -> None:
        """Call `call` when `offset` is flushed (in memory: now), or never will be: the log failed,
        or is deleted.
        """
        log = self._log
        on_disk = self._host.flush_before_visible or self._host.flush_by_policy
        if log is None or log.flushed_offset >= offset or log.health.failure is not None or not on_disk:
            call()
        else:
            self._calls += ((offset, call),)
            self.now()

    def call_waiting(self) -> None:
        """Call those of `after` whose offset is flushed; the others wait on."""
        # Taken out first: a call may wait again, for a later offset.
        calls, self._calls = self._calls, ()
        for offset, call in calls:
            self.after(offset, call)

    def _after_ms(self, ms: float) -> None:
        self._cancel_timer()
        self._timer = self._host.timers.at(self._host.clock.monotonic_ms() + ms, self.now)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ended(self) -> None:
        """Handle the end of a flush: `flushed_offset` moved, the log went offline, or no file could
        be opened.
        """
        log = self._log
        if log is None:
            return
        if log.flush_refused:
            # No descriptor or no room for it. Records stay unconfirmed, and nothing is lost: the
            # job put back what was due.
            self._after_ms(FLUSH_AGAIN_MS)
            return
        self._on_ended()
        # In group mode all that came while the flush ran is due. In kafka mode only what was sealed
        # meanwhile is; the rest waits for the policy.
        if self._host.flush_before_visible:
            self.counts.flush_ended()
            if log.needs_flush and not self._is_due:
                self._gather()
        elif log.has_unflushed_segments:
            self._at_end_of_turn()
        # A roll waited for this flush: all but the active segment is durable now
        # (`Log.defers_rolls`).
        if log.roll_due and log.health.failure is None:
            with contextlib.suppress(StorageFailed):  # the next append fails too
                log.roll_if_ready()
        if self._calls:
            self.call_waiting()
