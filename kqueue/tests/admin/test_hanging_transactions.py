from __future__ import annotations

from typing import Any

import pytest

from kqueue.admin.hanging_transactions import abort_marker, find_hanging_transactions
from kqueue.client import AbortMarker, ProducerState, TopicPartition, TransactionDescription, TransactionListing
from kqueue.client.errors import BrokerRefused
from kqueue.client.retry_policy import response_error

ZERO = TopicPartition("t", 0)
ONE = TopicPartition("t", 1)


class CoordinatorOf:
    """A client of a cluster with these producers, listings and descriptions."""

    def __init__(
        self,
        producers: dict[TopicPartition, list[ProducerState]],
        listed: dict[str, int],
        described: dict[str, list[TopicPartition]],
    ) -> None:
        self._producers = producers
        self._listed = listed
        self._described = described

    def producers(self, partitions: object) -> dict[TopicPartition, list[ProducerState]]:
        return self._producers

    @property
    def transactions(self) -> CoordinatorOf:
        """It stands for the client and for its part."""
        return self

    def find(self, *, producer_ids: list[int]) -> dict[int, list[TransactionListing]]:
        listings = [TransactionListing(name, id, "Ongoing") for name, id in self._listed.items() if id in producer_ids]
        return {1: listings}

    def describe(self, transactional_id: str) -> TransactionDescription:
        if transactional_id not in self._described:
            raise response_error(105, "DescribeTransactions", "b:1")
        partitions = self._described[transactional_id]
        return TransactionDescription(transactional_id, "Ongoing", 1, 0, 1, None, partitions)


def test_hanging_transactions_are_found() -> None:
    """As Kafka's tool: no id has the producer, the id is gone, or the partition is not in its
    transaction.
    """

    def open_since(producer_id: int, at_ms: int = 0, start: int | None = 5) -> ProducerState:
        return ProducerState(producer_id, 0, 0, at_ms, 0, start)

    producers = {
        ZERO: [open_since(1), open_since(2), open_since(3), open_since(4), open_since(9, start=None)],
        ONE: [open_since(1), open_since(5, at_ms=1_000)],
    }
    client: Any = CoordinatorOf(producers, {"a": 1, "b": 2, "c": 4}, {"a": [ZERO], "b": [ONE]})
    hanging = find_hanging_transactions(client, [ZERO, ONE], 1_000)
    assert [(transaction.partition, transaction.producer.producer_id) for transaction in hanging] == [
        (ZERO, 2),
        (ZERO, 3),
        (ZERO, 4),
        (ONE, 1),
    ]


def test_other_errors_of_the_coordinator_are_not_taken_for_a_missing_id() -> None:
    class Refusing(CoordinatorOf):
        def describe(self, transactional_id: str) -> TransactionDescription:
            raise response_error(15, "DescribeTransactions", "b:1")

    client: Any = Refusing({ZERO: [ProducerState(1, 0, 0, 0, 0, 5)]}, {"a": 1}, {})
    with pytest.raises(BrokerRefused):
        find_hanging_transactions(client, [ZERO], 1_000)


def test_the_marker_of_a_producer_without_a_marker_so_far_has_epoch_0() -> None:
    assert abort_marker(ProducerState(7, 2, 0, 0, -1, 5)) == AbortMarker(7, 2, 0)
    assert abort_marker(ProducerState(7, 2, 0, 0, 3, 5)) == AbortMarker(7, 2, 3)
