from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kqueue.client import Client
from kqueue.client.errors import ClientError
from kqueue.demo.broker_processes import PORTS, BrokerFailed, BrokerProcess, ClusterOfProcesses, free_ports, until


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(1, tmp_path / "broker", free_ports(1)[0], {"num.partitions": 3})
    yield process
    process.kill()


def ids(bootstrap: str, timeout_ms: int = 20_000) -> set[int]:
    with Client(bootstrap, timeout_ms=timeout_ms, request_timeout_ms=timeout_ms) as client:
        return set(client.metadata([]).brokers)


@pytest.mark.long
def test_a_broker_is_killed_and_started_again_on_its_folder_and_port(broker: BrokerProcess) -> None:
    broker.start()
    assert ids(broker.bootstrap) == {1}
    broker.kill()
    assert not broker.runs
    with pytest.raises(ClientError):
        ids(broker.bootstrap, timeout_ms=200)
    broker.start()
    assert ids(broker.bootstrap) == {1}
    assert broker.said().count(f" serves PLAINTEXT://{broker.bootstrap};") == 2
    broker.stop()
    assert not broker.runs
    assert "stopped" in broker.said().splitlines()[-1]


@pytest.mark.long
def test_a_paused_broker_does_not_answer_and_goes_on(broker: BrokerProcess) -> None:
    broker.start()
    broker.pause()
    assert broker.runs
    with pytest.raises(ClientError):
        ids(broker.bootstrap, timeout_ms=200)
    broker.resume()
    assert ids(broker.bootstrap) == {1}


@pytest.mark.long
def test_a_paused_broker_is_killed(broker: BrokerProcess) -> None:
    broker.start()
    broker.pause()
    broker.kill()
    assert not broker.runs


def test_a_start_that_fails_shows_the_last_lines(broker: BrokerProcess) -> None:
    broker.settings["num.partitions"] = -7
    with pytest.raises(BrokerFailed, match=r"broker 1 did not start:\n.*num\.partitions"):
        broker.start()
    assert not broker.runs


@pytest.mark.long
def test_no_broker_is_left_where_one_fails_to_start(tmp_path: Path) -> None:
    cluster = ClusterOfProcesses(tmp_path, {"kqueue.cluster.store": f"sqlite:{tmp_path / 'cluster.db'}"}, 2)
    cluster.brokers[2].settings["num.partitions"] = -7
    with pytest.raises(BrokerFailed), cluster:
        raise AssertionError("unreachable")
    assert not any(broker.runs for broker in cluster.brokers.values())


def test_ports_differ_and_are_below_those_of_the_system() -> None:
    ports = free_ports(200)
    assert len(set(ports)) == 200
    assert set(ports) <= set(PORTS)


def test_waiting_ends_with_what_was_waited_for_and_the_last_error() -> None:
    def fails() -> bool:
        raise ClientError("no broker answered")

    with pytest.raises(BrokerFailed, match=r"not within 0 s: all are in sync \(no broker answered\)"):
        until("all are in sync", fails, timeout_s=0)
    assert until("at once", lambda: True) < 1
