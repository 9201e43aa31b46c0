"""The calls of `Client` about transactions: those of producers, and what coordinators know."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from kqueue.client.calls.find_coordinator import CoordinatorKey
from kqueue.client.calls.init_producer_id import ProducerIdAndEpoch
from kqueue.client.calls.producers import AbortMarker, AbortTransactions, DescribeProducers, ProducerState
from kqueue.client.calls.transactions import (
    AddPartitionsToTxn,
    DescribeTransaction,
    EndTxn,
    FenceProducer,
    InitTransactions,
    ListTransactions,
    TransactionalProducer,
    TransactionDescription,
    TransactionListing,
)
from kqueue.client.routing import Router
from kqueue.client.topic_partition import TopicPartition


class TransactionCalls:
    """`Client.transactions`: the protocol of transactional producers, and what coordinators know.

    Transactions of producers follow the protocol before KIP-890's second version, which every Kafka
    understands: partitions are added before batches are sent to them, and the end of a transaction
    keeps the epoch, so that ending it again does nothing.
    """

    def __init__(self, router: Router) -> None:
        self._router = router

    def init(
        self, transactional_id: str, transaction_timeout_ms: int, *, timeout_ms: int | None = None
    ) -> TransactionalProducer:
        """Return a producer with a new epoch; older ones of this id are fenced, and what they left
        open is aborted.

        Args:
            transaction_timeout_ms: the coordinator aborts a transaction that is open for longer.
        Raises: BrokerRefused: INVALID_TRANSACTION_TIMEOUT: more than the brokers'
            transaction.max.timeout.ms, for example. ClientError.
        """
        with self._router.call(timeout_ms) as deadline:
            call = InitTransactions(transactional_id, transaction_timeout_ms)
            return self._router.send_to_coordinator(transactional_id, call, deadline, CoordinatorKey.TRANSACTIONAL_ID)

    def add_partitions(
        self, producer: TransactionalProducer, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> None:
        """Add partitions to the producer's transaction; the first ones begin it.

        Raises: BrokerRefused: of one partition; a newer producer took over, or the transaction took
            too long. ClientError.
        """
        with self._router.call(timeout_ms) as deadline:
            call = AddPartitionsToTxn(producer, partitions)
            key = producer.transactional_id
            self._router.send_to_coordinator(key, call, deadline, CoordinatorKey.TRANSACTIONAL_ID)

    def end(self, producer: TransactionalProducer, *, committed: bool, timeout_ms: int | None = None) -> None:
        """Commit or abort the producer's transaction. Any process may do it, and do it again.

        The decision is durable on return; its markers follow.

        Raises: BrokerRefused: it was ended the other way, a newer producer took over, or it took
            too long. ClientError.
        """
        with self._router.call(timeout_ms) as deadline:
            call = EndTxn(producer, committed=committed)
            key = producer.transactional_id
            self._router.send_to_coordinator(key, call, deadline, CoordinatorKey.TRANSACTIONAL_ID)

    def find(
        self,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        *,
        running_ms: int | None = None,
        pattern: str | re.Pattern[str] = ".*",
        timeout_ms: int | None = None,
    ) -> dict[int, list[TransactionListing]]:
        """Return the transactional ids of the cluster that match all filters, by coordinator id.

        Args:
            states: in one of these states; empty: any. producer_ids: of one of these.
            running_ms: with a transaction that has been open for longer (Kafka 3.8 and later).
            pattern: whose id matches as a whole; matched in the client.
        Raises: IncompatibleBroker: a broker does not know `running_ms`. ClientError.
        """
        with self._router.call(timeout_ms) as deadline:
            listings = self._router.send_to_all(ListTransactions(states, producer_ids, running_ms), deadline)
        regex = re.compile(pattern)
        return {
            broker: [listing for listing in listed if regex.fullmatch(listing.transactional_id)]
            for broker, listed in listings.items()
        }

    def describe(self, transactional_id: str, *, timeout_ms: int | None = None) -> TransactionDescription:
        """Return the state of a transactional id.

        Raises: BrokerRefused: TRANSACTIONAL_ID_NOT_FOUND, for example. ClientError.
        """
        with self._router.call(timeout_ms) as deadline:
            call = DescribeTransaction(transactional_id)
            return self._router.send_to_coordinator(transactional_id, call, deadline, CoordinatorKey.TRANSACTIONAL_ID)

    def fence(self, transactional_id: str, *, timeout_ms: int | None = None) -> ProducerIdAndEpoch:
        """Abort the open transaction of a transactional id, and fence its producer."""
        with self._router.call(timeout_ms) as deadline:
            call = FenceProducer(transactional_id)
            return self._router.send_to_coordinator(transactional_id, call, deadline, CoordinatorKey.TRANSACTIONAL_ID)

    def producers(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, list[ProducerState]]:
        """Return the producers that each partition knows, from its leader."""
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_leaders(DescribeProducers(), dict.fromkeys(partitions), deadline)

    def abort(self, markers: Mapping[TopicPartition, AbortMarker], *, timeout_ms: int | None = None) -> None:
        """Abort a transaction in each partition, at its leader, without the coordinator.

        For transactions whose coordinator does not know them any more; others stay open there.
        Raises: BrokerRefused: INVALID_PRODUCER_EPOCH, for example. ClientError.
        """
        with self._router.call(timeout_ms) as deadline:
            self._router.send_to_leaders(AbortTransactions(), markers, deadline)
