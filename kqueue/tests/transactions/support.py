"""A transaction coordinator with its clock, timers, log and markers in the test's hands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kqueue.base.config import Config
from kqueue.base.errors import KqueueError
from kqueue.base.issued_ids import IssuedIds
from kqueue.base.promise import Promise
from kqueue.base.settings import Catalog
from kqueue.base.sliced_task import run_to_end
from kqueue.base.timers import Timers
from kqueue.base.virtual_time import advance_in_steps
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.groups.support import HeldLog
from kqueue.transactions import records
from kqueue.transactions.config import SETTINGS
from kqueue.transactions.coordinator import Surroundings, TransactionCoordinator
from kqueue.transactions.marker_writer import MarkerResults, TopicPartition, TransactionMarker
from kqueue.transactions.transaction_metadata import ProducerIdAndEpoch, TransactionMetadata
from kqueue.transactions.transaction_state import TransactionState

T = TypeVar("T")
CATALOG = Catalog(SETTINGS)
P0, P1, P2 = ("t", 0), ("t", 1), ("u", 0)


class HeldMarkers:
    """A `MarkerWriter` in memory. Writes at once, or, with `hold`, when the test says `release`.

    `broken`: partitions whose markers fail, with the error.
    """

    def __init__(self) -> None:
        self.hold = False
        self.broken: dict[TopicPartition, KqueueError] = {}
        self.written: list[tuple[TransactionMarker, TopicPartition]] = []
        self.held: list[tuple[TransactionMarker, Callable[[MarkerResults], None]]] = []

    def write(self, marker: TransactionMarker, done: Callable[[MarkerResults], None]) -> None:
        assert marker.partitions
        self.held.append((marker, done))
        if not self.hold:
            self.release()

    def release(self) -> None:
        ready, self.held = self.held, []
        for marker, done in ready:
            results: MarkerResults = {partition: self.broken.get(partition) for partition in marker.partitions}
            self.written += [(marker, partition) for partition, error in results.items() if error is None]
            done(results)

    def ends(self) -> list[tuple[TopicPartition, bool, int]]:
        """Return partition, whether committed, and epoch of each marker."""
        return [(partition, marker.commit, marker.producer_epoch) for marker, partition in self.written]


class CountedIds:
    """Producer ids 1000, 1001, ...; `broken`: none are given."""

    def __init__(self) -> None:
        self.next = 1000
        self.hold = False
        self.broken: KqueueError | None = None
        self.held: list[Callable[[int | KqueueError], None]] = []

    def allocate(self, done: Callable[[int | KqueueError], None]) -> None:
        self.held.append(done)
        if not self.hold:
            self.release()

    def release(self) -> None:
        ready, self.held = self.held, []
        for done in ready:
            self.next += 1
            done(self.broken or self.next - 1)


class World:
    """One coordinator in its surroundings; `settings` by name."""

    def __init__(
        self,
        settings: dict[str, object] | None = None,
        *,
        log: HeldLog | None = None,
        clock: ManualClock | None = None,
        markers: HeldMarkers | None = None,
        ids: CountedIds | None = None,
    ) -> None:
        self.settings = settings or {}
        self.clock = clock or ManualClock()
        self.timers = Timers(self.clock)
        self.log = log or HeldLog()
        self.markers = markers or HeldMarkers()
        self.ids = ids or CountedIds()
        self.issued = IssuedIds()
        self.version = 2
        self.woken: list[Promise[Any]] = []
        self.transactions = TransactionCoordinator(
            Config(CATALOG, self.settings),
            self.clock,
            self.timers,
            Surroundings(
                self.log,
                self.markers,
                self.ids,
                lambda: self.version,
                lambda partition: 7,
                self.woken.append,
                self.issued.producer_epochs("cluster"),
            ),
        )
        for partition, log_records in enumerate(self.log.partitions):
            run_to_end(self.transactions.load(partition, iter(log_records)))

    def advance(self, ms: float) -> None:
        """Let time pass, running each timer at its time."""
        for _ in advance_in_steps(self.timers, self.clock, ms):
            pass

    def settle(self) -> None:
        """Run what is due now."""
        self.advance(0)

    def restarted(self) -> World:
        """Another coordinator that starts from what the log holds."""
        log = HeldLog(self.log.partition_count)
        log.partitions = self.log.partitions
        markers = HeldMarkers()
        markers.written = self.markers.written
        world = World(self.settings, log=log, clock=self.clock, markers=markers, ids=self.ids)
        world.version = self.version
        return world

    # --- requests; the result, or the error raised

    def start_init(self, id: str = "tx", have: ProducerIdAndEpoch | None = None) -> Promise[ProducerIdAndEpoch]:
        return self.transactions.init_producer_id(id, 60_000, *(have or (-1, -1)))

    def init(self, id: str = "tx", have: ProducerIdAndEpoch | None = None) -> ProducerIdAndEpoch:
        return result(self.start_init(id, have))

    def add(self, producer: ProducerIdAndEpoch, *partitions: TopicPartition, id: str = "tx", version: int = 2) -> None:
        result(self.transactions.add_partitions(id, *producer, partitions or (P0,), transaction_version=version))

    def verify(self, producer: ProducerIdAndEpoch, *partitions: TopicPartition, id: str = "tx") -> None:
        result(self.transactions.add_partitions(id, *producer, partitions, verify_only=True, transaction_version=0))

    def start_end(
        self, producer: ProducerIdAndEpoch, *, commit: bool = True, id: str = "tx", version: int = 2
    ) -> Promise[ProducerIdAndEpoch]:
        return self.transactions.end(id, *producer, commit, transaction_version=version)

    def end(
        self, producer: ProducerIdAndEpoch, *, commit: bool = True, id: str = "tx", version: int = 2
    ) -> ProducerIdAndEpoch:
        return result(self.start_end(producer, commit=commit, id=id, version=version))

    def state(self, id: str = "tx") -> TransactionState:
        return self.transactions.describe(id).state

    def logged(self) -> list[TransactionMetadata | None]:
        """Return what the records of the log say, in the order of each partition."""
        decoded = []
        for key, value in self.log.records():
            id = records.read_key(key)
            assert id is not None
            decoded.append(None if value is None else records.read_value(id, value))
        return decoded

    def put(self, metadata: TransactionMetadata) -> World:
        """Return a coordinator whose log also has this record."""
        key, value = records.transaction_key(metadata.transactional_id), records.transaction_value(metadata, 2)
        self.log.partitions[self.transactions.partition_of(metadata.transactional_id)].append((key, value))
        return self.restarted()


def result(promise: Promise[T]) -> T:
    """Return the value of a settled promise, or raise its error."""
    assert promise.done
    return promise.result()
