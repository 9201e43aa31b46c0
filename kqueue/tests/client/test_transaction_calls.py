from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import kqueue
from kqueue.client import LATEST, Client, TopicPartition
from kqueue.client.errors import BrokerRefused
from kqueue.records.builder import BatchBuilder

PARTITIONS = [TopicPartition("t", 0), TopicPartition("t", 1)]


@pytest.fixture
def client() -> Iterator[Client]:
    with kqueue.Broker() as broker, Client(broker.bootstrap) as made:
        broker.create_topic("t", 2)
        yield made


def committed_end(client: Client) -> list[int | None]:
    ends = client.offsets(dict.fromkeys(PARTITIONS, LATEST), isolation="read_committed")
    return [end.offset for end in ends.values()]


def write(client: Client, transactional_id: str, sequence: int = 0) -> None:
    producer = client.transactions.init(transactional_id, 60_000)
    client.transactions.add_partitions(producer, PARTITIONS)
    builder = BatchBuilder(producer_id=producer.id, epoch=producer.epoch, base_sequence=sequence, transactional=True)
    builder.append(1_000, None, b"x")
    batch = builder.build()
    client.produce(dict.fromkeys(PARTITIONS, batch), transactional_id=transactional_id)
    assert committed_end(client) == [0, 0]
    for _ in range(2):  # another process may not know that it is done
        client.transactions.end(producer, committed=True)
    with pytest.raises(BrokerRefused, match="INVALID_TXN_STATE"):
        client.transactions.end(producer, committed=False)
    assert client.transactions.describe(transactional_id).state == "CompleteCommit"
    assert committed_end(client) == [2, 2]


def test_a_transaction_over_partitions(client: Client) -> None:
    write(client, "x")


def test_a_newer_producer_fences_the_one_before(client: Client) -> None:
    old = client.transactions.init("x", 60_000)
    client.transactions.add_partitions(old, PARTITIONS)
    assert client.transactions.init("x", 60_000).epoch > old.epoch
    with pytest.raises(BrokerRefused, match="PRODUCER_FENCED"):
        client.transactions.end(old, committed=True)
    with pytest.raises(BrokerRefused, match="PRODUCER_FENCED"):
        client.transactions.add_partitions(old, PARTITIONS)


def test_a_producer_is_fenced_by_a_cluster_that_has_to_write_to_three_disks(tmp_path: Path) -> None:
    with kqueue.Cluster(brokers=3, path=tmp_path) as cluster, Client(cluster.bootstrap) as client:
        old = client.transactions.init("x", 60_000)
        assert client.transactions.fence("x", timeout_ms=20_000) == (old.id, old.epoch + 1)


def test_a_timeout_that_brokers_do_not_allow(client: Client) -> None:
    with pytest.raises(BrokerRefused, match="INVALID_TRANSACTION_TIMEOUT"):
        client.transactions.init("x", 2**31 - 1)
