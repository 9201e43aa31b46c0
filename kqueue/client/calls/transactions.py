"""ListTransactions and DescribeTransactions: what transaction coordinators know.

InitProducerId with a transactional id ends what its last producer left open.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kqueue.client.calls.init_producer_id import ProducerIdAndEpoch
from kqueue.client.retry_policy import bad_answer, response_error
from kqueue.client.topic_partition import TopicPartition
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kqueue.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kqueue.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

NO_DURATION = -1
VERSION_DURATION = 1
FENCING_TIMEOUT_MS = 1
"""Transaction timeout of a producer that only fences others and writes nothing."""


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
            TransactionListing(found.transactional_id, found.producer_id, found.transaction_state)
            for found in response.transaction_states
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
        if [found.transactional_id for found in response.transaction_states] != [self.transactional_id]:
            raise bad_answer(self.api.name, broker, f"is not about transactional id {self.transactional_id!r}")
        [found] = response.transaction_states
        if found.error_code:
            about = f"transactional id {self.transactional_id!r}"
            raise response_error(found.error_code, self.api.name, broker, about=about)
        return TransactionDescription(
            found.transactional_id,
            found.transaction_state,
            found.producer_id,
            found.producer_epoch,
            found.transaction_timeout_ms,
            found.transaction_start_time_ms if found.transaction_start_time_ms >= 0 else None,
            sorted(TopicPartition(topic.topic, index) for topic in found.topics for index in topic.partitions),
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
