"""Events of single brokers of a cluster: stop, kill, pause, the network."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer

import kqueue
from kqueue.embedded import Cluster
from kqueue.embedded.cluster_broker import ClusterBroker
from kqueue.testing import faults
from kqueue.tests.tables import for_each
from kqueue.tests.waits import eventually

TIMEOUT_S = 60


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with kqueue.Cluster(brokers=3) as running:
        yield running


def lead(cluster: Cluster, topic: str, leader: int) -> None:
    """Create a topic of one partition, with a replica on each broker."""
    cluster.create_topic(topic, replicas={0: [leader, *(id for id in range(3) if id != leader)]})


def accepts(broker: ClusterBroker) -> bool:
    host, port = broker._server.endpoint("PLAINTEXT")
    try:
        socket.create_connection((host, port), 5).close()
    except ConnectionRefusedError:
        return False
    return True


def test_each_broker_has_what_a_single_one_has(cluster: Cluster) -> None:
    lead(cluster, "orders", 1)
    first, second, _ = cluster.brokers
    assert (first.id, second.id) == (0, 1)
    second.topics["orders"].produce("two coffees")
    second.assert_produced("orders", ["two coffees"])
    cluster.wait_in_sync()
    first.assert_produced("orders", ["two coffees"], within_s=30)
    assert second.requests(api="Fetch") == [], "requests of brokers are not those of clients"
    second.alter_config(log_retention_ms=1000)
    second.topics["orders"].alter_config(retention_ms=5000)
    assert second.topics["orders"].own_config == {"retention.ms": 5000}
    with KafkaProducer(bootstrap_servers=second.bootstrap, client_id="shop") as producer:
        producer.send("orders", b"one tea").get(60)
    assert second.requests(api="Produce", topic="orders")[0].client_id == "shop"
    assert first.requests(api="Produce") == []
    assert second.bootstrap == f"127.0.0.1:{second.port}"
    assert repr(second) == f"<broker 1 on {second.bootstrap}>"


def test_faults_of_one_broker(cluster: Cluster) -> None:
    lead(cluster, "orders", 2)
    with (
        faults(cluster[2]) as made,
        KafkaProducer(bootstrap_servers=cluster.bootstrap, retry_backoff_ms=10) as producer,
    ):
        made.fail("Produce", times=2)
        producer.send("orders", b"two coffees").get(60)
        assert len(made.fired) == 2
    cluster[2].assert_produced("orders", [b"two coffees"])


def test_a_broker_that_stops_gives_its_leadership_away_at_once(cluster: Cluster) -> None:
    lead(cluster, "orders", 0)
    cluster.stop(0)
    assert cluster.leader("orders") in (1, 2)
    assert cluster.isr("orders") == [1, 2]
    assert not cluster[0].is_running
    assert not accepts(cluster[0])
    cluster.stop(0)
    bootstrap = cluster.bootstrap
    cluster.start(0)
    assert accepts(cluster[0])
    assert cluster.bootstrap == bootstrap
    cluster.start(0)
    cluster.wait_in_sync()
    assert cluster.isr("orders") == [0, 1, 2]


def test_records_are_there_after_a_restart(cluster: Cluster) -> None:
    cluster.create_topic("orders", replicas={0: [1]})
    cluster[1].topics["orders"].produce("two coffees")
    cluster.restart(1)
    cluster[1].restart()
    cluster.wait_in_sync()
    cluster[1].assert_produced("orders", ["two coffees"])


def test_a_broker_that_is_killed_is_replaced_when_its_session_has_timed_out(cluster: Cluster) -> None:
    lead(cluster, "orders", 0)
    client = socket.create_connection(("127.0.0.1", cluster[0].port))
    cluster.kill(0)
    assert cluster.leader("orders") == 0, "nobody knows yet"
    client.settimeout(60)
    with client:
        assert client.recv(1) == b""
    assert not accepts(cluster[0])
    cluster.kill(0)
    assert cluster.wait_leader("orders", other_than=0) in (1, 2)
    cluster.wait_in_sync()
    assert cluster.isr("orders") == [1, 2]


def test_a_broker_that_was_killed_starts_again_when_its_session_has_timed_out(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic("orders", replicas={0: [1]})
    cluster[1].topics["orders"].produce("two coffees")
    cluster.kill(1)
    cluster.start(1)
    cluster.wait_in_sync()
    cluster[1].assert_produced("orders", ["two coffees"])


def ends_start(cluster: Cluster, end: Callable[[], object], begun: Callable[[], bool]) -> None:
    """End broker 1 while it starts. `begun`: whether the start has come so far."""
    with ThreadPoolExecutor(1) as pool:
        start = pool.submit(cluster.start, 1)
        eventually(begun)
        end()
        with pytest.raises(RuntimeError, match="broker 1 was ended while it started"):
            start.result(TIMEOUT_S)


def test_a_broker_is_killed_while_it_waits_for_the_end_of_its_session(cluster: Cluster) -> None:
    cluster.create_topic("t")
    cluster.kill(1)
    ends_start(cluster, cluster[1].kill, lambda: cluster[1]._starting is not None)
    assert not cluster[1].is_running
    cluster.start(1)
    assert cluster[1].is_unfenced


@for_each("end", ["kill", "stop"])
def test_a_broker_is_ended_while_it_waits_for_a_controller(end: str) -> None:
    with Cluster(3, settings={"broker.session.timeout.ms": 60_000}) as cluster:
        cluster.stop(1)
        for other in (0, 2):
            cluster.pause(other)  # nobody follows them as controller before their sessions time out
        ends_start(cluster, cluster.stop if end == "stop" else lambda: cluster.kill(1), lambda: cluster[1].is_running)


def test_a_kill_leaves_no_mark_of_a_clean_stop(tmp_path: Path) -> None:
    with kqueue.Cluster(brokers=2, path=tmp_path) as cluster:
        cluster.create_topic("orders", replicas={0: [0], 1: [1]})
        for broker in cluster.brokers:
            broker.topics["orders"].produce("two coffees", partition=broker.id)
        cluster.kill(0)
        cluster.stop(1)
        marks = [(tmp_path / f"broker-{id}" / ".kafka_cleanshutdown").exists() for id in (0, 1)]
        assert marks == [False, True]
        cluster.start()
        cluster.wait_in_sync()
        for broker in cluster.brokers:
            assert [one.value for one in broker.topics["orders"].records(broker.id)] == [b"two coffees"]


def test_a_broker_that_is_paused_answers_nothing_and_keeps_its_connections(cluster: Cluster) -> None:
    lead(cluster, "orders", 0)
    consumer = KafkaConsumer(bootstrap_servers=cluster[0].bootstrap)
    assert consumer.topics() == {"orders"}
    with socket.create_connection(("127.0.0.1", cluster[0].port)) as client:
        cluster.pause(0)
        assert cluster[0].is_paused
        assert cluster[0].is_running
        assert repr(cluster[0]) == "<broker 0 that is paused>"
        with pytest.raises(RuntimeError, match="broker 0 is paused"):
            cluster[0].topics["orders"].records()
        cluster.pause(0)
        assert accepts(cluster[0]), "the kernel accepts for it"
        assert cluster.wait_leader("orders", other_than=0) in (1, 2)
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
        cluster.resume(0)
        cluster.resume(0)
        assert not cluster[0].is_paused
        cluster.wait_in_sync()
        assert cluster.isr("orders") == [0, 1, 2]
    assert consumer.topics() == {"orders"}
    consumer.close()


def test_a_paused_broker_can_be_stopped_and_killed(cluster: Cluster) -> None:
    cluster.pause(0)
    cluster.pause(1)
    cluster.stop(0)
    cluster.kill(1)
    assert [broker.is_running for broker in cluster.brokers] == [False, False, True]
    with pytest.raises(RuntimeError, match="broker 0 is not running"):
        cluster.pause(0)
    cluster.resume(0)
    assert repr(cluster[0]) == "<broker 0 that is stopped>"


def test_a_broker_without_the_store_is_fenced_and_comes_back(cluster: Cluster) -> None:
    lead(cluster, "orders", 2)
    cluster.partition(without_store={2})
    assert cluster.wait_leader("orders", other_than=2) in (0, 1)
    with pytest.raises(TimeoutError, match="orders-0 is led by"):
        cluster.wait_leader("orders", other_than=cluster.leader("orders"), within_s=0.05)
    cluster.heal()
    cluster.wait_in_sync()
    assert cluster.isr("orders") == [0, 1, 2]


def test_a_follower_that_does_not_reach_the_leader_leaves_the_in_sync_replicas(cluster: Cluster) -> None:
    lead(cluster, "orders", 0)
    cluster.partition({0, 1}, {2})
    with KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        producer.send("orders", b"two coffees").get(60)
        assert cluster.isr("orders") == [0, 1]
        assert cluster.leader("orders") == 0
        cluster.heal()
        cluster.wait_in_sync()
        assert cluster.isr("orders") == [0, 1, 2]
        producer.send("orders", b"one tea").get(60)
    cluster.wait_in_sync()
    for broker in cluster.brokers:
        broker.assert_produced("orders", [b"two coffees", b"one tea"], within_s=30)


def test_a_partition_holds_for_connections_made_meanwhile_and_after_a_restart(cluster: Cluster) -> None:
    lead(cluster, "orders", 0)
    cluster.partition({0, 1}, {2})
    cluster.restart(2)
    cluster[0].topics["orders"].produce("two coffees")
    cluster.partition({0}, {1, 2})
    assert cluster.isr("orders") == [0, 1]
    cluster.heal()
    cluster.wait_in_sync()
    assert cluster.isr("orders") == [0, 1, 2]


def test_impossible_partitions_are_refused(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="each in one side"):
        cluster.partition({0, 1}, {1, 2})
    with pytest.raises(ValueError, match="brokers 0 to 2"):
        cluster.partition({0}, {3})
    with pytest.raises(ValueError, match=r"without_store={-1}: expected brokers 0 to 2"):
        cluster.partition(without_store={-1})


def test_all_is_well_again_after_restore(cluster: Cluster) -> None:
    lead(cluster, "orders", 0)
    cluster.partition({0}, {1, 2}, without_store={0})
    cluster.pause(0)
    cluster.kill(1)
    cluster.stop(2)
    with faults(cluster[0]) as made:
        made.fail("Produce", times=None)
        cluster.restore()
        with KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
            producer.send("orders", b"two coffees").get(60)
    assert cluster.isr("orders") == [0, 1, 2]
