from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from kafka import KafkaProducer

import kqueue
from kqueue.embedded import Cluster
from kqueue.testing import PowerCutDisks, Remains
from kqueue.tests.thorough import corners


@pytest.fixture(scope="module", autouse=True)
def _collected() -> Iterator[None]:
    """Collect what a client left before another module's test has to."""
    yield
    gc.collect()


@pytest.fixture
def disks() -> PowerCutDisks:
    return PowerCutDisks(seed=1)


@pytest.fixture
def cluster(disks: PowerCutDisks) -> Iterator[Cluster]:
    with kqueue.Cluster(brokers=3, storages=disks) as running:
        running.create_topic("orders", replicas={0: [0, 1, 2]}, min_insync_replicas=2)
        yield running


def produce(cluster: Cluster, start: int, stop: int) -> list[bytes]:
    """Send records one by one, each confirmed before the next."""
    values = [str(number).encode() for number in range(start, stop)]
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap, acks="all", enable_idempotence=True, retry_backoff_ms=20
    ) as producer:
        for value in values:
            producer.send("orders", value).get(60)
    return values


@pytest.mark.parametrize("remains", corners(Remains, Remains.TORN))
def test_confirmed_records_survive_a_power_cut_of_all_brokers(
    cluster: Cluster, disks: PowerCutDisks, remains: Remains
) -> None:
    confirmed = produce(cluster, 0, 50)
    disks.cut(cluster, 0, 1, 2, remains=remains)
    assert not any(broker.is_running for broker in cluster.brokers)
    cluster.start()
    cluster.wait_in_sync(within_s=60)
    confirmed += produce(cluster, 50, 60)
    cluster.wait_in_sync()
    for broker in cluster.brokers:
        broker.assert_produced("orders", confirmed, within_s=30)


@pytest.mark.long
def test_confirmed_records_survive_power_cuts_of_one_broker_after_the_other(
    cluster: Cluster, disks: PowerCutDisks
) -> None:
    confirmed: list[bytes] = []
    for round in range(6):
        confirmed += produce(cluster, 10 * round, 10 * round + 10)
        leader = cluster.leader("orders")
        assert leader is not None
        disks.cut(cluster, leader, remains=Remains.TORN)
        cluster.wait_leader("orders", other_than=leader)
        cluster.start(leader)
        cluster.wait_in_sync()
    for broker in cluster.brokers:
        broker.assert_produced("orders", confirmed, within_s=30)


def test_confirmed_records_are_lost_where_nobody_flushes(disks: PowerCutDisks) -> None:
    with kqueue.Cluster(brokers=2, storages=disks, kqueue_flush="kafka") as cluster:
        cluster.create_topic("orders", replicas={0: [0, 1]}, min_insync_replicas=2)
        produce(cluster, 0, 5)
        disks.cut(cluster, 0, 1)
        cluster.start()
        cluster.wait_in_sync(within_s=60)
        assert all(len(list(broker.topics["orders"].records())) < 5 for broker in cluster.brokers)


def test_unsynced_bytes_are_lost(cluster: Cluster, disks: PowerCutDisks) -> None:
    disk = disks(0, cluster[0]._time)
    file = disk.open("note", create=True)
    disk.sync_folder("")
    file.append(b"synced")
    file.sync()
    file.append(b"not synced")
    disks.cut(cluster, 0)
    assert disks(0, cluster[0]._time).read("note") == b"synced"


def test_a_cluster_with_its_own_disks_is_not_reset(cluster: Cluster) -> None:
    with pytest.raises(RuntimeError, match="start another one"):
        cluster.reset()
