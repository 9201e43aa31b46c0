from __future__ import annotations

import asyncio

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

import kqueue


def test_groups_of_a_cluster_are_shown_whoever_coordinates_them() -> None:
    with kqueue.Cluster(brokers=3) as cluster:
        cluster.create_topic("orders", replicas={0: [0]})  # so that not all coordinators have a replica
        cluster.load_records([{"value": str(number)} for number in range(4)], topic="orders")
        assert list(cluster.groups) == []
        for name in ("bills", "mail", "stock"):
            with KafkaConsumer(
                "orders", bootstrap_servers=cluster.bootstrap, group_id=name, auto_offset_reset="earliest"
            ) as consumer:
                next(consumer)
                consumer.commit()
        assert list(cluster.groups) == ["bills", "mail", "stock"]
        for name, group in cluster.groups.items():
            assert (group.id, group.offsets, group.lag) == (name, {"orders": {0: 1}}, {"orders": {0: 3}})
        coordinators = [[broker.id for broker in cluster if name in broker.groups] for name in cluster.groups]
        assert all(len(ids) == 1 for ids in coordinators)
        assert "mails" not in cluster.groups
        with pytest.raises(KeyError, match="there is no group 'mials'; did you mean 'mail'"):
            cluster.groups["mials"]
        other = next(broker for broker in cluster if "mail" not in broker.groups)
        with pytest.raises(KeyError, match="not its coordinator; look at cluster.groups"):
            other.groups["mail"]
        with pytest.raises(AssertionError, match="not its coordinator"):
            other.assert_consumed("orders", group="mail")


def test_assert_consumed_of_a_cluster_asks_coordinator_and_leaders() -> None:
    with kqueue.Cluster(brokers=3) as cluster:
        cluster.create_topic("orders", replicas={0: [0], 1: [1]})
        cluster.load_records([{"value": str(number), "partition": number % 2} for number in range(4)], topic="orders")
        for name in ("bills", "mail", "stock"):  # with coordinators that have no replica among them
            with KafkaConsumer(bootstrap_servers=cluster.bootstrap, group_id=name) as consumer:
                consumer.assign([TopicPartition("orders", 0)])
                consumer.commit({TopicPartition("orders", 0): OffsetAndMetadata(2, "", -1)})
            cluster.assert_consumed("orders", group=name, upto={0: 2})
            problem = f"group {name} has consumed 2 of 4 records of orders: partition 1 nowhere of 2"
            with pytest.raises(AssertionError, match=problem):
                cluster.assert_consumed("orders", group=name)
            coordinator = next(broker for broker in cluster if name in broker.groups)
            with pytest.raises(AssertionError, match=r"no replica of orders-\d.*; use cluster.assert_consumed"):
                coordinator.assert_consumed("orders", group=name)
        with pytest.raises(AssertionError, match="there is no group 'mial'; did you mean 'mail'"):
            cluster.assert_consumed("orders", group="mial")
        with pytest.raises(AssertionError, match="there is no topic 'order'"):
            cluster.assert_consumed("order", group="mail")
        with pytest.raises(ValueError, match="orders has 2 partitions: upto= takes partition -> offset"):
            cluster.assert_consumed("orders", group="mail", upto=2)


def test_assert_consumed_of_a_cluster_in_a_coroutine() -> None:
    async def check() -> None:
        async with kqueue.Cluster(brokers=2) as cluster:
            await cluster.aio.create_topic("orders")
            with pytest.raises(AssertionError, match="there is no group 'mail'"):
                await cluster.aio.assert_consumed("orders", group="mail")
            with pytest.raises(AssertionError, match="there is no group 'mail'"):
                await cluster.wait_consumed("orders", group="mail", within_s=0)

    asyncio.run(check())
