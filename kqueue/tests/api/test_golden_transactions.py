"""Requests about transactions that clients sent to Kafka 4.3 are answered here as they were
there.
"""

from __future__ import annotations

from collections.abc import Iterable

from kqueue.broker.topics.topics import OFFSETS_TOPIC
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.api.test_golden import Exchange, of, world
from kqueue.transactions.marker_writer import TopicPartition
from kqueue.transactions.transaction_metadata import TransactionMetadata
from kqueue.transactions.transaction_state import TransactionState
from kqueue.transactions.transaction_store import Transaction

STATES = {state.value: state for state in TransactionState}


def put(client: SimulatedClient, metadata: TransactionMetadata) -> None:
    """As if the transactional id had been loaded."""
    store = client.sim.broker.coordinators.transactions._store
    store._transactions[metadata.transactional_id] = Transaction(metadata)


def at(
    id: str, producer_id: int, epoch: int, partitions: Iterable[TopicPartition] | None = None
) -> TransactionMetadata:
    """An id in the state in which the request found it: ongoing if it has partitions."""
    state = TransactionState.EMPTY if partitions is None else TransactionState.ONGOING
    return TransactionMetadata(
        id, producer_id, epoch=epoch, timeout_ms=60_000, state=state, partitions=frozenset(partitions or ())
    )


def with_topics(client: SimulatedClient, topics: Iterable[tuple[str, Iterable[int]]]) -> list[TopicPartition]:
    """Create the topics that a request names; return its partitions."""
    partitions = []
    for name, indexes in topics:
        if name == OFFSETS_TOPIC:
            client.sim.result(client.sim.broker.topics.create_on_demand(name))
        else:
            client.sim.topic(name, 1 + max(indexes))
        partitions += [(name, index) for index in indexes]
    return partitions


@of("AddPartitionsToTxn")
def test_add_partitions_to_txn(exchange: Exchange) -> None:
    client, request = world(), exchange.request
    if exchange.version < 4:
        with_topics(client, [(topic.name, topic.partitions) for topic in request.v3_and_below_topics])
        put(
            client,
            at(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
            ),
        )
    for transaction in request.transactions:
        partitions = with_topics(client, [(topic.name, topic.partitions) for topic in transaction.topics])
        added = partitions if transaction.verify_only else None
        put(client, at(transaction.transactional_id, transaction.producer_id, transaction.producer_epoch, added))
    assert client.ask(request, exchange.version) == exchange.response


@of("AddOffsetsToTxn")
def test_add_offsets_to_txn(exchange: Exchange) -> None:
    client, request = world(), exchange.request
    put(client, at(request.transactional_id, request.producer_id, request.producer_epoch))
    assert client.ask(request, exchange.version) == exchange.response


@of("EndTxn")
def test_end_txn(exchange: Exchange) -> None:
    client, request = world(), exchange.request
    client.sim.topic("t")
    put(client, at(request.transactional_id, request.producer_id, request.producer_epoch, [("t", 0)]))
    assert client.ask(request, exchange.version) == exchange.response


@of("DescribeTransactions")
def test_describe_transactions(exchange: Exchange) -> None:
    client = world()
    for state in exchange.response.transaction_states:
        partitions = [(topic.topic, index) for topic in state.topics for index in topic.partitions]
        put(
            client,
            at(state.transactional_id, state.producer_id, state.producer_epoch, partitions)._replace(
                timeout_ms=state.transaction_timeout_ms, start_ms=state.transaction_start_time_ms
            ),
        )
    assert client.ask(exchange.request, exchange.version) == exchange.response


@of("ListTransactions")
def test_list_transactions(exchange: Exchange) -> None:
    client = world()
    for state in exchange.response.transaction_states:
        put(client, at(state.transactional_id, state.producer_id, 0)._replace(state=STATES[state.transaction_state]))
    assert client.ask(exchange.request, exchange.version) == exchange.response
