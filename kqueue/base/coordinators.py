"""What the coordinators of groups, transactions and share groups have in common: the partition of
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
import itertools
from collections.abc import Callable, Iterator, MutableMapping
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
    """What a coordinator has of a partition of its log. Source: Kafka's CoordinatorState."""

    NOT_HERE = "not here"
    """Another broker leads the partition, or nobody does."""
    LOADING = "loading"
    """This broker leads it, and reads it."""
    ACTIVE = "active"
    """Memory holds what a replay gives."""
    UNREADABLE = "unreadable"
    """This broker leads it, and can't read it."""


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
        self._writes: dict[int, dict[int, Done]] = {}  # those under way, by partition and number
        self._numbers = itertools.count()

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
        writes = self._writes.pop(partition, {})
        for number in list(writes):
            writes.pop(number)(NotCoordinator(f"this broker stopped to be the coordinator of partition {partition}"))

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

    def write(self, partition: int, append: Callable[[Done], None], done: Done) -> None:
        """Call `append(settle)`, which appends records and calls `settle` once with their outcome.

        `done` is called once: with that outcome, or earlier if the partition is left, or at once if
        it is not active.
        """
        refusal = self.refusal(partition)
        if refusal is not None:
            done(refusal)
            return
        writes = self._writes.setdefault(partition, {})
        number = next(self._numbers)
        writes[number] = done

        def settle(error: KqueueError | None) -> None:
            if writes.pop(number, None) is not None:
                done(error)

        append(settle)

    @property
    def write_count(self) -> int:
        """Number of writes under way."""
        return sum(map(len, self._writes.values()))


class PartitionedTable(MutableMapping[K, V]):
    """A coordinator's table that also knows the keys of each partition of its log.

    Args: partition_of: returns the partition of a key, always the same one.
    """

    __slots__ = ("_items", "_keys", "_partition_of")

    def __init__(self, partition_of: Callable[[K], int]) -> None:
        self._partition_of = partition_of
        self._items: dict[K, V] = {}
        self._keys: dict[int, dict[K, None]] = {}

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __setitem__(self, key: K, value: V) -> None:
        if key not in self._items:
            self._keys.setdefault(self._partition_of(key), {})[key] = None
        self._items[key] = value

    def __delitem__(self, key: K) -> None:
        del self._items[key]
        partition = self._partition_of(key)
        keys = self._keys[partition]
        del keys[key]
        if not keys:
            del self._keys[partition]

    def get(self, key: K, default: Any = None) -> Any:
        """Return the value of `key`, or `default`."""
        return self._items.get(key, default)

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def keys_of(self, partition: int) -> list[K]:
        """Return a copy of the keys of one partition, in the order in which they were added."""
        return list(self._keys.get(partition, ()))
