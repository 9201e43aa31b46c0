"""The share coordinator: the persisted state of all share partitions of this broker.

The invariant: memory holds what a replay of `__share_group_state` gives. A change is appended there
first, and counts once it is committed. Changes of one share partition run one after another; those
that come while an append waits for its commit are appended together, as one batch.

A change is an update; after `updates_per_snapshot` of them a snapshot, which makes all records of
the share partition before it redundant. `prune` deletes what is redundant from the log.
Source: Kafka's ShareCoordinatorShard, ShareCoordinatorOffsetsManager.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from kqueue.base.clock import Clock
from kqueue.base.coordinators import CoordinatorPartitions, PartitionedTable, coordinator_error
from kqueue.base.errors import (
    FencedLeaderEpoch,
    FencedStateEpoch,
    KqueueError,
    MalformedMessage,
    NotCoordinator,
    PolicyViolation,
)
from kqueue.base.sliced_task import SlicedWork
from kqueue.share import records
from kqueue.share.share_state import UNCHANGED, SharePartitionKey, ShareState, ShareUpdate, updated
from kqueue.share.state_log import Done, StateEntry, StateLog, StateRecord

COLD_LAG = 10
"""A snapshot that so many records per share partition follow is repeated, so that it does not keep
them from being deleted. Each is repeated once in as many records, so the cost stays a tenth.
"""
COLD_LAG_MIN = 1000


BATCH_BYTES = 1 << 14
"""Changes are added to a batch below this size: far less than `max.message.bytes` allows."""

ReadDone = Callable[["ShareState | KqueueError | None"], None]


@dataclass(slots=True)
class _Known:
    """The coordinator's knowledge of a share partition. `state` None: it has none.

    Attributes:
        snapshot_offset: of its last snapshot, or below.
        updates: records since then.
    """

    state: ShareState | None = None
    snapshot_offset: int = 0
    updates: int = 0


Change = Callable[[_Known], StateRecord | KqueueError | None]
"""Returns the record that changes a share partition, or why it can't be changed; None: it is so
already.
"""


class _Queued(NamedTuple):
    """A change of one share partition, which runs after those before it."""

    change: Change
    done: Done


class _Entry:
    """One share partition. `known.state` None: its first record is on its way."""

    __slots__ = ("is_running", "known", "queue")

    def __init__(self) -> None:
        self.known = _Known()
        self.queue: deque[_Queued] = deque()  # without those that run
        self.is_running = False


class _Batch:
    """Changes that are appended together.

    Attributes:
        known: what is known of the share partition once the records are committed.
        records: those of the changes. Empty: nothing has to be appended.
        independent: number of changes before the first that has a record.
    """

    def __init__(self, known: _Known) -> None:
        self.known = known
        self.records: list[StateRecord] = []
        self.independent = 0
        self._outcomes: list[tuple[Done, KqueueError | None]] = []

    def add(self, done: Done, error: KqueueError | None) -> None:
        """Add a change that has a record, or needs none, or is refused."""
        self._outcomes.append((done, error))
        if not self.records:
            self.independent = len(self._outcomes)

    def report(self, error: KqueueError | None) -> None:
        """Call `done` of each change, with the outcome of the append or its own refusal.

        If the append failed, that is the outcome of all changes from its first record on: they
        were decided by what it would have changed.
        """
        for index, (done, refusal) in enumerate(self._outcomes):
            done(refusal if error is None or index < self.independent else error)


class ShareCoordinator:
    """All share partitions of one broker.

    Durability: when `done(None)` of a change is called, its record is committed in the log. A crash
        before loses the change, or keeps all of it.
    Thread: the owner thread.

    Args:
        updates_per_snapshot: returns the setting
            `share.coordinator.snapshot.update.records.per.snapshot`.
        keys_max: share partitions at most.
    """

    def __init__(
        self, log: StateLog, clock: Clock, updates_per_snapshot: Callable[[], int], keys_max: Callable[[], int]
    ) -> None:
        self._log = log
        self._clock = clock
        self._updates_per_snapshot = updates_per_snapshot
        self._keys_max = keys_max
        self.partitions = CoordinatorPartitions("share partition", lambda: log.partition_count)
        self._entries: PartitionedTable[SharePartitionKey, _Entry] = PartitionedTable(self.partition_of)

    def __len__(self) -> int:
        return len(self._entries)

    def partition_of(self, key: SharePartitionKey) -> int:
        """Return the partition of `__share_group_state` that keeps a share partition."""
        return self.partitions.of(key.coordinator_key)

    def keys(self) -> Iterator[SharePartitionKey]:
        """Yield the share partitions that have a state."""
        return (key for key, entry in self._entries.items() if entry.known.state is not None)

    def read(self, key: SharePartitionKey) -> ShareState | None:
        """Return the state of a share partition; None: it was never initialized.

        Raises: NotCoordinator: another broker has it, or its records can't be read.
            CoordinatorLoadInProgress: not yet.
        """
        self.partitions.check_readable(key.coordinator_key)
        return self._state(key)

    def read_for_leader(self, key: SharePartitionKey, leader_epoch: int, done: ReadDone) -> None:
        """Call `done` with the state, for the leader of the partition in this epoch; earlier
        leaders are refused from then on. Raises: as `read`.

        Args: leader_epoch: `UNCHANGED`: not checked.
            done: called with None: no state; FencedLeaderEpoch: a later leader has read it.
        """
        state = self.read(key)
        if state is None or leader_epoch in (UNCHANGED, state.leader_epoch):
            done(state)
        elif leader_epoch < state.leader_epoch:
            done(_fenced_leader(key, leader_epoch, state))
        else:
            noted = ShareUpdate(UNCHANGED, (), leader_epoch=leader_epoch)
            self.write(key, state.state_epoch, noted, lambda error: done(self._state(key) if error is None else error))

    def _state(self, key: SharePartitionKey) -> ShareState | None:
        entry = self._entries.get(key)
        return None if entry is None else entry.known.state

    # --- changes

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int, done: Done) -> None:
        """Begin, or reset, a share partition at `start_offset`. Raises PolicyViolation, as `read`.

        `done`: also with FencedStateEpoch: a later reset is in force.
        """
        if self.read(key) is None and len(self._entries) >= self._keys_max():
            raise PolicyViolation(
                f"group {key.group!r} can't read another partition: there are {len(self._entries)} share partitions "
                "already (kqueue.max.share.partitions)"
            )

        def change(known: _Known) -> StateRecord | KqueueError:
            state = known.state
            if state is not None and state_epoch < state.state_epoch:
                return FencedStateEpoch(f"expected state epoch {state.state_epoch} or later, found {state_epoch}")
            return self._snapshot(key, ShareState(start_offset, (), 0, state_epoch), state)

        self._change(key, change, done)

    def write(self, key: SharePartitionKey, state_epoch: int, update: ShareUpdate, done: Done) -> None:
        """Change a share partition. Raises: as `read`.

        `done`: also with FencedStateEpoch: the share partition was reset or deleted;
        FencedLeaderEpoch: a later leader has read it.
        """
        self.read(key)

        def change(known: _Known) -> StateRecord | KqueueError:
            state = known.state
            if state is None or state.state_epoch != state_epoch:
                actual = "it was deleted" if state is None else f"its state epoch is {state.state_epoch}"
                return FencedStateEpoch(
                    f"share partition {key.coordinator_key}: {actual}, the change has {state_epoch}"
                )
            if UNCHANGED < update.leader_epoch < state.leader_epoch:
                return _fenced_leader(key, update.leader_epoch, state)
            # A load replays a snapshot and at most so many updates; and what is before the snapshot
            # can be deleted.
            if known.updates >= self._updates_per_snapshot():
                return self._snapshot(key, updated(state, update), state)
            return records.update_key(key), records.update_value(update, state.snapshot_epoch)

        self._change(key, change, done)

    def delete(self, key: SharePartitionKey, done: Done) -> None:
        """Forget a share partition. Raises: as `read`."""
        if self.read(key) is None and key not in self._entries:
            done(None)
            return
        self._change(key, lambda known: None if known.state is None else (records.snapshot_key(key), None), done)

    def _snapshot(self, key: SharePartitionKey, state: ShareState, former: ShareState | None) -> StateRecord:
        now_ms = self._clock.wall_ms()
        if former is not None:
            state = state._replace(snapshot_epoch=former.snapshot_epoch + 1, created_ms=former.created_ms)
        else:
            state = state._replace(created_ms=now_ms)
        return records.snapshot_key(key), records.snapshot_value(state, now_ms)

    def _change(self, key: SharePartitionKey, change: Change, done: Done) -> None:
        """Append what `change` makes of the state once all changes before are committed."""
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry()
        entry.queue.append(_Queued(change, done))
        if not entry.is_running:
            self._run_queued(key, entry)

    def _run_queued(self, key: SharePartitionKey, entry: _Entry) -> None:
        """Append the changes that wait, batch by batch, until one has to wait for its commit."""
        entry.is_running = True  # what outcomes change in turn waits in the queue
        while entry.queue:
            if not self._append(key, entry, self._next_batch(key, entry)):
                return
        entry.is_running = False
        if entry.known.state is None and self._entries.get(key) is entry:
            del self._entries[key]

    def _next_batch(self, key: SharePartitionKey, entry: _Entry) -> _Batch:
        offset = self._log.end_offset(self.partition_of(key))
        batch = _Batch(replace(entry.known))
        size = 0
        while entry.queue and size < BATCH_BYTES:
            queued = entry.queue.popleft()
            made = queued.change(batch.known)
            if made is None or isinstance(made, KqueueError):
                batch.add(queued.done, made)
                continue
            batch.records.append(made)
            # Changes of a batch see each other's effect, in `batch.known`; `entry.known` stays what
            # is committed.
            batch.add(queued.done, None)
            _replay(batch.known, StateEntry(offset, *made))
            size += len(made[0]) + len(made[1] or b"")
        return batch

    def _append(self, key: SharePartitionKey, entry: _Entry, batch: _Batch) -> bool:
        """Append a batch; return whether it has its outcome. If not, that runs the next."""
        if not batch.records:
            batch.report(None)
            return True
        # The outcome may come within `append`, as in memory: then the loop in `_run_queued` goes
        # on, in place of a recursion for each batch.
        is_settled, is_waiting = False, False

        def appended(error: KqueueError | None) -> None:
            nonlocal is_settled
            is_settled = True
            if error is None:
                # Only now: what a read returns is in the log.
                entry.known = batch.known
            batch.report(None if error is None else coordinator_error(error))
            if is_waiting:
                self._run_queued(key, entry)

        partition = self.partition_of(key)
        settle = self.partitions.begin_write(partition, appended)
        if settle is not None:
            self._log.append(partition, batch.records, settle)
        is_waiting = not is_settled
        return is_settled

    # --- pruning

    def prune(self) -> SlicedWork[None]:
        """Delete the redundant records of each partition of the log; repeat old snapshots that keep
        others from being deleted.
        """
        first_needed: dict[int, int] = {}
        versions: dict[int, int] = {}
        for partition in range(self._log.partition_count):
            if self.partitions.is_active(partition):
                versions[partition] = self.partitions.version(partition)
                first_needed[partition] = self._log.end_offset(partition)  # all is redundant if it keeps no state
            yield None
        count: dict[int, int] = {}
        for key, entry in list(self._entries.items()):  # those that begin later write behind that end
            partition = self.partition_of(key)
            count[partition] = count.get(partition, 0) + 1
            if partition in first_needed:
                first_needed[partition] = min(entry.known.snapshot_offset, first_needed[partition])
            yield None
        for partition, offset in first_needed.items():
            if offset and self.partitions.version(partition) == versions[partition]:
                self._log.delete_before(partition, offset)
            yield None
        for key in list(self.keys()):
            current = self._entries.get(key)
            partition = self.partition_of(key)
            lag = max(COLD_LAG * count.get(partition, 0), COLD_LAG_MIN)
            if current is None or current.is_running:
                pass  # the next call finds it again
            elif self._log.end_offset(partition) - current.known.snapshot_offset > lag:
                self._repeat(key)
            yield None

    def _repeat(self, key: SharePartitionKey) -> None:
        def change(known: _Known) -> StateRecord | KqueueError:
            if known.state is None:
                return FencedStateEpoch("it was deleted meanwhile")
            return self._snapshot(key, known.state, known.state)

        self._change(key, change, lambda error: None)

    # --- replay

    def require_load(self) -> None:
        """Answer NotCoordinator for each share partition until its partition was loaded."""
        self.partitions.require_load()

    def begin_loading(self, partition: int) -> None:
        """Refuse what the partition keeps until `load` or `refuse` has ended."""
        self.partitions.mark_loading(partition)

    def load(self, partition: int, log_records: Iterable[StateEntry]) -> SlicedWork[None]:
        """Replay one partition of the log in steps. Raises: MalformedMessage: a record can't be
        read; nothing has changed. A load that is broken off changes nothing either.
        """
        loaded: dict[SharePartitionKey, _Entry] = {}
        try:
            for record in log_records:
                read = records.read_key(record.key)
                if read is not None:
                    entry = loaded.setdefault(read.key, _Entry())
                    _replay(entry.known, record)
                    if entry.known.state is None:
                        del loaded[read.key]
                yield None
        except MalformedMessage as error:
            raise MalformedMessage(f"partition {partition} of the share state topic: {error}") from None
        self._entries.update(loaded)
        self.partitions.mark_loaded(partition)

    def unload(self, partition: int) -> SlicedWork[None]:
        """Answer NotCoordinator for what the partition keeps, which another broker coordinates now;
        the changes under way fail with it.

        Returns: the work that removes the states from memory, to be run to its end before the next
            `load`. Nothing is written.
        """
        # Emptied before `mark_left` fails the appends under way, whose ends would run what waits.
        waiting: list[Done] = []
        for key in self._entries.keys_of(partition):
            queue = self._entries[key].queue
            waiting.extend(queue.pop().done for _ in range(len(queue)))
        self.partitions.mark_left(partition)
        for done in reversed(waiting):
            done(NotCoordinator(f"this broker stopped to be the coordinator of partition {partition}"))
        return self._remove(partition)

    def _remove(self, partition: int) -> SlicedWork[None]:
        for key in self._entries.keys_of(partition):
            del self._entries[key]
            yield None

    def refuse(self, partition: int, reason: str) -> None:
        """Refuse what the partition keeps: its records can't be read."""
        self.partitions.mark_unreadable(partition, reason)


def _fenced_leader(key: SharePartitionKey, leader_epoch: int, state: ShareState) -> KqueueError:
    return FencedLeaderEpoch(
        f"share partition {key.coordinator_key}: a leader in epoch {state.leader_epoch} has read it, "
        f"the request is of epoch {leader_epoch}"
    )


def _replay(known: _Known, record: StateEntry) -> None:
    """Apply a record. Raises MalformedMessage."""
    read = records.read_key(record.key)
    assert read is not None
    if record.value is None:
        known.state = None
    elif read.is_snapshot:
        known.state = records.read_snapshot(record.value)
        known.snapshot_offset, known.updates = record.offset, 0
    elif known.state is not None:  # else its snapshot was deleted with the share partition
        known.state = updated(known.state, records.read_update(record.value))
        known.updates += 1
