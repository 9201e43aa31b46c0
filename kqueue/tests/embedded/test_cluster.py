"""`kqueue.Cluster` as a whole: start, stop, settings, time, the end of the process."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaAdminClient, KafkaProducer

import kqueue
from kqueue.base.errors import SettingError
from kqueue.tests.tables import for_each


def test_three_brokers_are_one_cluster_for_clients() -> None:
    with kqueue.Cluster() as cluster:
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        described = admin.describe_cluster()
        assert [one["broker_id"] for one in described["brokers"]] == [0, 1, 2]
        assert [one["port"] for one in described["brokers"]] == [broker.port for broker in cluster.brokers]
        assert described["controller_id"] == cluster.controller
        admin.close()
        with KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
            producer.send("orders", b"two coffees").get(60)
        leader = cluster.leader("orders")
        assert leader is not None
        cluster[leader].assert_produced("orders", [b"two coffees"])
        assert len(cluster.replicas("orders")) == 3
        assert repr(cluster) == f"<kqueue.Cluster of 3 brokers on {cluster.bootstrap}>"
    assert repr(cluster) == "<kqueue.Cluster of 3 brokers that is not running>"


def test_from_coroutines() -> None:
    async def test() -> None:
        async with kqueue.Cluster() as cluster:
            async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
                await producer.send_and_wait("orders", b"two coffees")
            with pytest.raises(RuntimeError, match="aio.wait_in_sync"):
                cluster.wait_in_sync()
            await asyncio.to_thread(cluster.wait_in_sync)
            options = {"auto_offset_reset": "earliest", "group_id": "mail"}
            async with AIOKafkaConsumer("orders", bootstrap_servers=cluster.bootstrap, **options) as consumer:
                assert (await consumer.getone()).value == b"two coffees"

    asyncio.run(test())


def test_a_cluster_in_memory_begins_empty_each_time() -> None:
    cluster = kqueue.Cluster(brokers=2)
    with cluster:
        cluster.create_topic("orders")
        assert len(cluster.replicas("orders")) == 2
        assert cluster.start() is cluster
    cluster.stop()
    with cluster, pytest.raises(KeyError):
        cluster[0].topics["orders"]


def test_data_in_a_folder_outlive_the_cluster(tmp_path: Path) -> None:
    with kqueue.Cluster(brokers=2, path=tmp_path / "data") as cluster:
        cluster.create_topic("orders", replicas={0: [1]})
        cluster[1].topics["orders"].produce("two coffees")
    assert sorted(path.name for path in (tmp_path / "data").glob("broker-*")) == ["broker-0", "broker-1"]
    assert (tmp_path / "data" / "broker-1" / "orders-0").is_dir()
    with kqueue.Cluster(brokers=2, path=tmp_path / "data") as cluster:
        cluster.wait_in_sync()
        cluster[1].assert_produced("orders", ["two coffees"])


def test_single_broker_is_a_cluster() -> None:
    with kqueue.Cluster(brokers=1) as cluster:
        cluster.create_topic("orders")
        assert (cluster.controller, cluster.leader("orders"), cluster.isr("orders")) == (0, 0, [0])


def test_settings_and_racks() -> None:
    racks = ["a", "b", None]
    with kqueue.Cluster(3, racks=racks, num_partitions=2, settings={"log.retention.ms": 1000}) as cluster:
        brokers = cluster[0]._server.broker.metadata.cluster.brokers()
        assert [broker.rack for broker in brokers] == racks
        config = cluster[2]._server.config
        assert (config["num.partitions"], config["log.retention.ms"]) == (2, 1000)


def test_arguments_that_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        kqueue.Cluster(brokers=0)
    with pytest.raises(ValueError, match="one for each of 3 brokers, found 1"):
        kqueue.Cluster(3, racks=["a"])
    with pytest.raises(SettingError, match=r"node\.id can't be set"):
        kqueue.Cluster(node_id=7)
    with pytest.raises(SettingError, match=r"broker\.rack can't be set"):
        kqueue.Cluster(settings={"broker.rack": "a"})
    with pytest.raises(SettingError, match="did you mean"):
        kqueue.Cluster(log_segment_byte=1)
    cluster = kqueue.Cluster()
    for call in (cluster.wait_in_sync, cluster.heal, lambda: cluster.kill(0), lambda: cluster.leader("t")):
        with pytest.raises(RuntimeError, match="the cluster is not running"):
            call()
    with pytest.raises(RuntimeError, match="the cluster is not running"):
        _ = cluster.bootstrap
    with pytest.raises(RuntimeError, match="the cluster is not running"):
        cluster.clock.advance(ms=1)
    cluster.stop()


def test_a_broker_that_can_not_start_leaves_nothing_running(tmp_path: Path) -> None:
    (tmp_path / "broker-1").write_text("a file")
    cluster = kqueue.Cluster(brokers=2, path=tmp_path)
    with pytest.raises(Exception, match="broker-1"):
        cluster.start()
    assert not cluster.is_running
    (tmp_path / "broker-1").unlink()
    with cluster:
        assert cluster.controller in (0, 1)


def test_time_passes_for_all_brokers_and_no_session_is_lost() -> None:
    with kqueue.Cluster() as cluster:
        cluster.create_topic("orders", replicas={0: [0, 1], 1: [1, 2]}, retention_ms=3_600_000)
        for id in (0, 1):
            cluster[id].topics["orders"].produce("two coffees", partition=id)
        epochs = [broker.epoch for broker in cluster[0]._server.broker.metadata.cluster.all()]
        before = cluster.clock.now()
        cluster.clock.advance(days=8)
        assert (cluster.clock.now() - before).days == 8
        assert cluster[0].clock.now() >= before
        for id in (0, 1):
            assert cluster[id].topics["orders"].start_offsets[id] == 1, "retention has deleted it"
        assert [broker.epoch for broker in cluster[0]._server.broker.metadata.cluster.all()] == epochs
        assert cluster.isr("orders", 0) == [0, 1]


def test_others_lead_after_the_time_that_a_session_takes() -> None:
    with kqueue.Cluster() as cluster:
        cluster.create_topic("orders", replicas={0: [0, 1, 2]})
        cluster.kill(0)
        cluster.clock.advance(seconds=1)
        assert cluster.leader("orders") in (1, 2)
        cluster.pause(1)
        cluster.clock.advance(seconds=1)
        assert cluster.leader("orders") == 2
        cluster.resume(1)
        cluster.wait_in_sync()


LEFT_RUNNING = """
import sys, kqueue
cluster = kqueue.Cluster(brokers=2, path=sys.argv[1]).start()
cluster.create_topic("orders")
cluster.pause(1)
print(cluster.bootstrap)
"""


@pytest.mark.long
def test_a_cluster_left_running_is_stopped_cleanly_at_the_end_of_the_interpreter(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", LEFT_RUNNING, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert all((tmp_path / f"broker-{id}" / ".kafka_cleanshutdown").exists() for id in (0, 1))


def in_child(cluster: kqueue.Cluster, results: Any) -> None:
    try:
        cluster.create_topic("tea")
    except RuntimeError as error:
        results.put(str(error))
    cluster.stop()
    results.put("stopped")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_in_a_forked_child_it_belongs_to_the_parent() -> None:
    with kqueue.Cluster(brokers=2) as cluster:
        context = multiprocessing.get_context("fork")
        results = context.Queue()
        child = context.Process(target=in_child, args=(cluster, results))
        child.start()
        assert "forked from" in results.get(timeout=60)
        assert results.get(timeout=60) == "stopped"
        child.join(60)
        child.close()
        results.close()
        results.join_thread()
        cluster.create_topic("coffee")


@for_each("call", ["kill", "stop", "start", "restart", "pause", "resume"])
def test_a_broker_that_there_is_not_is_named_with_those_that_there_are(call: str) -> None:
    cluster = kqueue.Cluster(brokers=2)
    with pytest.raises(ValueError, match=f"{call}: expected the node id .* from 0 to 1: there is no broker 7"):
        getattr(cluster, call)(7)
    with pytest.raises(ValueError, match="there is no broker -1"):
        getattr(cluster, call)(-1)
    with pytest.raises(TypeError, match=r"a number from 0 to 1, found \[0, 1\]"):
        getattr(cluster, call)([0, 1])


def test_mistaken_calls_of_a_cluster_say_what_is_expected() -> None:
    cluster = kqueue.Cluster(brokers=2)
    with pytest.raises(IndexError, match="node id of a broker, 0 to 1"):
        _ = cluster[2]
    assert [broker.id for broker in cluster] == [0, 1]
    with pytest.raises(ValueError, match=r"kill\(0\)"):
        cluster.kill()
    with pytest.raises(TypeError, match=r"such as partition\(\{0\}"):
        cluster.partition(0, 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="without_store=0"):
        cluster.partition(without_store=0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="brokers='3': expected the number"):
        kqueue.Cluster("3")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="names of topics"):
        cluster.wait_in_sync(["orders"])  # type: ignore[arg-type]
