"""Queries about transactions to their coordinators, and the requests of transactional producers to
them.

InitProducerId with a transactional id ends what its last producer left open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kqueue.client.calls.init_producer_id import ProducerIdAndEpoch
from kqueue.client.retry_policy import bad_answer, response_error
from kqueue.client.topic_partition import TopicPartition, by_topic
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kqueue.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kqueue.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kqueue.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kqueue.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

NO_DURATION = -1
VERSION_DURATION = 1
FENCING_TIMEOUT_MS = 30_000
"""Transaction timeout of a producer that only fences others and writes nothing. A coordinator waits
no longer than this until its record is on the disks of the in-sync replicas.
"""


class TransactionListing(NamedTuple):
    """A transactional id. `state`: the name in the protocol, such as ``Ongoing``."""

    transactional_id: str
    producer_id: int
    state: str


class TransactionDescription(NamedTuple):
    """The state of a transactional id.

    Attributes:
        start_ms: when the last transaction began (wall clock); None: there was none.
        partitions: partitions of the open transaction.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: list[TopicPartition]


class ListTransactions:
    """ListTransactions of one broker. An empty filter matches all.

    Args:
        running_ms: only transactions that have been open for longer.
    """

    api = BY_MODULE["list_transactions"]
    repeatable = True

    def __init__(
        self,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        running_ms: int | None = None,
    ) -> None:
        self.states = list(states)
        self.producer_ids = list(producer_ids)
        self.running_ms = running_ms
        self.versions = (0 if running_ms is None else VERSION_DURATION, 2)

    def request(self, version: int) -> ListTransactionsRequest:
        return ListTransactionsRequest(
            state_filters=self.states,
            producer_id_filters=self.producer_ids,
            duration_filter=NO_DURATION if self.running_ms is None else self.running_ms,
        )

    def result(self, version: int, response: ListTransactionsResponse, broker: str) -> list[TransactionListing]:
        if response.error_code:
            raise response_error(response.error_code, self.api.name, broker)
        return [
            TransactionListing(listing.transactional_id, listing.producer_id, listing.transaction_state)
            for listing in response.transaction_states
        ]


class DescribeTransaction:
    """DescribeTransactions of one transactional id, at its coordinator."""

    api = BY_MODULE["describe_transactions"]
    versions = (0, 0)
    repeatable = True

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id

    def request(self, version: int) -> DescribeTransactionsRequest:
        return DescribeTransactionsRequest(transactional_ids=[self.transactional_id])

    def result(self, version: int, response: DescribeTransactionsResponse, broker: str) -> TransactionDescription:
        if [row.transactional_id for row in response.transaction_states] != [self.transactional_id]:
            raise bad_answer(self.api.name, broker, f"is not about transactional id {self.transactional_id!r}")
        [row] = response.transaction_states
        if row.error_code:
            about = f"transactional id {self.transactional_id!r}"
            raise response_error(row.error_code, self.api.name, broker, about=about)
        return TransactionDescription(
            row.transactional_id,
            row.transaction_state,
            row.producer_id,
            row.producer_epoch,
            row.transaction_timeout_ms,
            row.transaction_start_time_ms if row.transaction_start_time_ms >= 0 else None,
            sorted(TopicPartition(topic.topic, index) for topic in row.topics for index in topic.partitions),
        )


class FenceProducer:
    """InitProducerId with a transactional id, at its coordinator.

    It aborts an open transaction and refuses the producer that began it.
    """

    api = BY_MODULE["init_producer_id"]
    versions = (0, 5)
    repeatable = True  # an epoch more or less

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id

    def request(self, version: int) -> InitProducerIdRequest:
        return InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=FENCING_TIMEOUT_MS)

    def result(self, version: int, response: InitProducerIdResponse, broker: str) -> ProducerIdAndEpoch:
        if response.error_code:
            about = f"transactional id {self.transactional_id!r}"
            raise response_error(response.error_code, self.api.name, broker, about=about)
        return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)


class TransactionalProducer(NamedTuple):
    """A producer of a transactional id. All its transactions have the same id and epoch."""

    transactional_id: str
    id: int
    epoch: int


class InitTransactions:
    """InitProducerId of a producer that writes."""

    api = BY_MODULE["init_producer_id"]
    versions = (0, 5)
    repeatable = True  # an epoch more or less

    def __init__(self, transactional_id: str, transaction_timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms

    def request(self, version: int) -> InitProducerIdRequest:
        return InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self.transaction_timeout_ms
        )

    def result(self, version: int, response: InitProducerIdResponse, broker: str) -> TransactionalProducer:
        if response.error_code:
            about = f"transactional id {self.transactional_id!r}"
            raise response_error(response.error_code, self.api.name, broker, about=about)
        return TransactionalProducer(self.transactional_id, response.producer_id, response.producer_epoch)


class AddPartitionsToTxn:
    """AddPartitionsToTxn of one producer; later versions are for brokers."""

    api = BY_MODULE["add_partitions_to_txn"]
    versions = (0, 3)
    repeatable = True  # a partition is added once

    def __init__(self, producer: TransactionalProducer, partitions: Iterable[TopicPartition]) -> None:
        self.producer = producer
        self.partitions = [TopicPartition(*one) for one in partitions]

    def request(self, version: int) -> AddPartitionsToTxnRequest:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.producer.transactional_id,
            v3_and_below_producer_id=self.producer.id,
            v3_and_below_producer_epoch=self.producer.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=[index for index, _ in parts])
                for topic, parts in by_topic((partition, None) for partition in self.partitions).items()
            ],
        )

    def result(self, version: int, response: AddPartitionsToTxnResponse, broker: str) -> None:
        codes = {
            TopicPartition(topic.name, partition.partition_index): partition.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        }
        if codes.keys() != set(self.partitions):
            about = f"the partitions of transactional id {self.producer.transactional_id!r}"
            raise bad_answer(self.api.name, broker, f"is not about {about}")
        failed = [(topic_partition, code) for topic_partition, code in codes.items() if code]
        # a partition that is refused has the others not attempted
        failed.sort(key=lambda one: one[1] == ErrorCode.OPERATION_NOT_ATTEMPTED)
        for topic_partition, code in failed:
            raise response_error(code, self.api.name, broker, topic_partition)


class EndTxn:
    """EndTxn. Up to version 4 the epoch stays, so a repeated request gets the same answer."""

    api = BY_MODULE["end_txn"]
    versions = (0, 4)
    repeatable = True

    def __init__(self, producer: TransactionalProducer, *, committed: bool) -> None:
        self.producer = producer
        self.committed = committed

    def request(self, version: int) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.producer.transactional_id,
            producer_id=self.producer.id,
            producer_epoch=self.producer.epoch,
            committed=self.committed,
        )

    def result(self, version: int, response: EndTxnResponse, broker: str) -> None:
        if response.error_code:
            about = f"transactional id {self.producer.transactional_id!r}"
            raise response_error(response.error_code, self.api.name, broker, about=about)
