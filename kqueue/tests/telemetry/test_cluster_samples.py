from __future__ import annotations

import pytest
from kafka import KafkaProducer

import kqueue
from kqueue.telemetry.cluster_samples import read_cluster
from kqueue.telemetry.samples import Samples
from kqueue.testing.simulation import Simulation
from kqueue.tests.telemetry.scraping import Values, scrape
from kqueue.tests.waits import eventually


def test_a_single_broker_is_its_own_controller_and_has_no_session() -> None:
    samples = Samples()
    read_cluster(samples, Simulation().broker)
    assert samples.values["kqueue_active_controller"] == {(): 1}
    assert samples.values["kqueue_cluster_brokers"] == {("active",): 1, ("fenced",): 0}
    assert "kqueue_store_session" not in samples.values


@pytest.mark.long
def test_a_follower_that_is_cut_off_lags_and_leaves_the_in_sync_set() -> None:
    settings = {"kqueue.metrics.listener": "127.0.0.1:0", "replica.lag.time.max.ms": 500}
    with kqueue.Cluster(2, settings=settings) as cluster:
        cluster.create_topic("t", 1)
        cluster.wait_in_sync()
        leader = cluster.leader("t")
        assert leader is not None
        follower = (("follower", str(1 - leader)),)

        def values() -> Values:
            return scrape(cluster.brokers[leader])

        def changes(change: str) -> float:
            return values()["kqueue_isr_changes_total", (("change", change),)]

        before = values()
        assert before["kqueue_replication_lag", follower] == 0
        assert before["kqueue_store_session", ()] == before["kqueue_unfenced", ()] == 1
        assert before["kqueue_store_sessions_total", ()] == 1
        assert before["kqueue_cluster_brokers", (("state", "active"),)] == 2
        assert sum(scrape(one)["kqueue_active_controller", ()] for one in cluster) == 1
        shrinks, expansions = changes("shrink"), changes("expand")
        cluster.partition({leader}, {1 - leader})
        with KafkaProducer(bootstrap_servers=cluster[leader].bootstrap, acks=1) as producer:
            producer.send("t", b"x").get(60)
        eventually(lambda: changes("shrink") > shrinks)
        assert values()["kqueue_replication_lag_max", follower] > 0
        cluster.heal()
        eventually(lambda: changes("expand") > expansions)
        eventually(lambda: values()["kqueue_replication_lag", follower] == 0)
