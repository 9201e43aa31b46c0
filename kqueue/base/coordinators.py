"""Common parts of the coordinators of groups, transactions and share groups: the partition of
their log that keeps an id, whether it is served here, its unfinished writes, and their errors.

                 begin              loaded
    NOT_HERE ------------> LOADING ---------> ACTIVE
       ^                      | refused          |
       |                      v                  |
       +--------------- UNREADABLE               |
       +------------------------------- left ----+   (from every other state)

In a single broker every partition is ACTIVE from the start, except while it is loaded.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from kqueue.base.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidTransactionState,
    KqueueError,
    NotCoordinator,
    NotLeader,
    RecordTooLarge,
    RequestRefused,
    StorageFailed,
)

K = TypeVar("K")
V = TypeVar("V")
Done = Callable[[KqueueError | None], None]


@lru_cache(maxsize=4096)
def coordinator_partition(id: str, partition_count: int) -> int:
    """Return the partition of a coordinator's log that keeps this group id or transactional id.

    Source: Java's String.hashCode, Kafka Utils.abs.
    """
    units = id.encode("utf-16-be", "surrogatepass")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    if code >= 2**31:
        code = 2**32 - code if code != 2**31 else 0
    return code % partition_count


def coordinator_error(failure: KqueueError) -> KqueueError:
    """Return the error for a client whose record could not be written.

    A fenced producer gets its own error. Source: Kafka appendGroupMetadataErrorToResponseError,
    TransactionStateManager.
    """
    if isinstance(failure, (InvalidProducerEpoch, InvalidTransactionState, NotCoordinator, CoordinatorLoadInProgress)):
        return failure
    if isinstance(failure, (StorageFailed, NotLeader)):
        return NotCoordinator(str(failure))
    if isinstance(failure, RecordTooLarge):
        return KqueueError(f"the coordinator's record can't be written: {failure}")
    if isinstance(failure, RequestRefused):
        return CoordinatorNotAvailable(str(failure))
    return failure


class CoordinatorState(enum.Enum):
    """The state of a coordinator for one partition of its log. Source: Kafka's CoordinatorState."""

    NOT_HERE = "not here"
    """Another broker leads the partition, or nobody does."""
    LOADING = "loading"
    """This broker leads it, and reads it."""
    ACTIVE = "active"
    """Memory holds what a replay gives."""
    UNREADABLE = "unreadable"
    """This broker leads it, and can't read it."""


class _Write:
    """A write under way: `done`, until it was called."""

    __slots__ = ("_done", "_writes")

    def __init__(self, done: Done, writes: dict[_Write, None]) -> None:
        self._done = done
        self._writes = writes

    def __call__(self, error: KqueueError | None) -> None:
        if self in self._writes:
            del self._writes[self]
            self._done(error)


class CoordinatorPartitions:
    """The states of the partitions of a coordinator's log, and the writes under way to each.

    Args: count: returns the number of partitions; constant once the topic exists.
        what: what an id names, for messages: "group".
    """

    def __init__(self, what: str, count: Callable[[], int]) -> None:
        self._what = what
        self._count = count
        self._initial = CoordinatorState.ACTIVE
        self._states: dict[int, CoordinatorState] = {}  # those that are not in the initial state
        self._reasons: dict[int, str] = {}  # of unreadable partitions
        self._versions: dict[int, int] = {}
        self._writes: dict[int, dict[_Write, None]] = {}  # those under way, by partition, the oldest first

    def of(self, id: str) -> int:
        """Return the partition that keeps this id."""
        return coordinator_partition(id, self._count())

    # --- states

    def require_load(self) -> None:
        """Serve no partition before it was loaded: other brokers may lead it. Call it before the
        first load.
        """
        self._initial = CoordinatorState.NOT_HERE

    def state(self, partition: int) -> CoordinatorState:
        """Return the state of a partition."""
        return self._states.get(partition, self._initial)

    def is_active(self, partition: int) -> bool:
        """Whether this partition is served."""
        return self._states.get(partition, self._initial) is CoordinatorState.ACTIVE

    def version(self, partition: int) -> int:
        """Return how often the state of a partition has changed. While it stays the same, so does
        what memory holds of the partition, except for this coordinator's own writes.
        """
        return self._versions.get(partition, 0)

    @property
    def is_loading(self) -> bool:
        """Whether a partition is loading."""
        return CoordinatorState.LOADING in self._states.values()

    def mark_loading(self, partition: int) -> None:
        """Refuse the ids of this partition until `mark_loaded` or `mark_unreadable`."""
        self._set(partition, CoordinatorState.LOADING)

    def mark_loaded(self, partition: int) -> None:
        """Serve the ids of this partition."""
        self._set(partition, CoordinatorState.ACTIVE)

    def mark_unreadable(self, partition: int, reason: str) -> None:
        """Refuse the ids of this partition, which could not be read."""
        self._set(partition, CoordinatorState.UNREADABLE)
        self._reasons[partition] = reason

    def mark_left(self, partition: int) -> None:
        """Refuse the ids of this partition, which another broker leads now.

        The writes under way fail with NotCoordinator; what becomes of them in the log has no effect
        any more.
        """
        self._set(partition, CoordinatorState.NOT_HERE)
        for write in list(self._writes.pop(partition, ())):
            write(NotCoordinator(f"this broker stopped to be the coordinator of partition {partition}"))

    def _set(self, partition: int, state: CoordinatorState) -> None:
        self._versions[partition] = self.version(partition) + 1
        self._reasons.pop(partition, None)
        if state is self._initial:
            self._states.pop(partition, None)
        else:
            self._states[partition] = state

    def check_readable(self, id: str) -> None:
        """Check that this broker serves an id.

        Raises: NotCoordinator: another broker does, or its records can't be read.
            CoordinatorLoadInProgress: its records are not read yet.
        """
        if not self._states and self._initial is CoordinatorState.ACTIVE:
            return
        error = self._refusal(self.of(id), f"{self._what} {id!r}")
        if error is not None:
            raise error

    def _refusal(self, partition: int, what: str) -> KqueueError | None:
        state = self._states.get(partition, self._initial)
        if state is CoordinatorState.ACTIVE:
            return None
        if state is CoordinatorState.LOADING:
            return CoordinatorLoadInProgress(f"{what} is still being read")
        if state is CoordinatorState.UNREADABLE:
            return NotCoordinator(f"{what} can't be read: {self._reasons[partition]}")
        return NotCoordinator(f"this broker is not the coordinator of {what}")

    def refusal(self, partition: int) -> KqueueError | None:
        """Return why nothing of this partition is served; None: it is active."""
        return self._refusal(partition, f"the partition {partition} of {self._what}s")

    # --- writes

    def begin_write(self, partition: int, done: Done) -> Done | None:
        """Return what an append to this partition calls once, with its outcome; None: the partition
        is not active, and `done` was called with the reason.

        `done` is called once: with that outcome, or earlier if the partition is left.
        """
        if self._states or self._initial is not CoordinatorState.ACTIVE:
            refusal = self.refusal(partition)
            if refusal is not None:
                done(refusal)
                return None
        writes = self._writes.get(partition)
        if writes is None:
            writes = self._writes[partition] = {}
        write = _Write(done, writes)
        writes[write] = None
        return write

    @property
    def write_count(self) -> int:
        """Number of writes under way."""
        return sum(map(len, self._writes.values()))


class PartitionedTable(dict[K, V]):
    """A coordinator's table that also knows the keys of each partition of its log.

    It is changed by item, `pop` and `update` only.
    Args: partition_of: returns the partition of a key, always the same one.
    """

    __slots__ = ("_keys", "_partition_of")

    def __init__(self, partition_of: Callable[[K], int]) -> None:
        super().__init__()
        self._partition_of = partition_of
        self._keys: dict[int, dict[K, None]] = {}

    def __setitem__(self, key: K, value: V) -> None:
        if key not in self:
            self._keys.setdefault(self._partition_of(key), {})[key] = None
        super().__setitem__(key, value)

    def __delitem__(self, key: K) -> None:
        super().__delitem__(key)
        partition = self._partition_of(key)
        keys = self._keys[partition]
        del keys[key]
        if not keys:
            del self._keys[partition]

    def pop(self, key: K, default: Any = None) -> Any:
        """Remove a key, and return its value; `default` if there is none."""
        if key not in self:
            return default
        value = self[key]
        del self[key]
        return value

    def update(self, other: Mapping[K, V]) -> None:  # type: ignore[override]
        """Set the values of `other`."""
        for key, value in other.items():
            self[key] = value

    def keys_of(self, partition: int) -> list[K]:
        """Return a copy of the keys of one partition, in the order in which they were added."""
        return list(self._keys.get(partition, ()))
