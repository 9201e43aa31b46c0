"""Producers of both transaction versions against a whole broker that loses power at any step.

The coordinator's log, the offsets and the data lie on three disks, which lose their unsynced bytes
independently of each other. Clients repeat the request whose answer they lost, and old producers of
a transactional id go on. What a client was told holds; a transaction is visible as a whole or not
at all, together with its offset; nobody is fenced but by a successor or the timeout; and in the end
none is open.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from kqueue.metadata.memory import MemoryStore
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.harness import SimulatedClient, batch, produce_request
from kqueue.tests.broker.fetch.test_read_committed_machine import READ_COMMITTED, consume
from kqueue.tests.thorough import examples
from kqueue.transactions.transaction_state import IDLE
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kqueue.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kqueue.wire.messages.end_txn import EndTxnRequest
from kqueue.wire.messages.init_producer_id import InitProducerIdRequest
from kqueue.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kqueue.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

TIMEOUT_MS = 60_000
RETRY_MS = 20
RETRIES = 300
DISKS = 3
SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}
RETRIABLE = {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
}
FENCED = {
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
}
IDS = st.sampled_from(["tx", "tx", "ty"])
PICK = st.integers(0, 5)


class Refused(Exception):
    """The broker refuses this producer for good."""


@dataclass
class Transaction:
    """What its client knows. `outcome`: the answer to EndTxn; `asked`: the decision it sent."""

    number: int
    records: dict[int, list[bytes]] = field(default_factory=dict)
    has_offset: bool = False
    asked: bool | None = None
    outcome: bool | None = None


@dataclass
class Producer:
    """One producer of a transactional id; `version` of its transactions."""

    id: str
    version: int
    producer_id: int
    epoch: int
    sequences: dict[int, int] = field(default_factory=dict)
    transaction: Transaction | None = None
    is_fenced: bool = False
    is_timed_out: bool = False


class PowerCuts(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disks = [FaultyStorage() for _ in range(DISKS)]
        self.store = MemoryStore()
        self.rng = random.Random(0)
        self.remains: list[Remains] = [Remains.LOST] * DISKS
        self.count = 0
        self.producers: list[Producer] = []
        self.transactions: dict[str, list[Transaction]] = {"tx": [], "ty": []}
        self.client = SimulatedClient(sim=self._simulation())
        self.client.sim.topic("t", 2)

    def _simulation(self, clock: Any = None) -> Simulation:
        for number, disk in enumerate(self.disks):
            disk.location = f"disk {number}"
        return Simulation(
            dict(SETTINGS), storage=self.disks[0], more_storages=self.disks[1:], store=self.store, clock=clock
        )

    # --- power

    @rule(
        disk=st.integers(0, DISKS - 1),
        steps=st.integers(1, 12),
        remains=st.lists(st.sampled_from(Remains), min_size=DISKS, max_size=DISKS),
        seed=st.integers(0, 9),
    )
    def cut_later(self, disk: int, steps: int, remains: list[Remains], seed: int) -> None:
        self.disks[disk].cut_at = len(self.disks[disk].steps) + steps
        self.remains, self.rng = remains, random.Random(seed)

    @rule(remains=st.lists(st.sampled_from(Remains), min_size=DISKS, max_size=DISKS), cut_again=st.booleans())
    def cut_now(self, remains: list[Remains], cut_again: bool) -> None:
        self.remains = remains
        self._restart(cut_again)

    def _restart(self, cut_again: bool = False) -> None:
        clock = self.client.sim.clock
        self.disks = [disk.after_cut(remains, self.rng) for disk, remains in zip(self.disks, self.remains, strict=True)]
        if cut_again:
            self.rng.choice(self.disks).cut_at = self.rng.randint(1, 6)
        try:
            self.client = SimulatedClient(sim=self._simulation(clock))
            self.client.sim.advance(1)  # what was decided is completed
        except PowerCut:
            self._restart()

    def _advance(self, ms: float) -> None:
        try:
            self.client.sim.advance(ms)
        except PowerCut:
            self._restart()

    # --- requests

    def _ask(self, make: Callable[[], Any], version: int, codes: Callable[[Any], list[int]]) -> Any:
        """Repeat a request until its answer is final. Raises: Refused."""
        failed: set[int] = set()
        for _ in range(RETRIES):
            try:
                answer = self.client.ask(make(), version)
            except PowerCut:
                self._restart()
                continue
            failed = set() if answer is None else {code for code in codes(answer) if code}
            if answer is not None and not failed:
                return answer
            if failed - RETRIABLE:
                assert failed <= FENCED, [ErrorCode(code).name for code in failed]
                raise Refused(", ".join(ErrorCode(code).name for code in failed))
            self._advance(RETRY_MS)
        raise AssertionError(f"{type(make()).__name__} has no final answer: {failed}")

    def _as_producer(self, producer: Producer, run: Callable[[], object]) -> bool:
        """Run requests of a producer; return whether they succeeded."""
        refusal = ""
        try:
            run()
        except Refused as error:
            refusal = str(error)
        assert bool(refusal) == producer.is_fenced, f"{producer}: {refusal or 'served'}"
        if refusal:
            self.producers.remove(producer)
        return not refusal

    @rule(id=IDS, version=st.sampled_from([1, 2]))
    def start(self, id: str, version: int) -> None:
        message = InitProducerIdRequest(transactional_id=id, transaction_timeout_ms=TIMEOUT_MS)
        answer = self._ask(lambda: message, 4 if version == 1 else 5, lambda answer: [answer.error_code])
        for other in self.producers:
            if other.id == id:
                other.is_fenced, other.is_timed_out = True, False
        self.producers.append(Producer(id, version, answer.producer_id, answer.producer_epoch))

    def _pick(self, number: int) -> Producer | None:
        return self.producers[-1 - number % len(self.producers)] if self.producers else None

    def _transaction(self, producer: Producer) -> Transaction:
        if producer.transaction is None:
            self.count += 1
            producer.transaction = Transaction(self.count)
            self.transactions[producer.id].append(producer.transaction)
        return producer.transaction

    @rule(number=PICK, partition=st.integers(0, 1))
    def write(self, number: int, partition: int) -> None:
        producer = self._pick(number)
        if producer is None:
            return
        transaction = self._transaction(producer)
        written = transaction.records.setdefault(partition, [])
        value = b"%d-%d-%d" % (transaction.number, partition, len(written))

        def run() -> None:
            if producer.version == 1 and not written:
                self._add_partition(producer, partition)
            self._produce(producer, partition, value)

        if self._as_producer(producer, run):
            written.append(value)

    def _add_partition(self, producer: Producer, partition: int) -> None:
        message = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=producer.id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[partition])],
        )
        self._ask(
            lambda: message,
            3,
            lambda answer: [answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code],
        )

    def _produce(self, producer: Producer, partition: int, value: bytes) -> None:
        version = 11 if producer.version == 1 else 12
        records = batch(
            value,
            time_ms=self.client.sim.clock.wall_ms(),
            producer_id=producer.producer_id,
            epoch=producer.epoch,
            base_sequence=producer.sequences.get(partition, 0),
            transactional=True,
        )
        self._ask(
            lambda: produce_request(
                self.client, "t", records, version, partition, timeout_ms=1000, transactional_id=producer.id
            ),
            version,
            lambda answer: [answer.responses[0].partition_responses[0].error_code],
        )
        producer.sequences[partition] = producer.sequences.get(partition, 0) + 1

    @rule(number=PICK)
    def commit_offset(self, number: int) -> None:
        """The offset is the number of the transaction."""
        producer = self._pick(number)
        if producer is None:
            return
        transaction = self._transaction(producer)
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=transaction.number)
        message = TxnOffsetCommitRequest(
            transactional_id=producer.id,
            group_id=producer.id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
        )
        added = AddOffsetsToTxnRequest(
            transactional_id=producer.id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id=producer.id,
        )

        def run() -> None:
            if producer.version == 1:
                self._ask(lambda: added, 3, lambda answer: [answer.error_code])
            self._ask(
                lambda: message,
                3 if producer.version == 1 else 5,
                lambda answer: [answer.topics[0].partitions[0].error_code],
            )

        if self._as_producer(producer, run):
            transaction.has_offset = True

    @rule(number=PICK, commit=st.sampled_from([True, True, False]))
    def end(self, number: int, commit: bool) -> None:
        producer = self._pick(number)
        if producer is None or producer.transaction is None:
            return
        transaction = producer.transaction
        message = EndTxnRequest(
            transactional_id=producer.id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        answers: list[Any] = []
        transaction.asked = commit
        if producer.is_timed_out and producer.version == 2 and not commit:
            producer.is_fenced = False  # the coordinator's abort answers that of the producer (KIP-890)

        def run() -> None:
            version = 3 if producer.version == 1 else 5
            answers.append(self._ask(lambda: message, version, lambda answer: [answer.error_code]))

        if self._as_producer(producer, run):
            transaction.outcome = commit
            producer.transaction = None
            if producer.version == 2:
                producer.producer_id, producer.epoch = answers[0].producer_id, answers[0].producer_epoch
                producer.sequences = {}

    @rule(id=IDS, version=st.sampled_from([1, 2]), commit=st.booleans(), partitions=st.sets(st.integers(0, 1)))
    def whole_transaction(self, id: str, version: int, commit: bool, partitions: set[int]) -> None:
        self.start(id, version)
        for partition in sorted(partitions):
            self.write(0, partition)
        self.commit_offset(0)
        self.end(0, commit)

    @rule(ms=st.sampled_from([1, 50, 1000]))
    def wait(self, ms: int) -> None:
        self._advance(ms)

    # --- what must hold

    @rule()
    def quiesce(self) -> None:
        """Let every transaction end, by the timeout if need be."""
        for disk in self.disks:
            disk.cut_at = None
        self.client.sim.advance(2 * TIMEOUT_MS)
        for producer in self.producers:
            if not producer.is_fenced and producer.transaction is not None:
                producer.is_fenced = producer.is_timed_out = True
        broker = self.client.sim.broker
        assert all(metadata.state in IDLE for metadata in broker.coordinators.transactions.all())
        for partition in broker.topics.get("t").partitions:
            assert partition.last_stable_offset == partition.log_end_offset
        visible = self._visible()
        for id, transactions in self.transactions.items():
            committed = [one for one in transactions if self._is_committed(one, visible, self._offset(id))]
            expected = max((one.number for one in committed if one.has_offset), default=-1)
            assert self._offset(id) == expected
        known = {value for all in self.transactions.values() for one in all for value in _values(one)}
        assert set(visible) <= known
        assert len(visible) == len(set(visible))

    def _is_committed(self, transaction: Transaction, visible: list[bytes], offset: int) -> bool:
        values = _values(transaction)
        shown = [value for value in values if value in visible]
        if transaction.outcome is not None or not transaction.asked:
            expected = transaction.outcome is True
            assert shown == (values if expected else []), transaction
            return expected
        assert shown in ([], values), transaction
        return bool(shown) or (not values and transaction.has_offset and offset == transaction.number)

    def _visible(self) -> list[bytes]:
        return [
            record.value or b""
            for partition in range(2)
            for record in consume(self.client, 0, READ_COMMITTED, 1 << 20, partition)[0]
        ]

    def _offset(self, id: str) -> int:
        topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
        message = OffsetFetchRequest(group_id=id, topics=topics, require_stable=True)
        answer = self._ask(
            lambda: message, 7, lambda answer: [answer.error_code, answer.topics[0].partitions[0].error_code]
        )
        offset: int = answer.topics[0].partitions[0].committed_offset
        return offset

    def teardown(self) -> None:
        self.quiesce()


def _values(transaction: Transaction) -> list[bytes]:
    return [value for _, values in sorted(transaction.records.items()) for value in values]


TestPowerCuts = PowerCuts.TestCase
TestPowerCuts.settings = settings(
    max_examples=examples(40), stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
