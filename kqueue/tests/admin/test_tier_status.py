from __future__ import annotations

from collections.abc import Iterator

import pytest

import kqueue
from kqueue.admin.tier_status import PartitionTierStatus, tier_status, tier_urls, tiered_topics
from kqueue.client import Client, PartitionMetadata, TopicMetadata, TopicPartition
from kqueue.tests.waits import eventually
from kqueue.tier.stores.memory import forget_objects

NAME = "tier-status"
SETTINGS = {
    "remote.log.storage.system.enable": True,
    "kqueue.tier.url": f"memory://{NAME}",
    "remote.log.manager.task.interval.ms": 20,
    "log.retention.check.interval.ms": 20,
}
NODE = 1
ORDERS = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker(settings=SETTINGS) as broker:
        broker.create_topic("orders", remote_storage_enable=True, segment_bytes=1 << 20, local_retention_bytes=1)
        broker.create_topic("plain")
        for _ in range(3):
            broker.topics["orders"].produce_all([b"x" * 400_000] * 2)
        yield broker
    forget_objects(NAME)


def test_leader_says_what_is_copied_and_what_is_on_its_disk(broker: kqueue.Broker) -> None:
    with Client(broker.bootstrap) as client:
        topics = list(client.metadata().topics.values())
        assert list(tiered_topics(client, topics)) == ["orders"]
        orders = [topic for topic in topics if topic.name == "orders"]
        eventually(lambda: tier_status(client, orders)[0].local_start, "a segment that is deleted here")
        (status,) = tier_status(client, orders)
        assert (status.partition, status.log_start, status.end, status.error) == (ORDERS, 0, 6, "")
        assert status.tiered_end is not None
        assert status.local_start is not None
        assert 0 < status.local_start <= status.tiered_end
        assert status.lag == 6 - status.tiered_end
        assert set(tier_urls(client, [NODE]).values()) == {f"memory://{NAME}"}


def test_topic_that_is_not_tiered_has_nothing_in_the_tier(broker: kqueue.Broker) -> None:
    with Client(broker.bootstrap) as client:
        (status,) = tier_status(client, [client.metadata(["plain"]).topics["plain"]])
        assert (status.log_start, status.local_start, status.tiered_end, status.end, status.lag) == (0, 0, None, 0, 0)
        assert tiered_topics(client, []) == {}


def test_error_of_one_partition_hides_no_other(broker: kqueue.Broker) -> None:
    missing = TopicMetadata("missing", bytes(16), {0: PartitionMetadata(-1), 1: PartitionMetadata(NODE)})
    with Client(broker.bootstrap, missing_topic_ms=1, timeout_ms=2_000) as client:
        statuses = tier_status(client, [missing, client.metadata(["plain"]).topics["plain"]])
    assert [bool(status.error) for status in statuses] == [True, True, False]
    assert statuses[0].error == "it has no leader"
    assert statuses[0].lag is None
    assert statuses[1].as_json()["error"]


def test_broker_without_tiered_storage_has_no_url() -> None:
    with kqueue.Broker() as broker, Client(broker.bootstrap) as client:
        assert tier_urls(client, [NODE]) == {NODE: None}


def test_lag_counts_from_the_log_start_where_the_tier_has_less() -> None:
    assert PartitionTierStatus(ORDERS, 1, 5, 5, 3, 9).lag == 4
    assert PartitionTierStatus(ORDERS, 1, 0, 0, None, 9).lag == 9
