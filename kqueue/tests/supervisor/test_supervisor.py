from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

import kqueue
from kqueue.cli.app import kqueue as root
from kqueue.client import Client, NewTopic, TopicPartition
from kqueue.config.client_security import ClientSecurity
from kqueue.embedded.development_certificates import DevelopmentCertificates
from kqueue.embedded.users import user_settings
from kqueue.supervisor.supervisor import INSIST_AFTER_S
from kqueue.testing.process_environment import process_environment
from kqueue.tests.api.harness import batch
from kqueue.tests.supervisor.served_workers import ANY_PORT, serving
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import corners
from kqueue.tests.waits import eventually


def refused(*args: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "kqueue.cli", "serve", *args]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=process_environment())
    assert "Traceback" not in result.stderr
    return result.returncode, " ".join(result.stderr.split())


def refused_here(*args: str) -> tuple[int, str]:
    """Do as `refused` does, in this process: for what ends before a broker or worker begins."""
    result = CliRunner().invoke(root, ["serve", *args])
    assert isinstance(result.exception, SystemExit)
    return result.exit_code, " ".join(result.stderr.split())


def leaders(bootstrap: str, topic: str) -> list[int]:
    with Client(bootstrap) as client:
        partitions = client.metadata([topic]).topics[topic].partitions
        return [partitions[index].leader for index in sorted(partitions)]


@pytest.mark.long
@pytest.mark.parametrize("number", corners([signal.SIGTERM, signal.SIGINT]))
def test_partitions_are_spread_and_one_signal_stops_all(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path, 3, "--topic", "orders:6") as served:
        served.wait_for("created topic orders")
        assert sorted(leaders(served.bootstrap, "orders")) == [1, 1, 2, 2, 3, 3]
        with Client(served.bootstrap) as client:
            addresses = [f"{broker.host}:{broker.port}" for _, broker in sorted(client.metadata([]).brokers.items())]
        assert addresses == [served.address(worker) for worker in range(3)]
        assert served.bootstrap not in addresses
        workers = served.workers()
        assert sorted(workers) == [0, 1, 2]
        assert served.end(number) == (130 if number is signal.SIGINT else 0)
        assert not any(worker.is_running() for worker in workers.values())
        assert served.log[-1].endswith("supervisor: stopped")
        assert all(re.match(r"\S+ \S+ \w+ +(supervisor|worker [012]): ", line) for line in served.log), served.log
    for folder in (tmp_path, tmp_path / "workers" / "1", tmp_path / "workers" / "2"):
        assert (folder / ".kafka_cleanshutdown").exists()


@pytest.mark.long
def test_a_single_brokers_folder_becomes_worker_0s(tmp_path: Path) -> None:
    single = ["--set", f"log.dirs={tmp_path}", "--set", ANY_PORT]
    with kqueue.Broker(path=tmp_path) as broker:
        broker.create_topic("orders", 2)
        broker.topics["orders"].produce(b"one", partition=1)
    with serving(tmp_path, 2, "--topic", "new:4") as served:
        served.wait_for("created topic new")
        assert leaders(served.bootstrap, "orders") == [1, 1]
        assert set(leaders(served.bootstrap, "new")) == {1, 2}
        producer = KafkaProducer(bootstrap_servers=served.bootstrap)
        assert producer.send("orders", b"two", partition=1).get(timeout=60).offset == 1
        producer.close()
        consumer = KafkaConsumer("orders", bootstrap_servers=served.bootstrap, auto_offset_reset="earliest")
        assert [next(consumer).value for _ in range(2)] == [b"one", b"two"]
        consumer.close()
        status, text = refused_here(*single)
        assert (status, "is locked by another process. Stop the broker that uses it" in text) == (1, True)
        assert served.end() == 0
    status, text = refused_here(*single)
    assert (status, "as many workers as before (kqueue serve --workers 2)" in text) == (1, True)
    status, text = refused_here(*single, "--workers", "1")
    assert (status, "worker 1 (node 2) of a former run has 2 partitions" in text) == (2, True)


@pytest.mark.thorough
def test_a_folder_in_use_is_named_by_the_worker(tmp_path: Path) -> None:
    with kqueue.Broker(path=tmp_path):
        status, text = refused("--set", f"log.dirs={tmp_path}", "--set", ANY_PORT, "--workers", "2")
    assert (status, "Error: worker 0: " in text, "is locked by another process. Stop" in text) == (1, True, True)


@pytest.mark.thorough
def test_topics_that_clients_create_at_once_are_spread(tmp_path: Path) -> None:
    with serving(tmp_path, 3, "--set", "num.partitions=3") as served:
        address = served.bootstrap
        admin = KafkaAdminClient(bootstrap_servers=address)
        admin.describe_cluster()
        admin.close()
        producer = KafkaProducer(bootstrap_servers=address)
        producer.send("orders", b"first").get(timeout=60)
        producer.close()
        assert sorted(leaders(address, "orders")) == [1, 2, 3]


@for_each("count", ["0", "-1", "101", "many"])
def test_a_bad_number_is_refused(count: str) -> None:
    result = CliRunner().invoke(root, ["serve", "--workers", count])
    assert result.exit_code == 2
    assert "Invalid value for '--workers'" in result.stderr


def test_a_busy_port_of_a_worker_leaves_no_new_folder(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1] - 2
        status, text = refused(
            *("--workers", "3", "--set", f"listeners=PLAINTEXT://127.0.0.1:{port}"),
            *("--set", f"log.dirs={tmp_path / 'data'}"),
        )
    assert status == 1
    assert re.search(r"Error: listener PLAINTEXT://127\.0\.0\.1:\d+ can't be opened: .*in use", text), text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_worker_that_cannot_start_stops_all(tmp_path: Path) -> None:
    (tmp_path / "workers").write_text("in the way")
    with serving(tmp_path, 2) as served:
        assert served.process.wait(60) == 1
        eventually(lambda: "Error: worker 1: " in served.log[-1])
        assert (tmp_path / ".kafka_cleanshutdown").exists()


@pytest.mark.long
def test_workers_are_secured_as_one_broker_is(tmp_path: Path) -> None:
    """By the same settings, to clients and to each other."""
    certificates = DevelopmentCertificates()
    settings = {
        **certificates.settings,
        **user_settings({"ann": "ann-secret"}, ["SASL_SSL"], ("broker", "broker-secret")),
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "authorizer.class.name": "standard",
        "super.users": "User:ann;User:broker",
    }
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    security = ClientSecurity.of(
        {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": certificates.authority_file,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "ann",
            "sasl.password": "ann-secret",
        }
    )
    with serving(tmp_path / "data", 2, str(file), "--set", "listeners=SASL_SSL://127.0.0.1:0") as served:
        with Client(served.bootstrap, security=security) as client:
            eventually(lambda: len(client.metadata([]).brokers) == 2)
            client.create_topics([NewTopic("orders", 2, 2, {"min.insync.replicas": "2"})])
            for partition in range(2):  # which all workers confirm
                client.produce({TopicPartition("orders", partition): batch(b"x")})
        assert served.end() == 0
    assert not any(secret in line for line in served.log for secret in ("ann-secret", "broker-secret"))


def test_settings_file_and_version_go_to_each_worker(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=5\nzookeeper.connect=zk:2181\n")
    with serving(tmp_path / "data", 2, str(file), "--as-version", "2.8", "--topic", "orders") as served:
        served.wait_for("created topic orders")
        for worker in range(2):
            producer = KafkaProducer(bootstrap_servers=served.address(worker))
            assert producer.config["api_version"] == (2, 8)
            assert len(producer.partitions_for("orders")) == 5
            producer.close()
        assert len([line for line in served.log if "zookeeper.connect has no effect" in line]) == 1


@pytest.mark.thorough
def test_a_second_signal_kills_what_does_not_stop(tmp_path: Path) -> None:
    with serving(tmp_path, 2) as served:
        assert served.bootstrap
        stuck = served.workers()[1]
        stuck.suspend()
        served.process.send_signal(signal.SIGTERM)
        served.wait_for("worker 0: stopped")
        time.sleep(INSIST_AFTER_S + 0.1)  # an earlier one counts as the first sent twice
        assert served.end() == 1
        assert not psutil.pid_exists(stuck.pid)
    assert "Error: worker 1: its process" in served.log[-1]
    assert "was ended by SIGKILL" in served.log[-1]


@pytest.mark.thorough
def test_a_topic_that_cannot_be_created_stops_all(tmp_path: Path) -> None:
    with serving(tmp_path, 2, "--topic", "orders:2", "--topic", "large:99999999") as served:
        assert served.process.wait(60) == 1
        served.join()
    assert "Error: worker 0: topic large: " in served.log[-1], served.log
    assert not [line for line in served.log if "started again" in line]


@pytest.mark.thorough
def test_workers_get_no_signals_of_the_terminal(tmp_path: Path) -> None:
    with serving(tmp_path, 2) as served:
        assert served.bootstrap
        own = os.getpgid(served.process.pid)
        assert all(os.getpgid(worker.pid) != own for worker in served.workers().values())
        assert served.end(signal.SIGINT) == 130
