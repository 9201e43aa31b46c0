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

from kqueue.base.clock import Clock
from kqueue.base.coordinators import CoordinatorPartitions, coordinator_error
from kqueue.base.errors import FencedStateEpoch, KqueueError, MalformedMessage, PolicyViolation
from kqueue.base.sliced_task import SlicedWork
from kqueue.share import records
from kqueue.share.share_state import SharePartitionKey, ShareState, ShareUpdate, updated
from kqueue.share.state_log import Done, StateEntry, StateLog, StateRecord

COLD_LAG = 10
"""A snapshot that so many records per share partition follow is repeated, so that it does not keep
them from being deleted. Each is repeated once in as many records, so the cost stays a tenth.
"""
COLD_LAG_MIN = 1000


class _Entry:
    """One share partition. `state` None: its first record is on its way."""

    __slots__ = ("queue", "snapshot_offset", "state", "updates")

    def __init__(self, state: ShareState | None = None, snapshot_offset: int = 0) -> None:
        self.state = state
        self.snapshot_offset = snapshot_offset  # of its last snapshot, or below
        self.updates = 0  # since then
        self.queue: deque[Callable[[], None]] = deque()  # the first is running


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
        self._entries: dict[SharePartitionKey, _Entry] = {}
        self.partitions = CoordinatorPartitions("share partition", lambda: log.partition_count)

    def __len__(self) -> int:
        return len(self._entries)

    def keys(self) -> Iterator[SharePartitionKey]:
        """Yield the share partitions that have a state."""
        return (key for key, entry in self._entries.items() if entry.state is not None)

    def read(self, key: SharePartitionKey) -> ShareState | None:
        """Return the state of a share partition; None: it was never initialized.

        Raises: NotCoordinator: its records can't be read. CoordinatorLoadInProgress: not yet.
        """
        self.partitions.check_readable(key.coordinator_key)
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

        `done`: also with FencedStateEpoch: the share partition was reset or deleted.
        """
        self.read(key)

        def change(state: ShareState | None) -> StateRecord | KqueueError:
            if state is None or state.state_epoch != state_epoch:
                found = "it was deleted" if state is None else f"its state epoch is {state.state_epoch}"
                return FencedStateEpoch(f"share partition {key.coordinator_key}: {found}, the change has {state_epoch}")
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

    def _change(
        self, key: SharePartitionKey, change: Callable[[ShareState | None], StateRecord | KqueueError], done: Done
    ) -> None:
        """Append what `change` makes of the state once all changes before are committed."""
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry()
        queue = entry.queue

        def run() -> None:
            made = change(entry.state)
            if isinstance(made, KqueueError):
                ended(made)
                return
            partition = self.partitions.of(key.coordinator_key)
            offset = self._log.end_offset(partition)

            def appended(error: KqueueError | None) -> None:
                if error is None:
                    _replay(entry, StateEntry(offset, *made))
                ended(None if error is None else coordinator_error(error))

            self._log.append(partition, [made], appended)

        def ended(error: KqueueError | None) -> None:
            done(error)  # what this changes in turn waits in the queue
            queue.popleft()
            if queue:
                queue[0]()
            elif entry.state is None and self._entries.get(key) is entry:
                del self._entries[key]

        queue.append(run)
        if len(queue) == 1:
            run()

    # --- pruning

    def prune(self) -> SlicedWork[None]:
        """Delete the redundant records of each partition of the log; repeat old snapshots that keep
        others from being deleted.
        """
        first_needed: dict[int, int] = {}
        for partition in range(self._log.partition_count):
            first_needed[partition] = self._log.end_offset(partition)  # all is redundant if it keeps no state
            yield None
        count: dict[int, int] = {}
        for key, known in list(self._entries.items()):  # those that begin later write behind that end
            partition = self.partitions.of(key.coordinator_key)
            count[partition] = count.get(partition, 0) + 1
            first_needed[partition] = min(known.snapshot_offset, first_needed[partition])
            yield None
        for partition, offset in first_needed.items():
            if offset and self.partitions.is_readable(partition):
                self._log.delete_before(partition, offset)
            yield None
        for key in list(self.keys()):
            entry = self._entries.get(key)
            partition = self.partitions.of(key.coordinator_key)
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

    def begin_loading(self, partition: int) -> None:
        """Refuse what the partition keeps until `load` or `refuse` has ended."""
        self.partitions.mark_loading(partition)

    def load(self, partition: int, log_records: Iterable[StateEntry]) -> SlicedWork[None]:
        """Replay one partition of the log in steps. Raises: MalformedMessage: a record can't be
        read; nothing has changed.
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
        self._entries |= loaded
        self.partitions.mark_loaded(partition)

    def refuse(self, partition: int, reason: str) -> None:
        """Refuse what the partition keeps: its records can't be read."""
        self.partitions.mark_unreadable(partition, reason)


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
