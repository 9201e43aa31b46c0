"""Cuts a log in a job: truncates a follower's (rule 19), or restarts it at another offset.

    begin    it counts as flushed up to its start only, so that no checkpoint says more than remains
    lock     it refuses everything with StorageUnavailable, once the checkpoints are on their way
    run      in a job, when recovery point and log start are on disk
    end      it goes on; after a failure it is offline

A cut that finds no room leaves what a crash leaves. Its owner closes the log, and recovers it from
its files; any other failure is final until the next start.

A log restarts empty. Without a remote tier it starts at that offset. With one, a `RestartState`
says where it starts, and what its epochs and producers are: the tier has the records in between.

Crash: before `run` nothing has changed but the log start. A truncation leaves any end between the
two. A restart leaves the old log, some of its segments, or an empty log at the old or the new
offset. Unless that is the new one, the leader finds the follower outside of its local log, or with
epochs that end elsewhere, and it restarts once more.
Source: Kafka's UnifiedLog.truncateTo, truncateFullyAndStartAt, TierStateMachine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kqueue.base.errors import CorruptData, CorruptIndex, StorageFailed, StorageUnavailable
from kqueue.log.formats.leader_epochs import LeaderEpochCache
from kqueue.log.formats.producer_snapshot import decode_snapshot, encode_snapshot
from kqueue.log.log import Log
from kqueue.log.log_state import LogState
from kqueue.log.producer_state import ProducerStateManager


class RestartState(NamedTuple):
    """The state of a tiered log at the offset where its local part restarts.

    Attributes:
        start_offset: the log start, at most that offset.
        epochs: (leader epoch, first offset) from the log start on; those that begin at or above the
            offset are ignored. Empty: unknown.
        producer_snapshot: bytes of `<offset>.snapshot`; empty: no producer is known.
    """

    start_offset: int
    epochs: Sequence[tuple[int, int]]
    producer_snapshot: bytes


class LogCut:
    """One cut. Thread: owner thread, but for `run`.

    Args:
        offset: the log end from then on. A truncation's is within the local log; a batch that holds
            it goes whole.
        restarts: all records go, and the log restarts at `offset`: above its end, and without a
            state it starts there.
        state: of a log with a remote tier, which restarts at any offset.
    Raises: CorruptIndex: the state can't be used, nothing was done.
    """

    def __init__(self, log: Log, offset: int, *, restarts: bool = False, state: RestartState | None = None) -> None:
        self.log = log
        self.offset = offset
        self.restarts = restarts or state is not None
        self._state = _LoadedState(state, offset) if state is not None else None
        self._limit = log._producer_limit
        self._on_truncate = log.on_truncate
        self._flushed_offset = log.flushed_offset
        self._pending_start = log.pending_start_offset

    def begin(self) -> None:
        """Count as flushed up to the log start only; checkpoints forget the start of a log that
        restarts, or say that of the state.
        """
        log = self.log
        # Checkpoints are written by other timers too. From here on none may name an offset that the
        # cut removes.
        flushed = log.start_offset
        if self.restarts:
            start = self.offset if self._state is None else self._state.start_offset
            # Not above the old end: after a crash before `run` the log would go on there, as an
            # empty one. A checkpoint below the new start costs nothing, the leader says that start
            # again. Without a tier none at all: each segment may be the first one.
            start = min(start, log.end_offset) if log.config.tiered else 0
            log.pending_start_offset = start
            flushed = min(flushed, start, log.segments.base_offset)
        log.flusher.truncated(flushed)

    def lock(self) -> None:
        """Refuse everything from now on."""
        log = self.log
        log.health.suspend(StorageUnavailable(f"{log.folder} is being truncated: try again"))
        # Both belong to the owner thread; `run` replaces the producers in another one.
        log.on_truncate = log._producer_limit = None
        if self._limit is not None:
            self._limit.unwatch(log.producers)

    def run(self) -> None:
        """Cut the log. Durable on return. Raises: StorageFailed."""
        try:
            self._run()
        except StorageUnavailable as error:
            # The log will be opened again from its files: none may be of a segment that it has
            # deleted.
            try:
                self.log.segments.finish_deletions()
            except StorageFailed as failed:
                raise StorageFailed(f"{error}; {failed}") from error
            raise

    def _run(self) -> None:
        log = self.log
        try:
            if not self.restarts:
                log._truncate(self.offset)
                return
            # The new segment may have the name of one whose deletion waits for a job.
            log.segments.finish_deletions()
            log._truncate(log.segments.base_offset)
            if self._state is None:
                self._restart()
            else:
                self._restart_with(self._state)
            log.lacks_start = False
            log.note_local_start()
        except CorruptData as error:
            raise StorageFailed(f"{log.folder}: can't be cut at {self.offset}: {error}") from error

    def _restart(self) -> None:
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
        log.segments.snapshots.remove_above(-1)
        log.flusher.folder_changed()
        log.start_offset = log.pending_start_offset = offset

    def _restart_with(self, state: _LoadedState) -> None:
        """As `_restart`, with `state` below `offset`.

        Each step is durable before the next: the snapshot, the new segment, the end of the old one,
        the epochs. The new epochs come last. With them an old segment above `offset` would pass for
        a log that agrees with its leader, and the records in between would be nowhere.
        """
        log, offset, segments = self.log, self.offset, self.log.segments
        segments.snapshots.put(encode_snapshot(state.producers), offset)
        log.end_offset = offset
        if segments.base_offset != offset:
            segments.begin_at(offset, log._clock.wall_ms())
            log.flusher.folder_changed()
            log.flusher.run_now(offset, segments.active, log.epochs)
            segments.remove_first()
            log.storage.sync_folder(log.folder)
        log.producers = state.producers
        log.epochs.replace(state.epochs.entries())
        log.flusher.run_now(offset, segments.active, log.epochs)
        segments.snapshots.remove_others(offset)
        log.start_offset = log.pending_start_offset = state.start_offset
        log.tiered_end = offset

    def end(self, error: BaseException | None) -> StorageFailed | None:
        """Use the log again, if `run` did not fail.

        Returns: why it is offline; None: it is not. StorageUnavailable: the disk is not to blame,
            and the log may be recovered from its files.
        """
        log = self.log
        if log.health.state is LogState.OFFLINE:  # deleted, or its folder was lost
            return log.health.failure
        self._unlock()
        if error is None:
            if not self.restarts:
                log.flusher.flushed_offset = min(self._flushed_offset, log.end_offset)
            return None
        if isinstance(error, StorageUnavailable):
            log.take_offline(error)
            return error
        failure = error if isinstance(error, StorageFailed) else StorageFailed(f"{log.folder}: {error!r}")
        log._fail(failure, LogState.OFFLINE)
        return failure

    def cancel(self) -> None:
        """Use the log again, as it was: `run` was not called."""
        if self.log.health.state is not LogState.OFFLINE:
            self._unlock()
            self.log.flusher.flushed_offset = self._flushed_offset
            self.log.pending_start_offset = self._pending_start

    def _unlock(self) -> None:
        self.log.health.resume()
        self.log.on_truncate = self._on_truncate
        if self._limit is not None:
            self.log.limit_producers(self._limit)


class _LoadedState:
    """A `RestartState`, read and checked. Raises: CorruptIndex."""

    def __init__(self, state: RestartState, offset: int) -> None:
        if not 0 <= state.start_offset <= offset:
            raise CorruptIndex(f"a log that restarts at {offset} can't start at {state.start_offset}")
        self.start_offset = state.start_offset
        self.epochs = LeaderEpochCache()
        self.epochs.replace(state.epochs)
        self.epochs.truncate_from_start(state.start_offset)
        self.epochs.truncate_from_end(offset)
        if state.producer_snapshot:
            self.producers = decode_snapshot(state.producer_snapshot, offset)
        else:
            self.producers = ProducerStateManager()
            self.producers.end_offset = offset
