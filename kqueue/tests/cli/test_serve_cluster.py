"""What `kqueue serve` says when it can't be the member of a cluster, and what a cluster says when
something is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from kafka import KafkaProducer
from kafka.errors import NotEnoughReplicasError

import kqueue
from kqueue.cli.app import kqueue as root
from kqueue.tests.cli.test_serve import ANY_PORT, refused_here
from kqueue.tests.served_cluster import wait_until_unfenced
from kqueue.tests.waits import HangLimit, eventually


def error_of(*pairs: str) -> str:
    """Return the error of a broker that must not start."""
    status, error = refused_here(*(text for pair in (ANY_PORT, *pairs) for text in ("--set", pair)))
    assert status == 1, error
    return error


def member(folder: Path, node_id: int, store: str) -> kqueue.Broker:
    """Return a broker with a data folder of its own."""
    return kqueue.Broker(folder / f"data-{node_id}", node_id=node_id, settings={"kqueue.cluster.store": store})


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'cluster.db'}"


@pytest.fixture
def first(tmp_path: Path, store: str) -> Iterator[kqueue.Broker]:
    """Broker 1, which serves."""
    with member(tmp_path, 1, store) as broker:
        wait_until_unfenced([broker])
        yield broker


def test_a_file_that_can_not_be_opened(tmp_path: Path) -> None:
    where = tmp_path / "none" / "cluster.db"
    error = error_of(f"kqueue.cluster.store=sqlite:{where}", f"log.dirs={tmp_path / 'data'}")
    assert (
        f"Error: kqueue.cluster.store=sqlite:{where} can't be used: could not open the metadata store {where}" in error
    )
    assert error.endswith("check the path, and that its folder exists and may be written\n")


@pytest.mark.long
def test_servers_that_can_not_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zookeeper = pytest.importorskip("kqueue.metadata.zookeeper")
    monkeypatch.setitem(zookeeper.ZookeeperStore.__init__.__kwdefaults__, "timeout_s", 0.5)
    error = error_of("kqueue.cluster.store=zookeeper:127.0.0.1:1/kq", f"log.dirs={tmp_path / 'data'}")
    assert "Error: kqueue.cluster.store=zookeeper:127.0.0.1:1/kq can't be used: can't reach ZooKeeper at" in error
    assert "check that the addresses and ports are right" in error
    assert error.count("check") == 1


def test_a_second_broker_of_one_node_id(first: kqueue.Broker, tmp_path: Path, store: str) -> None:
    error = error_of("node.id=1", f"kqueue.cluster.store={store}", f"log.dirs={tmp_path / 'second'}")
    assert "Error: node id 1 is in use: the broker with incarnation" in error
    assert "give each broker of the cluster its own node.id" in error


@pytest.mark.long
def test_a_folder_of_another_cluster(first: kqueue.Broker, tmp_path: Path, store: str) -> None:
    with member(tmp_path, 2, f"sqlite:{tmp_path / 'other.db'}"):
        pass
    error = error_of("node.id=2", f"kqueue.cluster.store={store}", f"log.dirs={tmp_path / 'data-2'}")
    assert f"Error: data folder {tmp_path / 'data-2'} belongs to cluster" in error
    assert error.endswith(": name the right store, or a new folder\n")


@pytest.mark.long
def test_a_new_store_for_a_folder_that_is_not(first: kqueue.Broker, tmp_path: Path, store: str) -> None:
    first.create_topic("orders")
    first.stop()
    folder = tmp_path / "data-1"
    error = error_of("node.id=1", f"kqueue.cluster.store=sqlite:{tmp_path / 'new.db'}", f"log.dirs={folder}")
    assert "the metadata store has no topics, and the data folders have 1 partition (orders-0, ...)" in error
    assert (folder / "orders-0").exists()


def test_a_factor_above_the_number_of_brokers(first: kqueue.Broker) -> None:
    result = CliRunner().invoke(root, ["topics", "create", "orders", "-r", "3", "-b", first.bootstrap])
    assert result.exit_code == 1
    assert result.stderr == "Error: orders: the replication factor 3 can't be reached: the cluster has 1 broker\n"


def test_in_sync_replicas_below_the_minimum_are_one_line_for_each_change(caplog: pytest.LogCaptureFixture) -> None:
    def lines() -> list[str]:
        return [line for line in caplog.messages if line.startswith("orders-0: ") and "replicas are in sync" in line]

    settings = {"broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 200}
    with kqueue.Cluster(3, settings=settings) as cluster:
        cluster.create_topic("orders", 1, replication_factor=3, min_insync_replicas=2)
        cluster.wait_in_sync()
        leader = cluster.leader("orders")
        others = [number for number in range(3) if number != leader]
        for number in others:
            cluster.stop(number)
        with KafkaProducer(
            bootstrap_servers=cluster[leader].bootstrap, retries=0, enable_idempotence=False
        ) as producer:
            for _ in range(5):
                with pytest.raises(NotEnoughReplicasError):
                    producer.send("orders", b"two coffees").get(60)
            assert lines() == [
                f"orders-0: too few replicas are in sync for acks=all: 1 ({leader}); min.insync.replicas is 2"
            ]
            cluster.start(others[0])
            eventually(lambda: len(cluster.isr("orders")) >= 2)
            limit = HangLimit("an acknowledged record")
            while True:  # the leader may hear of it later than others
                try:
                    producer.send("orders", b"two coffees").get(60)
                    break
                except NotEnoughReplicasError:
                    limit.check()
        assert lines()[1:] == ["orders-0: enough replicas are in sync again"]
