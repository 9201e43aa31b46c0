"""Producers do anything in any order, while time passes, the log and the markers stall or fail, and
the broker dies; what must hold always holds.

The log is the judge: each marker must be that of the decision that its transactional id made last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kqueue.base.errors import KqueueError, NotLeader, StorageFailed
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import run_to_end
from kqueue.tests.groups.support import HeldLog
from kqueue.tests.thorough import examples
from kqueue.tests.transactions.support import P0, P1, P2, CountedIds, HeldMarkers, World
from kqueue.transactions import records
from kqueue.transactions.marker_writer import MarkerResults, TopicPartition, TransactionMarker
from kqueue.transactions.transaction_metadata import (
    EPOCH_MAX,
    NO_EPOCH,
    ProducerIdAndEpoch,
    TransactionMetadata,
)
from kqueue.transactions.transaction_state import IDLE, PREPARED, TRANSITIONS, TransactionState

IDS = st.sampled_from(["tx", "tx", "tx", "ty"])
PICK = st.integers(0, 1000)
PARTITIONS = st.sets(st.sampled_from([P0, P1, P2]), min_size=1)
HOUR_MS = 3_600_000
SETTINGS: dict[str, object] = {
    "transactional.id.expiration.ms": HOUR_MS,
    "transaction.remove.expired.transaction.cleanup.interval.ms": HOUR_MS // 4,
}
S = TransactionState


def last_records(log: HeldLog) -> dict[str, TransactionMetadata]:
    """Return the transactions that a replay gives, by id."""
    latest: dict[str, TransactionMetadata] = {}
    for key, value in log.records():
        id = records.read_key(key)
        assert id is not None
        if value is None:
            latest.pop(id, None)
        else:
            latest[id] = records.read_value(id, value)
    return latest


class JudgedMarkers(HeldMarkers):
    """Markers that are compared with the log."""

    def __init__(self, log: HeldLog) -> None:
        super().__init__()
        self.log = log

    def write(self, marker: TransactionMarker, done: Callable[[MarkerResults], None]) -> None:
        decisions = {
            (metadata.producer_id, metadata.epoch): metadata
            for metadata in last_records(self.log).values()
            if metadata.state in PREPARED
        }
        decided = decisions[marker.producer_id, marker.producer_epoch]
        assert marker.commit == (decided.state is S.PREPARE_COMMIT)
        assert set(marker.partitions) <= decided.partitions
        super().write(marker, done)


class Producer:
    """A producer as it sees itself. `version`: of its transactions."""

    def __init__(self, id: str, version: int) -> None:
        self.id = id
        self.version = version
        self.producer: ProducerIdAndEpoch | None = None
        self.is_fenced = False
        self.call: tuple[str, Promise[object], ProducerIdAndEpoch | None] | None = None


class Transactions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        log = HeldLog()
        self.ids = CountedIds()
        self.world = World(SETTINGS, log=log, markers=JudgedMarkers(log), ids=self.ids)
        self.producers: list[Producer] = []
        self.expired: Counter[str | None] = Counter()
        self.owners: dict[tuple[str, ProducerIdAndEpoch], Producer] = {}
        self.committed: set[tuple[str, ProducerIdAndEpoch]] = set()
        """Transactions whose commit was confirmed: the id, and what its markers have."""

    def pick(self, number: int, *, idle: bool = True) -> Producer | None:
        ready = [one for one in self.producers if one.call is None] if idle else self.producers
        return ready[number % len(ready)] if ready else None

    def begin(self, producer: Producer, what: str, promise: Promise[object]) -> None:
        producer.call = what, promise, producer.producer
        self.collect()

    @rule(id=IDS, version=st.sampled_from([0, 2]))
    def start_producer(self, id: str, version: int) -> None:
        producer = Producer(id, version)
        self.producers.append(producer)
        self.begin(producer, "init", self.world.start_init(id))  # type: ignore[arg-type]

    @rule(number=PICK)
    def initialize_again(self, number: int) -> None:
        producer = self.pick(number)
        if producer is not None:
            self.begin(producer, "init", self.world.start_init(producer.id, producer.producer))  # type: ignore[arg-type]

    @rule(number=PICK, partitions=PARTITIONS)
    def add(self, number: int, partitions: set[TopicPartition]) -> None:
        producer = self.pick(number)
        if producer is not None and producer.producer is not None:
            promise = self.world.transactions.add_partitions(
                producer.id, *producer.producer, partitions, transaction_version=producer.version
            )
            self.begin(producer, "add", promise)  # type: ignore[arg-type]

    @rule(number=PICK, commit=st.booleans())
    def end(self, number: int, commit: bool) -> None:
        producer = self.pick(number)
        if producer is not None and producer.producer is not None:
            promise = self.world.start_end(producer.producer, commit=commit, id=producer.id, version=producer.version)
            self.begin(producer, "commit" if commit else "abort", promise)  # type: ignore[arg-type]

    @rule(ms=st.sampled_from([1, 500, 15_000, 80_000, 2 * HOUR_MS]))
    def advance(self, ms: int) -> None:
        self.world.advance(ms)
        self.collect()

    @rule(id=IDS, version=st.sampled_from([0, 2]), partitions=PARTITIONS, commit=st.booleans())
    def run_transaction(self, id: str, version: int, partitions: set[TopicPartition], commit: bool) -> None:
        """All in one, as far as nothing stalls: the other rules alone rarely come to an end."""
        self.start_producer(id, version)
        producer = self.producers[-1]
        if producer.call is None and producer.producer is None:  # an older transaction was aborted first
            self.initialize_last()
        if producer.call is None and producer.producer is not None:
            self.add(self.number_of(producer), partitions)
        if producer.call is None and producer.producer is not None:
            self.end(self.number_of(producer), commit)

    def initialize_last(self) -> None:
        self.initialize_again(self.number_of(self.producers[-1]))

    def number_of(self, producer: Producer) -> int:
        return [one for one in self.producers if one.call is None].index(producer)

    @rule(log=st.booleans(), markers=st.booleans(), ids=st.booleans())
    def stall(self, log: bool, markers: bool, ids: bool) -> None:
        self.world.log.hold, self.world.markers.hold, self.ids.hold = log, markers, ids
        self.collect()

    @rule(count=st.integers(0, 2))
    def release(self, count: int) -> None:
        self.ids.release()
        self.world.log.release(count)
        self.world.markers.release()
        self.collect()

    @rule(broken=st.sets(st.sampled_from([P0, P1, P2])), fail=st.booleans())
    def fail(self, broken: set[TopicPartition], fail: bool) -> None:
        self.world.markers.broken = {partition: StorageFailed("disk") for partition in broken}
        if fail:
            self.world.log.fail(StorageFailed("disk"))
        self.collect()

    @rule(id=IDS)
    @precondition(lambda self: not self.world.log.held and not self.world.log.hold)
    def use_up_epochs(self, id: str) -> None:
        """As if the id had been initialized many times: its log says so after a restart."""
        metadata = last_records(self.world.log).get(id)
        if metadata is not None and metadata.state in IDLE and metadata.epoch < EPOCH_MAX - 1:
            self.crash(0)
            used = metadata._replace(
                state=S.EMPTY, partitions=frozenset(), start_ms=-1, epoch=EPOCH_MAX - 1, client_version=0
            )
            self.replace(self.world.put(used))
            for producer in self.producers:
                producer.is_fenced = producer.is_fenced or (producer.id == id and producer.producer is not None)

    @rule(survive=st.integers(0, 3))
    def crash(self, survive: int) -> None:
        """Of the appends that were not confirmed, the first ones may be on disk."""
        for partition, batch, _ in self.world.log.held[:survive]:
            self.world.log.partitions[partition].extend(batch)
        self.ids.held.clear()
        self.ids.hold = False
        for producer in self.producers:
            if producer.call is not None:
                what, _, before = producer.call
                producer.call = None
                if what == "init":
                    self.forget(producer, before)
        self.replace(self.world.restarted())

    @rule(survive=st.integers(0, 3))
    def move(self, survive: int) -> None:
        """Another broker leads the log for a while: who waits is answered."""
        log, markers, transactions = self.world.log, self.world.markers, self.world.transactions
        (held, log.held), (marked, markers.held) = (log.held, []), (markers.held, [])
        for partition in range(log.partition_count):
            run_to_end(transactions.unload(partition))
        assert (len(transactions._store), transactions._store._partitions_held) == (0, 0)
        for partition, batch, _ in held[:survive]:
            log.partitions[partition].extend(batch)
        for number, (*_, done) in enumerate(held):
            done(None if number < survive else NotLeader("moved"))
        for marker, written in marked:
            written(dict.fromkeys(marker.partitions, NotLeader("moved")))
        assert self.ids.held or all(producer.call is None or producer.call[1].done for producer in self.producers)
        self.collect()
        for partition, log_records in enumerate(log.partitions):
            transactions.begin_loading(partition)
            run_to_end(transactions.load(partition, iter(log_records)))  # type: ignore[arg-type]

    def forget(self, producer: Producer, before: ProducerIdAndEpoch | None) -> None:
        """The answer was lost: the producer goes on with what it had before."""
        producer.producer = before

    def replace(self, world: World) -> None:
        markers = JudgedMarkers(world.log)
        markers.written, markers.broken = self.world.markers.written, self.world.markers.broken
        self.world = World(SETTINGS, log=world.log, clock=world.clock, markers=markers, ids=self.ids)

    def collect(self) -> None:
        """Look at the answers."""
        self.forget_expired()
        for producer in self.producers:
            if producer.call is None or not producer.call[1].done:
                continue
            what, promise, had = producer.call
            producer.call = None
            if promise.error is not None:
                assert type(promise.error) is not KqueueError, promise.error
                continue
            assert not producer.is_fenced, f"{what} of a fenced producer succeeded"
            if what == "init":
                self.own(producer, promise.result())  # type: ignore[arg-type]
                for other in self.producers:
                    if other is not producer and other.id == producer.id:
                        other.is_fenced = other.is_fenced or other.producer is not None
            elif what in ("commit", "abort"):
                assert had is not None
                if what == "commit":
                    self.committed.add((producer.id, marker_of(had, producer.version)))
                self.own(producer, promise.result())  # type: ignore[arg-type]

    def forget_expired(self) -> None:
        """With the tombstone of its id, the coordinator forgets whom it has fenced."""
        expired = Counter(records.read_key(key) for key, value in self.world.log.records() if value is None)
        for producer in self.producers:
            if expired[producer.id] > self.expired[producer.id]:
                producer.is_fenced = False
        self.expired = expired

    def own(self, producer: Producer, granted: ProducerIdAndEpoch) -> None:
        owner = self.owners.setdefault((producer.id, granted), producer)
        assert owner is producer, "two producers have one epoch"
        producer.producer = granted

    @invariant()
    def the_log_follows_the_state_table(self) -> None:
        states: dict[str, TransactionMetadata] = {}
        for key, value in self.world.log.records():
            id = records.read_key(key)
            assert id is not None
            if value is None:
                del states[id]
                continue
            metadata = records.read_value(id, value)
            before = states.get(id)
            if before is None:
                assert metadata.state is S.EMPTY
            else:
                following = set(TRANSITIONS[before.state].values())
                if S.PREPARE_EPOCH_FENCE in following:
                    following.add(S.PREPARE_ABORT)
                assert metadata.state in following
                assert metadata.producer_id != before.producer_id or metadata.epoch >= before.epoch
            states[id] = metadata

    @invariant()
    def a_confirmed_commit_has_no_abort_marker(self) -> None:
        for marker, _ in self.world.markers.written:
            producer = ProducerIdAndEpoch(marker.producer_id, marker.producer_epoch)
            if not marker.commit and marker.transaction_version == 2:  # the epoch names one transaction
                assert not any(committed == producer for _, committed in self.committed)

    @invariant()
    @precondition(lambda self: not self.world.log.held)
    def memory_is_what_a_replay_gives(self) -> None:
        replayed, store = last_records(self.world.log), self.world.transactions._store
        memory = {
            transaction.transactional_id: transaction.metadata._replace(last_epoch=NO_EPOCH)
            for transaction in store
            if transaction.metadata.epoch != NO_EPOCH
        }
        assert memory == replayed
        held = [max(one.metadata, one.pending or one.metadata, key=lambda one: len(one.partitions)) for one in store]
        assert store._partitions_held == sum(len(metadata.partitions) for metadata in held)

    def teardown(self) -> None:
        """At the end every decision is carried out, in every partition."""
        self.world.log.hold = self.world.markers.hold = self.ids.hold = False
        self.world.markers.broken = {}
        self.ids.release()
        self.world.log.release()
        self.world.markers.release()
        self.world.advance(60_000)
        self.collect()
        assert not any(metadata.state in PREPARED for metadata in last_records(self.world.log).values())
        written = {
            (marker.producer_id, marker.producer_epoch, marker.commit, partition)
            for marker, partition in self.world.markers.written
        }
        for _, value in self.world.log.records():
            if value is not None:
                metadata = records.read_value("", value)
                if metadata.state in PREPARED:
                    commit = metadata.state is S.PREPARE_COMMIT
                    assert {(*metadata.producer, commit, partition) for partition in metadata.partitions} <= written


def marker_of(had: ProducerIdAndEpoch, version: int) -> ProducerIdAndEpoch:
    return had if version < 2 else had._replace(epoch=had.epoch + 1)


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(
    max_examples=examples(40), stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
