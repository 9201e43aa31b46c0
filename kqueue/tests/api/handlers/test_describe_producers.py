from __future__ import annotations

import pytest

from kqueue.records.batch import read_header
from kqueue.tests.api.harness import NOW_MS, ErrorCode, SimulatedClient, batch
from kqueue.transactions.marker_writer import TransactionMarker
from kqueue.wire.messages.describe_producers import DescribeProducersRequest, PartitionResponse, TopicRequest


def request(*indexes: int, name: str = "t") -> DescribeProducersRequest:
    return DescribeProducersRequest(topics=[TopicRequest(name=name, partition_indexes=list(indexes))])


def ask(client: SimulatedClient, *indexes: int, name: str = "t") -> list[PartitionResponse]:
    (topic,) = client.ask(request(*indexes, name=name), 0).topics
    assert topic.name == name
    partitions: list[PartitionResponse] = topic.partitions
    return partitions


@pytest.fixture
def client() -> SimulatedClient:
    client = SimulatedClient()
    client.sim.topic("t", 2)
    return client


def append(client: SimulatedClient, *values: bytes, **settings: object) -> None:
    raw = memoryview(bytearray(batch(*values, **settings)))  # type: ignore[arg-type]
    client.sim.broker.topics.partition("t", 0).append(raw, read_header(raw))


def test_the_open_transaction_and_the_last_batch_of_each_producer(client: SimulatedClient) -> None:
    append(client, b"a", b"b", producer_id=4, epoch=2, base_sequence=10)
    append(client, b"c", producer_id=5, epoch=0, base_sequence=0, transactional=True)
    append(client, b"d", b"e", b"f", producer_id=5, epoch=0, base_sequence=1, transactional=True)
    (one,) = ask(client, 0)
    assert (one.error_code, one.error_message) == (0, None)
    first, second = one.active_producers
    assert (first.producer_id, first.producer_epoch, first.last_sequence) == (4, 2, 11)
    assert (first.last_timestamp, first.coordinator_epoch, first.current_txn_start_offset) == (NOW_MS + 1, -1, -1)
    assert (second.producer_id, second.last_sequence, second.current_txn_start_offset) == (5, 3, 2)
    marker = TransactionMarker(5, 1, False, 9, 2, [("t", 0)])
    client.sim.broker.coordinators.markers.write(marker, lambda results: None)
    ended = ask(client, 0)[0].active_producers[1]
    assert (ended.producer_epoch, ended.last_sequence, ended.current_txn_start_offset) == (1, -1, -1)
    assert ended.coordinator_epoch == 9


def test_partitions_without_producers_and_without_a_log(client: SimulatedClient) -> None:
    append(client, b"a")
    empty, other, unknown, again = ask(client, 0, 1, 2, 0)
    assert empty.active_producers == other.active_producers == []
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert again.error_code == ErrorCode.INVALID_REQUEST
    assert ask(client, 0, name="none")[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(client, 0, name="a/b")[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
