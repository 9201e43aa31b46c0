"""A bank whose transfers are transactions: accounts in one topic, orders in another.

`Teller` is the usual consume-transform-produce loop, by bare requests: it reads an order, writes
both new balances, and stores its position, in one transaction. The sum of all balances never
changes, and each order is carried out once, also if a teller or the broker is killed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kqueue.records.batch import decode_control, iter_batches, iter_records
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.fetch_client import one, request, want
from kqueue.tests.api.harness import SimulatedClient, batch, produce_request
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

ACCOUNTS, START, GROUP, TELLER = 4, 100, "tellers", "teller"
PARTITIONS = 2
ORDERS = [(0, 1, 30), (1, 2, 75), (2, 3, 150), (3, 0, 5)]
SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}
RETRIES = 200
RETRY_MS = 20
RETRIABLE = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
}


class TellerRefused(Exception):
    """The broker refuses this teller: another one has its transactional id, or the broker gave its
    transaction up.
    """


def open_bank(sim: Simulation) -> None:
    """Make the topics, pay in what the accounts start with, and hand in the orders."""
    sim.topic("accounts", PARTITIONS)
    sim.topic("orders")
    client = SimulatedClient(sim=sim)
    for account in range(ACCOUNTS):
        records = batch(b"%d" % START, key=b"%d" % account)
        assert client.produce("accounts", records, partition=account % PARTITIONS).error_code == 0
    orders = batch(*(b"%d %d %d" % order for order in ORDERS))
    assert client.produce("orders", orders).error_code == 0


def balances(client: SimulatedClient) -> dict[int, int]:
    """Return the last balance of each account, as a read_committed consumer finds it."""
    balances_read: dict[int, int] = {}
    for partition in range(PARTITIONS):
        answer = one(client.ask(request(client, 12, want(partition), topic="accounts", isolation_level=1), 12))
        assert answer.error_code == 0
        balances_read |= committed(answer)
    return balances_read


def committed(answer: Any) -> dict[int, int]:
    """Leave out what a consumer leaves out: aborted batches, as the response names them."""
    balances_committed: dict[int, int] = {}
    waiting = sorted(answer.aborted_transactions or (), key=lambda one: one.first_offset)
    aborted: set[int] = set()
    data = bytes(answer.records or b"")
    for position, header in iter_batches(data):
        while waiting and waiting[0].first_offset <= header.last_offset:
            aborted.add(waiting.pop(0).producer_id)
        if header.is_control:
            (record,) = iter_records(data, position)
            assert decode_control(record)[0] in (0, 1)
            aborted.discard(header.producer_id)
        elif header.producer_id not in aborted or not header.is_transactional:
            for record in iter_records(data, position):
                balances_committed[int(record.key or b"")] = int(record.value or b"")
    return balances_committed


def expected(orders: int) -> dict[int, int]:
    """The balances after this many orders."""
    sums = dict.fromkeys(range(ACCOUNTS), START)
    for source, target, amount in ORDERS[:orders]:
        sums[source] -= amount
        sums[target] += amount
    return sums


class Teller:
    """Carries out all orders. `version` 1: partitions are added by requests of their own, the epoch
    stays; 2: transactions V2 (KIP-890).
    """

    def __init__(self, client: SimulatedClient, version: int) -> None:
        self.client = client
        self._version = version
        self._id = self._epoch = -1
        self._sequences: dict[int, int] = {}

    def _ask(self, message: Any, version: int, codes: Any) -> Iterator[str]:
        """Ask until the answer is final; yields before each request, where a kill may happen.

        Raises: TellerRefused.
        """
        for _ in range(RETRIES):
            yield type(message).__name__
            answer = self.client.ask(message, version)
            failed = set() if answer is None else {code for code in codes(answer) if code}
            if answer is not None and not failed:
                self.answer = answer
                return
            if answer is not None and not failed & RETRIABLE:
                raise TellerRefused(f"{type(message).__name__}: {failed}")
            self.client.sim.advance(RETRY_MS)
        raise AssertionError(f"{type(message).__name__} is not answered: {failed}")

    def run(self) -> Iterator[str]:
        """Carry out all orders that are left. Raises: TellerRefused."""
        yield from self._init()
        position, state = yield from self._state()
        while position < len(ORDERS):
            source, target, amount = ORDERS[position]
            state[source] -= amount
            state[target] += amount
            position += 1
            yield from self._transaction({source: state[source], target: state[target]}, position)

    def _init(self) -> Iterator[str]:
        version = 4 if self._version == 1 else 5
        message = InitProducerIdRequest(transactional_id=TELLER, transaction_timeout_ms=60_000)
        yield from self._ask(message, version, lambda answer: [answer.error_code])
        self._id, self._epoch = self.answer.producer_id, self.answer.producer_epoch
        self._sequences = {}

    def _state(self) -> Any:
        """The position in the orders, and the balances."""
        topics = [OffsetFetchRequestTopic(name="orders", partition_indexes=[0])]
        message = OffsetFetchRequest(group_id=GROUP, topics=topics, require_stable=True)
        yield from self._ask(message, 7, lambda answer: [answer.error_code, answer.topics[0].partitions[0].error_code])
        position = max(0, self.answer.topics[0].partitions[0].committed_offset)
        return position, balances(self.client)

    def _transaction(self, changed: dict[int, int], position: int) -> Iterator[str]:
        if self._version == 1:
            yield from self._add_partitions({account % PARTITIONS for account in changed})
        for account, balance in changed.items():
            yield from self._write(account, balance)
        if self._version == 1:
            message = AddOffsetsToTxnRequest(
                transactional_id=TELLER, producer_id=self._id, producer_epoch=self._epoch, group_id=GROUP
            )
            yield from self._ask(message, 3, lambda answer: [answer.error_code])
        yield from self._store(position)
        end = EndTxnRequest(transactional_id=TELLER, producer_id=self._id, producer_epoch=self._epoch, committed=True)
        yield from self._ask(end, 3 if self._version == 1 else 5, lambda answer: [answer.error_code])
        if self._version == 2:
            self._id, self._epoch = self.answer.producer_id, self.answer.producer_epoch
            self._sequences = {}

    def _add_partitions(self, partitions: set[int]) -> Iterator[str]:
        message = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TELLER,
            v3_and_below_producer_id=self._id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="accounts", partitions=sorted(partitions))],
        )
        yield from self._ask(
            message,
            3,
            lambda answer: [
                partition.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for partition in topic.results_by_partition
            ],
        )

    def _write(self, account: int, balance: int) -> Iterator[str]:
        partition = account % PARTITIONS
        sequence = self._sequences.get(partition, 0)
        records = batch(
            b"%d" % balance,
            key=b"%d" % account,
            producer_id=self._id,
            epoch=self._epoch,
            base_sequence=sequence,
            transactional=True,
        )
        version = 9 if self._version == 1 else 12
        message = produce_request(
            self.client, "accounts", records, version, partition, timeout_ms=1_000, transactional_id=TELLER
        )
        yield from self._ask(message, version, lambda answer: [answer.responses[0].partition_responses[0].error_code])
        self._sequences[partition] = sequence + 1

    def _store(self, position: int) -> Iterator[str]:
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=position)
        message = TxnOffsetCommitRequest(
            transactional_id=TELLER,
            group_id=GROUP,
            producer_id=self._id,
            producer_epoch=self._epoch,
            topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])],
        )
        yield from self._ask(
            message,
            3 if self._version == 1 else 5,
            lambda answer: [answer.topics[0].partitions[0].error_code],
        )


def sums_up(client: SimulatedClient) -> None:
    """Assert that no money was made or lost, at any time."""
    assert sum(balances(client).values()) == ACCOUNTS * START


__all__ = [
    "ORDERS",
    "SETTINGS",
    "Teller",
    "TellerRefused",
    "balances",
    "expected",
    "open_bank",
    "sums_up",
]
