from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import kqueue
from kqueue.embedded import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with kqueue.Cluster(brokers=3) as running:
        running.create_topic("orders", replicas={0: [0], 1: [1], 2: [2]})
        for id, value in enumerate(("two coffees", "one tea", "a cake")):
            running[id].topics["orders"].produce(value, partition=id)
        yield running


def test_each_partition_is_read_from_its_leader(cluster: Cluster) -> None:
    assert [record.value for record in cluster.records("orders")] == [b"two coffees", b"one tea", b"a cake"]
    assert [record.value for record in cluster.records("orders", 1)] == [b"one tea"]
    produced = cluster.assert_produced("orders", ["a cake", "one tea", "two coffees"])
    assert [record.partition for record in produced] == [0, 1, 2]
    cluster.assert_produced("orders", ["a cake"], partition=2)
    cluster.assert_produced("orders", count=3)
    with pytest.raises(AssertionError, match="orders has 3 records, expected 2: 1 too many"):
        cluster.assert_produced("orders", ["a cake", "one tea"])


def test_records_without_a_leader_or_topic_cannot_be_read(cluster: Cluster) -> None:
    with pytest.raises(KeyError, match="there is no topic 'mail'"):
        cluster.records("mail")
    with pytest.raises(AssertionError, match="there is no topic 'mail'"):
        cluster.assert_produced("mail", ["a"])
    cluster.stop(1)
    with pytest.raises(KeyError, match="no leader that runs, of partition 'orders-1'"):
        cluster.records("orders")
    with pytest.raises(AssertionError, match="no leader that runs"):
        cluster.assert_produced("orders", count=3, within_s=0.02)
    cluster.start(1)
    cluster.assert_produced("orders", count=3, within_s=30)


def test_records_that_come_later(cluster: Cluster) -> None:
    async def test() -> None:
        waiting = asyncio.ensure_future(cluster.wait_produced("orders", count=4))
        await asyncio.to_thread(lambda: cluster[0].topics["orders"].produce("one tea", partition=0))
        assert len(await waiting) == 4

    asyncio.run(test())
