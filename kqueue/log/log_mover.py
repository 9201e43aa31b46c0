"""Moves logs between the data folders of a broker while they are used (AlterReplicaLogDirs).

The invariant: at each moment one folder has every flushed record of the partition, and a start
finds it. The steps of a move, each durable before the next:

1. A folder `<topic>-<partition>.<32 hex digits>-future` is made in the target folder.
2. Jobs copy the log into it, a few MiB each, and sync what they wrote (`future_replica`). Appends
   go on; segments are neither deleted nor compacted meanwhile.
3. When little is left, the checkpoints of the target get the partition's offsets.
4. Appends wait. The last step copies the rest, leader epochs and producers.
5. `kqueue-moved-partitions` of the target gets an entry: the move is committed.
6. The copy gets the partition's name. The log is opened there with the state that is in memory, and
   appends go on. Readers of the old files are not disturbed: they hold them open.
7. The old folder is renamed to `…-delete` and deleted.
8. The entry is removed.

A crash before step 5 leaves the log where it was; the next start removes the copy and begins the
move again. After step 5 the next start finishes steps 6 to 8. Source: KIP-113, Kafka's
ReplicaAlterLogDirsThread, which has no commit: two folders of the same name stop its next start.
"""

from __future__ import annotations

import enum
import logging
import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.errors import DiskFull, KqueueError, LogDirNotFound, StorageFailed
from kqueue.base.jobs import IoJob, Jobs
from kqueue.base.names import random_uuid
from kqueue.base.sliced_task import QueuedCall, SlicedWork
from kqueue.base.timers import Timers
from kqueue.log.checkpoint_writer import note_log_start
from kqueue.log.deletion import remove_folder
from kqueue.log.folders.checkpoint_file import all_of
from kqueue.log.folders.data_folder import DataFolder
from kqueue.log.folders.data_folders import DataFolders
from kqueue.log.folders.log_dirs import FutureSize
from kqueue.log.folders.partition_folders import TopicPartition, make_partition_folder
from kqueue.log.formats.checkpoints import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from kqueue.log.formats.moved_partitions import MovedPartition, future_folder
from kqueue.log.future_replica import STEP_BYTES, CopyStep, FutureReplica
from kqueue.log.log import Log
from kqueue.log.recovery.recovered_log import RecoveredLog

logger = logging.getLogger("kqueue.log")
TAIL_BYTES_MIN = 1024 * 1024
TAIL_DOUBLINGS_MAX = 4
"""Appends wait when so little is left; each round that did not get there doubles the bound."""
AGAIN_MS = 1000
STEP_BYTES_MIN = 64 * 1024
Reopen = Callable[[TopicPartition, DataFolder, RecoveredLog, Log], Log]
CHECKPOINTS = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS)


class MoveState(enum.Enum):
    """The states of a move. Only one move copies at a time; a stop or `cancel` ends any state."""

    WAITING = "waiting"
    COPYING = "copying"
    SWAPPING = "swapping"
    ENDED = "ended"


TRANSITIONS = {
    MoveState.WAITING: {MoveState.COPYING, MoveState.ENDED},
    MoveState.COPYING: {MoveState.SWAPPING, MoveState.ENDED},
    MoveState.SWAPPING: {MoveState.COPYING, MoveState.ENDED},
    MoveState.ENDED: set(),
}


class Move:
    """One move. `replica`: None before the folder is made. `path`: the future folder's."""

    def __init__(self, key: TopicPartition, target: DataFolder, path: str) -> None:
        self.key = key
        self.target = target
        self.path = path
        self.replica: FutureReplica | None = None
        self.state = MoveState.WAITING
        self.rounds = 0

    def to(self, state: MoveState) -> None:
        """Change the state. An invalid change is a bug."""
        assert state in TRANSITIONS[self.state], f"{self.state} to {state}"
        self.state = state


class Runtime(NamedTuple):
    """The runtime of a broker."""

    jobs: Jobs
    timers: Timers
    clock: Clock
    rng: random.Random


class MoveHost(Protocol):
    """The part of the broker that moves use."""

    def log_to_move(self, key: TopicPartition) -> tuple[Log, bytes] | None:
        """Return the open log and its topic id; None: not now, the log is being cleaned.

        Raises: KqueueError: there is no such log, or it is offline.
        """

    def run_without_appends(self, key: TopicPartition, steps: SlicedWork[None]) -> None:
        """Run `steps` to their end while nothing is appended to the partition."""

    def use_log(self, key: TopicPartition, log: Log) -> None:
        """Use this log for the partition from now on."""

    def move_ended(self, key: TopicPartition) -> None:
        """The partition may be cleaned again."""


class LogMover:
    """All moves of one broker. Belongs to the owner thread.

    Args:
        logs: the open logs.
        reopen: `reopen(topic_partition, target, recovered, old)` opens the moved log in place of
            the old one.
        bytes_per_s: the limit of the copies' rate, asked before each step.
    """

    def __init__(
        self,
        logs: Mapping[TopicPartition, Log],
        folders: DataFolders,
        reopen: Reopen,
        runtime: Runtime,
        host: MoveHost,
        bytes_per_s: Callable[[], int],
    ) -> None:
        self._logs = logs
        self._folders = folders
        self._reopen = reopen
        self._jobs, self._timers, self._clock, self._rng = runtime
        self._host = host
        self._bytes_per_s = bytes_per_s
        self._moves: dict[TopicPartition, Move] = {}
        self._active: Move | None = None
        self._stopped = False

    def of(self, key: TopicPartition) -> Move | None:
        """Return the partition's move; None: it is not being moved."""
        return self._moves.get(key)

    def future_sizes(self, target: DataFolder) -> dict[TopicPartition, FutureSize]:
        """Return how far the copies in a data folder are."""
        return {
            key: FutureSize(move.replica.copied_bytes, move.replica.log.end_offset - move.replica.copied_offset)
            for key, move in self._moves.items()
            if move.target is target and move.replica is not None
        }

    def folder_at(self, place: str) -> DataFolder:
        """Return the data folder of this path.

        Raises: LogDirNotFound: it is none of `log.dirs`. StorageFailed: it is offline.
        """
        folder = self._folders.at(place)
        if folder is not None and folder.lost is None:
            return folder
        if folder is not None or any(offline.place == place for offline in self._folders.offline):
            raise StorageFailed(f"data folder {place} is offline")
        places = ", ".join(folder.storage.location for folder in self._folders)
        raise LogDirNotFound(f"expected a folder of log.dirs ({places}), found {place!r}")

    def alter(self, key: TopicPartition, target: DataFolder) -> None:
        """Bring a partition's log to a data folder; no effect where it is there, or on its way.

        A partition without a folder is created there.
        Raises: StorageFailed: a data folder is offline, and may hold the partition.
        """
        move = self._moves.get(key)
        if move is not None and move.target is not target:
            self.cancel(key, f"it is to be in {target.storage.location}")
        source = self._folders.of(key)
        if source is None:
            self._folders.prefer(key, target)
        elif source is not target and key not in self._moves:
            if self._folders.offline:
                raise StorageFailed(f"no log is moved while {self._folders.offline[0].place} is offline")
            self.start(key, target)

    def start(self, key: TopicPartition, target: DataFolder) -> None:
        """Move a partition's log, which is not being moved, to another data folder."""
        self._moves[key] = Move(key, target, future_folder(*key, random_uuid(self._rng).hex()))
        events.MOVE_STARTED.log(
            logger, "%s-%d is being moved to %s", topic=key[0], partition=key[1], target=target.storage.location
        )
        self._go_on()

    def cancel(self, key: TopicPartition, why: str) -> None:
        """End a partition's move; the log stays where it is. No effect if there is none."""
        move = self._moves.get(key)
        if move is not None:
            events.MOVE_GIVEN_UP.log(
                logger,
                "%s-%d is not moved to %s: %s",
                topic=key[0],
                partition=key[1],
                target=move.target.storage.location,
                reason=why,
            )
            self._end(move)

    def stop(self) -> None:
        """Begin no more steps; the next start begins the moves again."""
        self._stopped = True

    def _end(self, move: Move) -> None:
        was_waiting = move.state is MoveState.WAITING
        was_swapping = move.state is MoveState.SWAPPING
        move.to(MoveState.ENDED)
        del self._moves[move.key]
        self._host.move_ended(move.key)
        if not was_waiting and not was_swapping:
            self._remove(move)
        if self._active is move and not was_swapping:  # else the swap's end continues
            self._active = None
        self._go_on()

    def _remove(self, move: Move) -> None:
        """Remove the copy in a job: behind its step that may be running."""
        storage, path = move.target.storage, move.path

        def removed(_: None, error: BaseException | None) -> None:
            if error is not None:
                events.FILES_NOT_REMOVED.log(
                    logger,
                    "%s: %s could not be removed, the next start tries again: %s",
                    location=storage.location,
                    path=path,
                    error=error,
                )

        self._submit(move, f"remove {path}", lambda: remove_folder(storage, path), removed)

    def _submit(
        self, move: Move, name: str, run: Callable[[], None], finish: Callable[[None, BaseException | None], None]
    ) -> None:
        self._jobs.submit(IoJob(name, run, finish, f"moves to {move.target.storage.location}"))

    def _later(self, ms: float, call: Callable[[], None]) -> None:
        self._timers.at(self._clock.monotonic_ms() + ms, call)

    def _go_on(self) -> None:
        if self._active is None and self._moves and not self._stopped:
            self._active = next(iter(self._moves.values()))
            self._begin(self._active)

    # --- copying

    def _begin(self, move: Move) -> None:
        if move.state is MoveState.ENDED or self._stopped:
            return
        try:
            to_move = self._host.log_to_move(move.key)
        except KqueueError as error:
            self._fail(move, error)
            return
        if to_move is None:
            self._later(AGAIN_MS, lambda: self._begin(move))
            return
        log, topic_id = to_move
        if move.state is MoveState.WAITING:
            move.to(MoveState.COPYING)
        storage = move.target.storage

        def made(_: None, error: BaseException | None) -> None:
            if move.state is MoveState.ENDED:
                return
            if error is not None:
                self._fail(move, error)
            else:
                move.replica = FutureReplica(log, storage, move.path)
                self._copy(move)

        self._submit(move, f"make {move.path}", lambda: make_partition_folder(storage, move.path, topic_id), made)

    def _fail(self, move: Move, error: BaseException) -> None:
        events.MOVE_FAILED.log(
            logger,
            "%s-%d can't be moved to %s, it stays where it is: %s",
            topic=move.key[0],
            partition=move.key[1],
            target=move.target.storage.location,
            error=error,
        )
        self._end(move)

    def _copy(self, move: Move) -> None:
        replica = move.replica
        if move.state is not MoveState.COPYING or self._stopped or replica is None:
            return
        if replica.log.health.failure is not None:
            self._fail(move, replica.log.health.failure)
            return
        try:
            move.target.space.check_room_for(replica.remaining_bytes)
        except DiskFull as error:  # rather than let the target's other logs find no room
            self._fail(move, error)
            return
        bytes_per_s = self._bytes_per_s()
        step = replica.next_step(max(STEP_BYTES_MIN, min(STEP_BYTES, bytes_per_s // 4)))
        if step is None or replica.remaining_bytes <= TAIL_BYTES_MIN << min(move.rounds, TAIL_DOUBLINGS_MAX):
            self._save_checkpoints(move, replica)
            return
        began_ms = self._clock.monotonic_ms()
        # A round ends with the active segment. Appends that keep pace with the copy would never let
        # it end; see `TAIL_DOUBLINGS_MAX`.
        move.rounds += replica.log.segments.active.base == step.parts[0].base

        def copied(_: None, error: BaseException | None) -> None:
            if move.state is not MoveState.COPYING:
                return
            if error is not None:
                self._fail(move, error)
                return
            replica.done(step)
            wait_ms = 1000 * step.size / bytes_per_s - (self._clock.monotonic_ms() - began_ms)
            if wait_ms >= 1:
                self._later(wait_ms, lambda: self._copy(move))
            else:
                self._copy(move)

        self._submit(move, f"copy {replica.log.folder}", step.run, copied)

    # --- replacing the log

    def _save_checkpoints(self, move: Move, replica: FutureReplica) -> None:
        target, log, key = move.target, replica.log, move.key
        start = log.pending_start_offset
        copied = max(min(replica.copied_offset, log.flushed_offset), start)
        target.recovery_points[key] = copied
        source = self._folders.of(key)
        target.high_watermarks[key] = min(source.high_watermarks.get(key, copied) if source else copied, copied)
        note_log_start(target, key, log)

        def saved(error: BaseException | None) -> None:
            if move.state is not MoveState.COPYING or self._stopped:
                return
            if error is not None:
                self._fail(move, error)
                return
            move.to(MoveState.SWAPPING)
            self._host.run_without_appends(key, self._swap(move, replica, start))

        finish = all_of(len(CHECKPOINTS), saved)
        for name in CHECKPOINTS:
            target.save(name, finish)

    def _swap(self, move: Move, replica: FutureReplica, start: int) -> SlicedWork[None]:
        """Steps 4 to 6, then the end of the move."""
        try:
            is_moved = yield from self._replace_log(move, replica, start)
        except Exception as error:  # a storage may be a plugin's
            self._swap_failed(move, error)
            return
        if move.state is MoveState.ENDED:
            self._swap_failed(move, StorageFailed("it was cancelled"))
        elif not is_moved:  # a log start has moved meanwhile
            move.to(MoveState.COPYING)
            self._copy(move)
        else:
            move.to(MoveState.ENDED)
            del self._moves[move.key]
            self._active = None
            self._host.move_ended(move.key)
            self._forget_entry_later(move.target, move.key)
            self._go_on()

    def _swap_failed(self, move: Move, error: BaseException) -> None:
        if move.state is MoveState.ENDED:
            self._remove(move)
            self._active = None
            self._go_on()
        else:
            move.to(MoveState.COPYING)
            self._fail(move, error)

    def _replace_log(self, move: Move, replica: FutureReplica, start: int) -> SlicedWork[bool]:
        """Return whether the log was replaced. Raises: StorageFailed: it stays where it is."""
        log, target, source = replica.log, move.target, self._folders.of(move.key)
        if log.health.failure is not None:
            raise log.health.failure
        if move.state is not MoveState.SWAPPING or source is None or log.pending_start_offset != start:
            return False
        step = replica.last_step()
        yield self._disk_work(target, step.run)
        replica.done(step)
        topic_id = source.partitions[move.key].topic_id if move.key in source.partitions else None
        moved = MovedPartition(*move.key, topic_id or bytes(16), move.path, step.segments[-1].base, step.active_size)
        yield self._disk_work(target, partial(_commit, self._folders, target, moved))
        if log.pending_start_offset != start:
            yield self._disk_work(target, partial(target.moved.remove, move.key))
            return False
        try:
            if move.state is not MoveState.SWAPPING or self._logs.get(move.key) is not log:
                raise StorageFailed(f"{log.folder} was deleted, or its move was cancelled")
            if log.health.failure is not None:
                raise log.health.failure
            self._replace(move, replica, step, source)
        except Exception:
            yield self._disk_work(target, partial(target.moved.remove, move.key))
            raise
        return True

    @staticmethod
    def _disk_work(target: DataFolder, run: Callable[[], None]) -> QueuedCall:
        return QueuedCall(run, f"moves to {target.storage.location}")

    def _replace(self, move: Move, replica: FutureReplica, step: CopyStep, source: DataFolder) -> None:
        """Give the copy the partition's name and open it; queue the old folder for deletion.

        Raises: StorageFailed: nothing was changed.
        """
        key, log, target = move.key, replica.log, move.target
        replaced, cleaned = source.partitions[key], source.cleaner_offsets.get(key)
        target.adopt(key, move.path, replaced.topic_id)
        try:
            new = self._reopen(key, target, replica.recovered(step), log)
        except Exception:
            target.disown(key, move.path)
            raise
        if cleaned is not None:
            target.cleaner_offsets[key] = cleaned
        log.on_flushed = None
        self._host.use_log(key, new)
        source.remove_soon(key, random_uuid(self._rng).hex(), log)
        events.MOVE_ENDED.log(
            logger,
            "%s-%d was moved from %s to %s: %d bytes",
            topic=key[0],
            partition=key[1],
            source=source.storage.location,
            target=target.storage.location,
            bytes=new.segments.size,
        )

    # --- after a move, and after a start

    def _forget_entry_later(self, target: DataFolder, key: TopicPartition) -> None:
        """Remove the entry of a move in a job, once the old folder is gone."""

        def look() -> None:
            if self._stopped:
                return
            if self._folders.offline or any(folder.is_removing() for folder in self._folders):
                self._later(AGAIN_MS, look)
                return
            self._jobs.submit(IoJob("forget a moved partition", forget, forgotten, target.storage.location))

        def forget() -> None:
            target.storage.sync_folder("")
            target.moved.remove(key)

        def forgotten(_: None, error: BaseException | None) -> None:
            if error is not None:
                events.MOVE_FAILED.log(logger, "%s: %s", target=target.storage.location, error=error)

        self._later(AGAIN_MS, look)

    def resume(self) -> None:
        """Begin the moves again that the last stop has interrupted. Call it once, after the start.

        Their copies are removed: after a crash it is unknown which of their bytes are on disk.
        """
        for target in self._folders:
            for key in target.moved.entries:
                self._forget_entry_later(target, key)
            futures, target.moved.futures = target.moved.futures, {}
            for key, paths in futures.items():
                source = self._folders.of(key)
                if source is None or source is target:
                    events.MOVE_COPY_LEFT.log(
                        logger,
                        "%s: %s is the unfinished copy of a partition that is in no other data folder: remove it "
                        "if it is not needed",
                        location=target.storage.location,
                        paths=", ".join(paths),
                    )
                    continue
                self.start(key, target)
                for path in paths:
                    self._remove(Move(key, target, path))


def _commit(folders: DataFolders, target: DataFolder, moved: MovedPartition) -> None:
    """Write the entry of a move. An earlier move the other way must not be finished any more."""
    for folder in folders:
        if folder is not target:
            folder.moved.remove(moved.key)
    target.moved.commit(moved)
