"""`Cluster.reset`: the state is as after the first start, and open clients continue."""

from __future__ import annotations

import contextlib
import gc
import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer

import kqueue
from kqueue.base.errors import TopicAlreadyExists
from kqueue.embedded import Cluster
from kqueue.testing import faults
from kqueue.tests.thorough import corners


@pytest.fixture(scope="module", autouse=True)
def _collected() -> Iterator[None]:
    """Collect what a client left before another module's test has to."""
    yield
    gc.collect()


@pytest.fixture(params=corners(["memory", "disk"], "disk"))
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    with kqueue.Cluster(brokers=3, path=tmp_path / "data" if request.param == "disk" else None) as running:
        yield running


def use(cluster: Cluster) -> None:
    """Change state of every kind."""
    with KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", enable_idempotence=True) as producer:
        producer.send("orders", b"two coffees").get(60)
    options = {"group_id": "mail", "auto_offset_reset": "earliest"}
    consumer = KafkaConsumer("orders", bootstrap_servers=cluster.bootstrap, **options)
    assert next(consumer).value == b"two coffees"
    consumer.commit()
    consumer.close()
    cluster[1].alter_config(log_retention_ms=1234)


@pytest.mark.long
def test_reset_restores_the_state_after_the_start(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    bootstrap = cluster.bootstrap
    for _ in range(2):
        use(cluster)
        before = cluster.clock.now()
        cluster.clock.advance(days=1)
        caplog.clear()
        cluster.reset()
        warnings = [entry.getMessage() for entry in caplog.records if entry.levelno >= logging.WARNING]
        # a busy machine may keep a broker from its heartbeats
        assert [text for text in warnings if not text.startswith("the session with the cluster was lost")] == []
        assert cluster.bootstrap == bootstrap
        assert [
            len(broker.metadata.cluster.brokers()) for broker in (each._server.broker for each in cluster.brokers)
        ] == [3] * 3
        for broker in cluster.brokers:
            assert (list(broker.topics), list(broker.groups), list(broker.requests)) == ([], [], [])
            assert "__consumer_offsets" not in broker.topics
            assert broker._server.config["log.retention.ms"] != 1234
        assert timedelta() <= cluster.clock.now() - before < timedelta(hours=1)


def test_whatever_state_the_brokers_are_in(cluster: Cluster) -> None:
    cluster.create_topic("orders", replicas={0: [0, 1, 2]})
    cluster.partition({0}, {1, 2}, without_store={0})
    cluster.pause(0)
    cluster.kill(1)
    cluster.stop(2)
    with faults(cluster[0]) as made:
        made.fail("Produce", times=None)
        cluster.reset()
        assert not any(broker.is_cut_off or broker.is_paused for broker in cluster.brokers)
        cluster.create_topic("orders", replicas={0: [0, 1, 2]})
        with KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
            producer.send("orders", b"one tea").get(30)
    cluster.wait_in_sync()
    for broker in cluster.brokers:
        broker.assert_produced("orders", [b"one tea"], within_s=30)


def create_unless_made(cluster: Cluster, topic: str) -> None:
    """Create the topic; an open producer that asks for it may have been quicker."""
    with contextlib.suppress(TopicAlreadyExists):
        cluster.create_topic(topic)


def test_an_open_producer_continues(cluster: Cluster) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", retry_backoff_ms=20) as producer:
        for round in (b"1", b"2"):
            create_unless_made(cluster, "orders")
            producer.send("orders", round).get(60)
            leader = cluster.leader("orders")
            assert leader is not None
            cluster[leader].assert_produced("orders", [round])
            cluster.reset()


def test_producer_ids_are_not_given_twice(cluster: Cluster) -> None:
    def producer_id() -> int:
        async def allocate() -> int:
            return await cluster[0]._server.result(cluster[0]._server.broker.metadata.producer_ids.allocate())

        return cluster[0]._call(allocate)

    before = producer_id()
    cluster.reset()
    assert producer_id() > before


def test_no_file_is_left(tmp_path: Path) -> None:
    with kqueue.Cluster(brokers=2, path=tmp_path) as cluster:
        cluster.create_topic("orders", 3)
        assert list(tmp_path.glob("broker-*/orders-0"))
        cluster.reset()
        assert not list(tmp_path.glob("broker-*/orders*"))
        cluster.create_topic("mail")
    with kqueue.Cluster(brokers=2, path=tmp_path) as cluster:
        assert list(cluster[0].topics) == ["mail"]


def test_a_cluster_that_does_not_run_is_not_reset() -> None:
    with pytest.raises(RuntimeError, match="the cluster is not running"):
        kqueue.Cluster().reset()
