"""The share coordinator: the persisted state of all share partitions of this broker.

The invariant: memory holds what a replay of `__share_group_state` gives. A change is appended there
first, and counts once it is committed. Changes of one share partition run one after another.

A change is an update; after `updates_per_snapshot` of them a snapshot, which makes all records of
the share partition before it redundant. `prune` deletes what is redundant from the log.
Source: Kafka's ShareCoordinatorShard, ShareCoordinatorOffsetsManager.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
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


ReadDone = Callable[["ShareState | KqueueError | None"], None]
Change = Callable[[ShareState | None], StateRecord | KqueueError]
"""Returns the record that makes a state another one, or why it can't be."""


class _Queued(NamedTuple):
    """A change of one share partition, which runs after those before it."""

    change: Change
    done: Done


class _Entry:
    """One share partition. `state` None: its first record is on its way."""

    __slots__ = ("queue", "snapshot_offset", "state", "updates")

    def __init__(self, state: ShareState | None = None, snapshot_offset: int = 0) -> None:
        self.state = state
        self.snapshot_offset = snapshot_offset  # of its last snapshot, or below
        self.updates = 0  # since then
        self.queue: deque[_Queued] = deque()  # the first is running


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
        return (key for key, entry in self._entries.items() if entry.state is not None)

    def read(self, key: SharePartitionKey) -> ShareState | None:
        """Return the state of a share partition; None: it was never initialized.

        Raises: NotCoordinator: another broker has it, or its records can't be read.
            CoordinatorLoadInProgress: not yet.
        """
        self.partitions.check_readable(key.coordinator_key)
        entry = self._entries.get(key)
        return None if entry is None else entry.state

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
        return None if entry is None else entry.state

    # --- changes

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int, done: Done) -> None:
        """Begin, or reset, a share partition at `start_offset`. Raises PolicyViolation, as `read`.

        `done`: also with FencedStateEpoch: a later reset is in force.
        """
        known = self.read(key)
        if known is None and len(self._entries) >= self._keys_max():
            raise PolicyViolation(
                f"group {key.group!r} can't read another partition: there are {len(self._entries)} share partitions "
                "already (kqueue.max.share.partitions)"
            )

        def change(state: ShareState | None) -> StateRecord | KqueueError:
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

        def change(state: ShareState | None) -> StateRecord | KqueueError:
            if state is None or state.state_epoch != state_epoch:
                found = "it was deleted" if state is None else f"its state epoch is {state.state_epoch}"
                return FencedStateEpoch(f"share partition {key.coordinator_key}: {found}, the change has {state_epoch}")
            if UNCHANGED < update.leader_epoch < state.leader_epoch:
                return _fenced_leader(key, update.leader_epoch, state)
            if self._entries[key].updates >= self._updates_per_snapshot():
                return self._snapshot(key, updated(state, update), state)
            return records.update_key(key), records.update_value(update, state.snapshot_epoch)

        self._change(key, change, done)

    def delete(self, key: SharePartitionKey, done: Done) -> None:
        """Forget a share partition. Raises: as `read`."""
        if self.read(key) is None and key not in self._entries:
            done(None)
            return
        self._change(key, lambda state: (records.snapshot_key(key), None), done)

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
        if len(entry.queue) == 1:
            self._run_first(key, entry)

    def _run_first(self, key: SharePartitionKey, entry: _Entry) -> None:
        made = entry.queue[0].change(entry.state)
        if isinstance(made, KqueueError):
            self._end_first(key, entry, made)
            return
        record = made
        partition = self.partition_of(key)
        offset = self._log.end_offset(partition)

        def appended(error: KqueueError | None) -> None:
            if error is None:
                _replay(entry, StateEntry(offset, *record))
            self._end_first(key, entry, None if error is None else coordinator_error(error))

        settle = self.partitions.begin_write(partition, appended)
        if settle is not None:
            self._log.append(partition, [record], settle)

    def _end_first(self, key: SharePartitionKey, entry: _Entry, error: KqueueError | None) -> None:
        queue = entry.queue
        queue[0].done(error)  # what this changes in turn waits in the queue
        queue.popleft()
        if queue:
            self._run_first(key, entry)
        elif entry.state is None and self._entries.get(key) is entry:
            del self._entries[key]

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
        for key, known in list(self._entries.items()):  # those that begin later write behind that end
            partition = self.partition_of(key)
            count[partition] = count.get(partition, 0) + 1
            if partition in first_needed:
                first_needed[partition] = min(known.snapshot_offset, first_needed[partition])
            yield None
        for partition, offset in first_needed.items():
            if offset and self.partitions.version(partition) == versions[partition]:
                self._log.delete_before(partition, offset)
            yield None
        for key in list(self.keys()):
            entry = self._entries.get(key)
            partition = self.partition_of(key)
            lag = max(COLD_LAG * count.get(partition, 0), COLD_LAG_MIN)
            if entry is not None and not entry.queue and self._log.end_offset(partition) - entry.snapshot_offset > lag:
                self._repeat(key)
            yield None

    def _repeat(self, key: SharePartitionKey) -> None:
        def change(state: ShareState | None) -> StateRecord | KqueueError:
            if state is None:
                return FencedStateEpoch("it was deleted meanwhile")
            return self._snapshot(key, state, state)

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
                    _replay(entry, record)
                    if entry.state is None:
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
        waiting: list[Done] = []
        for key in self._entries.keys_of(partition):
            queue = self._entries[key].queue
            waiting.extend(queue.pop().done for _ in range(len(queue) - 1))
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


def _replay(entry: _Entry, record: StateEntry) -> None:
    """Apply a committed record. Raises MalformedMessage."""
    read = records.read_key(record.key)
    assert read is not None
    if record.value is None:
        entry.state = None
    elif read.is_snapshot:
        entry.state = records.read_snapshot(record.value)
        entry.snapshot_offset, entry.updates = record.offset, 0
    elif entry.state is not None:  # else its snapshot was deleted with the share partition
        entry.state = updated(entry.state, records.read_update(record.value))
        entry.updates += 1
