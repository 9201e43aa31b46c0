"""Tests of the containers without a container: what a suite for testcontainers calls does the same,
or names what to use instead.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kqueue.base.errors import ListenFailed, SettingError
from kqueue.client import Client
from kqueue.testing.containers import ContainerNotStarted, KafkaContainer, NoContainer, RedpandaContainer, settings_of
from kqueue.tests.tables import for_each


def test_clients_connect_to_the_bootstrap_server() -> None:
    with KafkaContainer().with_kraft().with_env("KAFKA_NUM_PARTITIONS", "3") as kafka:
        assert kafka.get_bootstrap_server() == f"{kafka.get_container_host_ip()}:{kafka.get_exposed_port(9093)}"
        kafka.broker.create_topic("orders")
        with Client(kafka.get_bootstrap_server()) as client:
            assert len(client.metadata(["orders"]).topics["orders"].partitions) == 3
        assert kafka.status == "running"
        assert kafka.get_container_id().startswith("kqueue-")
    assert kafka.status == "exited"


def test_the_port_of_the_constructor_is_exposed_in_all_spellings() -> None:
    with KafkaContainer("apache/kafka:4.1", port=19092) as kafka:
        assert kafka.get_exposed_port(19092) == kafka.get_exposed_port("19092/tcp") == kafka.broker.port
        with pytest.raises(
            ConnectionError, match="port 9093 of the container is not served: the broker has only 19092"
        ):
            kafka.get_exposed_port(9093)


def test_redpanda_has_a_bootstrap_server_and_no_registry() -> None:
    with RedpandaContainer() as redpanda:
        assert redpanda.get_bootstrap_server() == redpanda.broker.bootstrap
        with pytest.raises(NoContainer, match="run a registry of its own"):
            redpanda.get_schema_registry_address()


def test_a_bound_port_is_the_one_that_the_broker_listens_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        container = KafkaContainer().with_bind_ports(9093, port)
        with pytest.raises(ListenFailed):
            container.start()
        assert container.status == "not_started"
    with container:
        assert container.get_bootstrap_server() == f"127.0.0.1:{port}"


def test_data_end_with_the_container() -> None:
    kafka = KafkaContainer().start()
    kafka.broker.create_topic("orders")
    assert kafka.start() is kafka
    assert list(kafka.broker.topics) == ["orders"]
    kafka.stop()
    kafka.stop()
    with kafka:
        assert list(kafka.broker.topics) == []


@for_each("call", ["get_bootstrap_server", "get_container_host_ip", "get_container_id", "get_logs"])
def test_before_the_start_there_is_no_address(call: str) -> None:
    with pytest.raises(ContainerNotStarted):
        getattr(KafkaContainer(), call)()


REFUSED: dict[str, Callable[[KafkaContainer], Any]] = {
    "exec": lambda kafka: kafka.exec(["kafka-topics", "--list"]),
    "with_network": lambda kafka: kafka.with_network(object()),
    "with_network_aliases": lambda kafka: kafka.with_network_aliases("kafka"),
    "with_copy_into_container": lambda kafka: kafka.with_copy_into_container(b"", "/etc/x"),
    "copy_into_container": lambda kafka: kafka.copy_into_container(b"", "/etc/x"),
    "copy_from_container": lambda kafka: kafka.copy_from_container("/etc/x", Path("x")),
    "create_file": lambda kafka: kafka.create_file(b"", "/etc/x"),
    "get_wrapped_container": lambda kafka: kafka.get_wrapped_container(),
    "get_docker_client": lambda kafka: kafka.get_docker_client(),
    "wait": lambda kafka: kafka.wait(),
}


@for_each("name", sorted(REFUSED))
def test_what_needs_a_container_names_what_to_use_instead(name: str) -> None:
    with pytest.raises(NoContainer, match=f"^{name}: there is no container, the broker runs in this process: .{{15,}}"):
        REFUSED[name](KafkaContainer())


def test_arguments_of_a_docker_container_are_taken() -> None:
    kafka = KafkaContainer(env={"A": "b"}, ports=[8080], volumes=[("/here", "/there", "rw")], name="k", privileged=True)
    kafka.with_name("l").with_command("sh").with_kwargs(mem_limit="1g").with_tmpfs_mount("/data", "1m")
    assert kafka.env["A"] == "b"
    assert set(kafka.ports) == {"8080", "9093"}
    assert kafka.volumes == {"/here": {"bind": "/there", "mode": "rw"}}
    for argument, value in (("network", object()), ("network_aliases", ["a"]), ("transferables", [(b"", "/x")])):
        with pytest.raises(NoContainer):
            KafkaContainer(**{argument: value})
    with pytest.raises(ValueError, match="port_to_expose is called port"):
        KafkaContainer(port_to_expose=1)


def test_variables_of_listeners_folders_and_the_jvm_mean_no_settings() -> None:
    env = {
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@kafka:9094",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "KAFKA_LOG_DIRS": "/var/lib/kafka",
        "CLUSTER_ID": "x",
        "KAFKA_MESSAGE_MAX_BYTES": "1000",
        "KQUEUE_AS_VERSION": "3.9",
    }
    assert settings_of(env, "PLAINTEXT") == {"message.max.bytes": "1000", "kqueue.as.version": "3.9"}


def test_a_variable_of_no_setting_is_logged_and_one_that_looks_like_security_is_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert settings_of({"KAFKA_NUM_PARTITION": "3"}, "PLAINTEXT") == {}
    assert "did you mean KQUEUE_NUM_PARTITIONS" in caplog.text
    with pytest.raises(SettingError, match=r"no setting is called 'super\.user'"):
        settings_of({"KAFKA_SUPER_USER": "User:ann"}, "PLAINTEXT")
    with pytest.raises(SettingError, match="num.partitions"):
        KafkaContainer().with_env("KAFKA_NUM_PARTITIONS", "many").start()


def test_users_of_a_listener_with_sasl_are_those_of_the_variables() -> None:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="ann-secret";'
    container = KafkaContainer(listener_name="CLIENTS", security_protocol="SASL_PLAINTEXT").with_envs(
        KAFKA_LISTENER_NAME_CLIENTS_SASL_ENABLED_MECHANISMS="PLAIN",
        KAFKA_LISTENER_NAME_CLIENTS_PLAIN_SASL_JAAS_CONFIG=login,
    )
    with container as kafka:
        kafka.broker.create_topic("orders")
        config = kafka.broker.client_config("kafka-python", user="ann", password="ann-secret")
        assert config["security_protocol"] == "SASL_PLAINTEXT"


def test_settings_that_name_files_of_a_volume_name_them_on_this_machine() -> None:
    container = KafkaContainer(security_protocol="SSL", listener_name="SSL")
    container.with_volume_mapping("/home/ann/certs", "/etc/kafka/secrets")
    container.with_env("KAFKA_SSL_KEYSTORE_LOCATION", "/etc/kafka/secrets/broker.pem")
    with pytest.raises(SettingError, match=r"/home/ann/certs/broker\.pem"):
        container.with_env("KAFKA_SSL_KEYSTORE_TYPE", "PEM").start()


def test_lines_of_the_log_are_those_since_the_start() -> None:
    log = logging.getLogger("kqueue.server")
    with KafkaContainer() as kafka:
        log.warning("one")
    log.warning("two")
    output, errors = kafka.get_logs()
    assert output == b""
    assert errors.endswith(b"WARNING one\n")


@for_each("port", ["x", "0", 70000, "-1"])
def test_a_port_that_is_none_is_refused(port: object) -> None:
    with pytest.raises(ValueError, match="expected a port from 1 to 65535"):
        KafkaContainer().with_bind_ports(9093, port)
