"""Cuts a follower's log in a job: truncates it (rule 19), or begins it anew further on.

    begin    it counts as flushed up to its start only, so that no checkpoint says more than remains
    lock     it refuses everything with StorageUnavailable, once the recovery point is on its way
    run      in a job, when the recovery point is on disk
    end      it goes on; after a failure it is offline

Crash: before `run` nothing has changed. A truncation leaves any end between the two. A new
beginning leaves the old log, some of its segments, or an empty log at the old or the new offset: in
all of these the follower is below the leader's log start again, and begins anew once more.
Source: Kafka's UnifiedLog.truncateTo, truncateFullyAndStartAt.
"""

from __future__ import annotations

from kqueue.base.errors import CorruptData, StorageFailed, StorageUnavailable
from kqueue.log.log import Log
from kqueue.log.log_state import LogState
from kqueue.log.producer_state import ProducerStateManager


class LogCut:
    """One cut. Thread: owner thread, but for `run`.

    Args:
        offset: the log end from then on, within the log; a batch that holds it goes whole.
        restarts: all records go, and the log starts at `offset`, above its end.
    """

    def __init__(self, log: Log, offset: int, *, restarts: bool = False) -> None:
        self.log = log
        self.offset = offset
        self.restarts = restarts
        self._limit = log._producer_limit
        self._on_truncate = log.on_truncate
        self._flushed_offset = log.flushed_offset

    def begin(self) -> None:
        """Count as flushed up to the log start only."""
        # Checkpoints are written by other timers too. From here on none may name an offset that the
        # cut removes.
        self.log.flusher.truncated(self.log.start_offset)

    def lock(self) -> None:
        """Refuse everything from now on."""
        log = self.log
        log.health.suspend(StorageUnavailable(f"{log.folder} is being truncated: try again"))
        # Both belong to the owner thread; `run` replaces the producers in another one.
        log.on_truncate = log._producer_limit = None
        if self._limit is not None:
            self._limit.unwatch(log.producers)

    def run(self) -> None:
        """Cut the log. Durable on return, but for the log start checkpoint.

        Raises: StorageFailed.
        """
        log = self.log
        try:
            log._truncate(log.segments.base_offset if self.restarts else self.offset)
            if self.restarts:
                self._begin_anew()
        except CorruptData as error:
            raise StorageFailed(f"{log.folder}: can't be cut at {self.offset}: {error}") from error

    def _begin_anew(self) -> None:
        """Replace the only segment, which is empty, by an empty one at `offset`."""
        log, offset = self.log, self.offset
        log.producers = ProducerStateManager()
        log.producers.end_offset = offset
        log.epochs.clear()
        log.end_offset = offset
        log.segments.begin_at(offset, log._clock.wall_ms())
        # the new name and the empty epochs before the old name goes, else the start was missing
        log.flusher.folder_changed()
        log.flusher.run_now(offset, log.segments.active, log.epochs)
        log.segments.remove_first()
        log.flusher.folder_changed()
        log.start_offset = log.pending_start_offset = offset

    def end(self, error: BaseException | None) -> StorageFailed | None:
        """Use the log again, if `run` did not fail. Returns: why it is offline; None: it is not."""
        log = self.log
        if log.health.state is LogState.OFFLINE:  # deleted, or its folder was lost
            return log.health.failure
        self._unlock()
        if error is None:
            if not self.restarts:
                log.flusher.flushed_offset = min(self._flushed_offset, log.end_offset)
            return None
        failure = error if isinstance(error, StorageFailed) else StorageFailed(f"{log.folder}: {error!r}")
        log._fail(failure, LogState.OFFLINE)
        return failure

    def cancel(self) -> None:
        """Use the log again, as it was: `run` was not called."""
        if self.log.health.state is not LogState.OFFLINE:
            self._unlock()
            self.log.flusher.flushed_offset = self._flushed_offset

    def _unlock(self) -> None:
        self.log.health.resume()
        self.log.on_truncate = self._on_truncate
        if self._limit is not None:
            self.log.limit_producers(self._limit)
