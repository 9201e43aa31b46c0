"""Consumers of both isolation levels against a model. Transactional, idempotent and plain
producers write to one partition that rolls, is compacted, and whose broker stops and crashes.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kqueue.records.batch import ABORT, Record, decode_control, iter_batches, iter_records
from kqueue.testing.faulty_storage import FaultyStorage, Remains
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.fetch_client import fetch, one, want
from kqueue.tests.api.harness import ErrorCode, SimulatedClient, batch
from kqueue.tests.broker.produce.test_produce_transaction import ScriptedCoordinator
from kqueue.tests.thorough import examples
from kqueue.transactions.marker_writer import MarkerResults, TransactionMarker
from kqueue.wire.messages.fetch import PartitionData
from kqueue.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

READ_COMMITTED, READ_UNCOMMITTED = 1, 0
LATEST = -1
IDEMPOTENT = 9
TRANSACTIONAL = (1, 2, 3)
SETTINGS = {"log.cleaner.backoff.ms": 1000, "log.retention.check.interval.ms": 10_000}
TOPICS = {
    "delete": {"cleanup_policy": "delete"},
    "compact": {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0", "delete_retention_ms": "5000"},
}


@dataclass
class Written:
    """A record of the model. `outcome`: True: visible to all; None: its transaction is open."""

    offset: int
    key: bytes
    value: bytes | None
    producer: int
    outcome: bool | None


@dataclass
class Producer:
    """A producer as its client knows it. `last`: its last batch, and the answered offset."""

    id: int
    epoch: int = 0
    sequence: int = 0
    first_offset: int | None = None
    last: tuple[bytes, int] | None = None


def consume(
    client: SimulatedClient, start: int, isolation_level: int, size: int, partition: int = 0
) -> tuple[list[Record], PartitionData]:
    """All records from `start` on, as Kafka's consumer filters them; and the last response."""
    records: list[Record] = []
    offset = start
    while True:
        data = one(fetch(client, 11, want(partition, offset=offset, size=size), isolation_level=isolation_level))
        assert data.error_code == 0
        raw = bytes(data.records or b"")
        if not raw:
            return records, data
        before = offset
        upcoming = deque(sorted(data.aborted_transactions or [], key=lambda aborted: aborted.first_offset))
        aborted_ids: set[int] = set()
        for position, header in iter_batches(raw):
            while upcoming and upcoming[0].first_offset <= header.last_offset:
                aborted_ids.add(upcoming.popleft().producer_id)
            is_hidden = header.is_transactional and header.producer_id in aborted_ids
            if header.is_control:
                marker = next(iter_records(raw, position), None)
                if marker is not None and decode_control(marker)[0] == ABORT:
                    aborted_ids.discard(header.producer_id)
            elif not is_hidden:
                records += [record for record in iter_records(raw, position) if record.offset >= offset]
            offset = header.next_offset
        assert offset > before


class ReadCommittedMachine(RuleBasedStateMachine):
    """`written`: all records, by offset."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Written] = []
        self.producers = {number: Producer(number) for number in (*TRANSACTIONAL, IDEMPOTENT)}
        self.count = 0

    @initialize(policy=st.sampled_from(sorted(TOPICS)), segment_bytes=st.sampled_from([150, 400, 1000]))
    def open(self, policy: str, segment_bytes: int) -> None:
        self.policy = policy
        self.client = SimulatedClient(sim=Simulation(SETTINGS, storage=FaultyStorage()))
        self.client.sim.broker.coordinators.transaction_partitions = ScriptedCoordinator(self.client)  # type: ignore[assignment]
        self.client.sim.topic("t", segment_bytes=str(segment_bytes), **TOPICS[policy])

    # --- producers

    def _produce(self, raw: bytes, transactional_id: str | None = None) -> Any:
        return self.client.produce("t", raw, version=12, transactional_id=transactional_id)

    def _took(self, offset: int, key: bytes, values: list[bytes | None], producer: int = -1) -> None:
        outcome = None if producer in TRANSACTIONAL else True
        self.written += [Written(offset + index, key, value, producer, outcome) for index, value in enumerate(values)]

    def _values(self, count: int, *, with_tombstone: bool = False) -> list[bytes | None]:
        self.count += count
        batch_values: list[bytes | None] = [b"%d" % (self.count + index) for index in range(count)]
        if with_tombstone:
            batch_values[-1] = None
        return batch_values

    @rule(key=st.sampled_from([b"x", b"y", b"z"]), count=st.integers(1, 3), with_tombstone=st.booleans())
    def plain(self, key: bytes, count: int, with_tombstone: bool) -> None:
        values = self._values(count, with_tombstone=with_tombstone)
        answer = self._produce(batch(*values, key=key, time_ms=self.client.sim.clock.wall_ms()))
        assert answer.error_code == 0
        self._took(answer.base_offset, key, values)

    @rule(
        number=st.sampled_from([*TRANSACTIONAL, *TRANSACTIONAL, IDEMPOTENT]),
        key=st.sampled_from([b"x", b"y", b"z"]),
        count=st.integers(1, 3),
    )
    def produce(self, number: int, key: bytes, count: int) -> None:
        producer = self.producers[number]
        is_transactional = number != IDEMPOTENT
        values = self._values(count)
        raw = batch(
            *values,
            key=key,
            time_ms=self.client.sim.clock.wall_ms(),
            producer_id=number,
            epoch=producer.epoch,
            base_sequence=producer.sequence,
            transactional=is_transactional,
        )
        answer = self._produce(raw, f"tx{number}" if is_transactional else None)
        assert answer.error_code == 0
        producer.sequence += count
        producer.last = raw, answer.base_offset
        if is_transactional and producer.first_offset is None:
            producer.first_offset = answer.base_offset
        self._took(answer.base_offset, key, values, number)

    @rule(number=st.sampled_from([*TRANSACTIONAL, IDEMPOTENT]))
    def repeat(self, number: int) -> None:
        """The answer of the last batch was lost: the client sends it again."""
        producer = self.producers[number]
        if producer.last is None or (number != IDEMPOTENT and producer.first_offset is None):
            return
        raw, offset = producer.last
        answer = self._produce(raw, f"tx{number}" if number != IDEMPOTENT else None)
        assert (answer.error_code, answer.base_offset) == (0, offset)

    @rule(number=st.sampled_from(TRANSACTIONAL), commit=st.booleans(), repeats=st.booleans())
    def end(self, number: int, commit: bool, repeats: bool) -> None:
        """End a transaction; the coordinator may write its marker twice."""
        producer = self.producers[number]
        if producer.first_offset is None:
            return
        old_epoch, producer.epoch = producer.epoch, producer.epoch + 1
        marker = TransactionMarker(number, producer.epoch, commit, 0, 2, [("t", 0)])
        results: list[MarkerResults] = []
        for _ in range(1 + repeats):
            self.client.sim.broker.coordinators.markers.write(marker, results.append)
        self.client.sim.settle()
        assert results == [{("t", 0): None}] * (1 + repeats)
        for record in self.written:
            if record.producer == number and record.outcome is None:
                record.outcome = commit
        late = batch(b"late", producer_id=number, epoch=old_epoch, base_sequence=producer.sequence, transactional=True)
        assert self._produce(late, f"tx{number}").error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        producer.first_offset, producer.sequence, producer.last = None, 0, None

    @rule(
        transactions=st.lists(
            st.tuples(st.sampled_from(TRANSACTIONAL), st.sampled_from([b"x", b"y", b"z"]), st.booleans()),
            min_size=2,
            max_size=6,
        )
    )
    def whole_transactions(self, transactions: list[tuple[int, bytes, bool]]) -> None:
        for number, key, commit in transactions:
            self.produce(number, key, 1)
            self.produce(number, b"x", 2)
            self.end(number, commit, False)

    @rule(key=st.sampled_from([b"x", b"y"]))
    def clean(self, key: bytes) -> None:
        """Let the log roll often, and be compacted."""
        for number in TRANSACTIONAL:
            self.end(number, True, False)
        for _ in range(4):
            self.plain(key, 3, False)
        self.advance(3000)

    # --- time and restarts

    @rule(ms=st.sampled_from([500, 3000, 12_000]))
    def advance(self, ms: int) -> None:
        self.client.sim.advance(ms)

    @rule(clean=st.booleans(), remains=st.sampled_from(Remains), seed=st.integers(0, 9))
    def restart(self, clean: bool, remains: Remains, seed: int) -> None:
        sim = self.client.sim
        sim.settle()
        assert isinstance(sim.storage, FaultyStorage)
        left = sim.storage
        if clean:
            sim.stop()
        else:
            left = sim.storage.after_cut(remains, random.Random(seed))
        again = Simulation(sim.settings, storage=left, store=sim.store, clock=sim.clock)
        self.client = SimulatedClient(sim=again)
        again.broker.coordinators.transaction_partitions = ScriptedCoordinator(self.client)  # type: ignore[assignment]

    # --- consumers

    @property
    def stable_offset(self) -> int:
        partition = self.client.sim.broker.topics.partition("t", 0)
        first = [one.first_offset for one in self.producers.values() if one.first_offset is not None]
        return min([*first, partition.log_end_offset])

    @invariant()
    def the_last_stable_offset_is_the_first_open_transaction(self) -> None:
        partition = self.client.sim.broker.topics.partition("t", 0)
        assert partition.last_stable_offset == self.stable_offset

    @rule(start=st.integers(0, 60), size=st.sampled_from([1, 300, 1 << 20]))
    def read_committed(self, start: int, size: int) -> None:
        start = min(start, self.client.sim.broker.topics.partition("t", 0).log_end_offset)
        stable = self.stable_offset
        records, data = consume(self.client, start, READ_COMMITTED, size)
        assert data.last_stable_offset == stable
        self._compare(records, [one for one in self.written if one.outcome and start <= one.offset < stable], stable)
        assert self._latest(READ_COMMITTED) == stable

    @rule(start=st.integers(0, 60), size=st.sampled_from([1, 300, 1 << 20]))
    def read_uncommitted(self, start: int, size: int) -> None:
        end = self.client.sim.broker.topics.partition("t", 0).log_end_offset
        start = min(start, end)
        records, data = consume(self.client, start, READ_UNCOMMITTED, size)
        assert data.aborted_transactions is None
        self._compare(records, [one for one in self.written if one.offset >= start], end)
        assert self._latest(READ_UNCOMMITTED) == end

    def _compare(self, records: list[Record], expected: list[Written], end: int) -> None:
        read_back = [(record.offset, record.key, record.value) for record in records]
        everything = [(one.offset, one.key, one.value) for one in expected]
        if self.policy == "delete":
            assert read_back == everything
            return
        assert [offset for offset, *_ in read_back] == sorted({offset for offset, *_ in read_back})
        assert set(read_back) <= set(everything)
        # aborted records may go, and those with a later committed record of their key
        last = {one.key: one.offset for one in self.written if one.outcome and one.offset < end}
        open_from = self.stable_offset
        needed = [
            (one.offset, one.key, one.value)
            for one in expected
            if one.offset >= open_from or (one.outcome and last[one.key] == one.offset and one.value is not None)
        ]
        assert set(needed) <= set(read_back)

    def _latest(self, isolation_level: int) -> int:
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=LATEST)])],
        )
        offset: int = self.client.ask(request, 5).topics[0].partitions[0].offset
        return offset

    def teardown(self) -> None:
        if hasattr(self, "client"):
            self.read_committed(0, 200)
            self.read_uncommitted(0, 200)


ReadCommittedMachine.TestCase.settings = settings(
    max_examples=examples(40), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestReadCommitted = ReadCommittedMachine.TestCase
