"""A share partition on a share coordinator, with clock, log and settings in the test's hands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from kqueue.base.errors import KqueueError
from kqueue.base.sliced_task import run_to_end
from kqueue.base.timers import Timers
from kqueue.base.virtual_time import advance_in_steps
from kqueue.share.config import ShareGroupConfig
from kqueue.share.coordinator import ShareCoordinator
from kqueue.share.record_state import AcknowledgeType
from kqueue.share.share_partition import (
    Acknowledgement,
    AcquiredRange,
    AcquireLimits,
    DeadRange,
    Done,
    RecordLocks,
    ShareCounts,
    SharePartition,
)
from kqueue.share.share_state import NO_OFFSET, SharePartitionKey, ShareState, ShareUpdate
from kqueue.share.state_log import StateEntry, StateRecord
from kqueue.testing.manual_clock import ManualClock

KEY = SharePartitionKey("g", bytes(range(16)), 0)
ACCEPT, RELEASE, REJECT, RENEW, GAP = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.RENEW,
    AcknowledgeType.GAP,
)


class HeldStateLog:
    """A `StateLog` in memory. Commits at once, or, with `hold`, when the test says `release`."""

    partition_count = 1

    def __init__(self) -> None:
        self.entries: list[StateEntry] = []
        self.hold = False
        self.broken: KqueueError | None = None
        self.held: list[tuple[Sequence[StateRecord], Done]] = []
        self.start = 0

    def append(self, partition: int, records: Sequence[StateRecord], done: Done) -> None:
        self.held.append((records, done))
        if not self.hold:
            self.release()

    def release(self) -> None:
        while self.held:
            records, done = self.held.pop(0)
            if self.broken is None:
                for key, value in records:
                    self.entries.append(StateEntry(self.end_offset(0), key, value))
            done(self.broken)

    def end_offset(self, partition: int) -> int:
        return self.entries[-1].offset + 1 if self.entries else self.start

    def delete_before(self, partition: int, offset: int) -> None:
        self.start = offset
        self.entries = [entry for entry in self.entries if entry.offset >= offset]


class World:
    """One share partition; it is its own `ShareHost`."""

    def __init__(self, log: HeldStateLog | None = None, clock: ManualClock | None = None, **values: Any) -> None:
        self.clock = clock or ManualClock()
        self.timers = Timers(self.clock)
        self.locks = RecordLocks(lambda: 1_000_000)
        self.counts = ShareCounts()
        self.values = ShareGroupConfig(**values)
        self.log = log or HeldStateLog()
        self.updates_per_snapshot = 3
        self.coordinator = ShareCoordinator(self.log, self.clock, lambda: self.updates_per_snapshot, lambda: 100)
        run_to_end(self.coordinator.load(0, iter(self.log.entries)))
        self.dead: list[DeadRange] = []
        self.releases = 0
        self.turns: list[Callable[[], None]] | None = None  # what waits for a later turn; None: nothing does
        if self.coordinator.read(KEY) is None:
            self.coordinator.initialize(KEY, 0, NO_OFFSET, lambda error: None)
        self.partition = SharePartition(self, self.state, 0)

    @property
    def state(self) -> ShareState:
        state = self.coordinator.read(KEY)
        assert state is not None
        return state

    def config(self) -> ShareGroupConfig:
        return self.values

    def configure(self, **values: Any) -> None:
        self.values = replace(self.values, **values)

    def write(self, update: ShareUpdate, dead: Sequence[DeadRange], done: Done) -> None:
        self.dead += dead
        self.coordinator.write(KEY, self.partition.state_epoch, update, done)

    def released(self) -> None:
        self.releases += 1

    def run_later(self, run: Callable[[], None]) -> None:
        if self.turns is None:
            run()
        else:
            self.turns.append(run)

    def next_turn(self) -> None:
        assert self.turns is not None
        self.turns.pop(0)()

    def advance(self, ms: float) -> None:
        for _ in advance_in_steps(self.timers, self.clock, ms):
            pass

    def restarted(self) -> World:
        """A broker that starts from what the log holds."""
        log = HeldStateLog()
        log.entries, log.start = list(self.log.entries), self.log.start
        world = World(log, self.clock)
        world.values = self.values
        return world

    def acquire(
        self, *batches: tuple[int, int], member: str = "a", most: int = 1000, strict: bool = False, batch_size: int = 1
    ) -> list[AcquiredRange]:
        """Acquire from `batches`, read from the first of them on."""
        fetch_offset = self.partition.next_fetch_offset()
        if fetch_offset is None:
            return []
        read = [batch for batch in batches if batch[1] >= fetch_offset]
        return self.partition.acquire(member, fetch_offset, read, AcquireLimits(most, strict, batch_size))

    def say(self, first: int, last: int, *types: int, member: str = "a") -> KqueueError | str | None:
        """Acknowledge; the error, or None; "waits" while it is not persisted."""
        answers: list[KqueueError | None] = []
        self.partition.acknowledge(member, [Acknowledgement(first, last, types)], answers.append)
        return answers[0] if answers else "waits"

    def shown(self) -> str:
        """The start, then the states in flight: ``3 A1x2 -0`` is two records acquired once, ..."""
        letters = {0: "-", 1: "A", 2: "+", 4: "x"}
        parts = [
            f"{letters[each.state]}{each.delivery_count}*{each.last - each.first + 1}"
            for each in self.partition.ranges()
        ]
        return " ".join([str(self.partition.start_offset), *parts])
