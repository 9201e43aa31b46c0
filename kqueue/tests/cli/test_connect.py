from __future__ import annotations

import importlib.util
import socket
from collections.abc import Callable
from typing import Any

import click
import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st
from kafka import errors
from kafka.errors import KafkaConnectionError

import kqueue
from kqueue.cli import broker_wait, connect, error_texts
from kqueue.cli.connect import PersistentAdmin
from kqueue.client.errors import BrokerRefused, ClientError
from kqueue.tests.tables import for_each

HOSTS = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True)


@given(st.lists(st.tuples(HOSTS, st.integers(1, 65535)), min_size=1, max_size=4))
def test_addresses_read_what_is_written(pairs: list[tuple[str, int]]) -> None:
    assert connect.addresses(" , ".join(f"{host}:{port}" for host, port in pairs)) == pairs


def test_addresses_know_the_default_port_and_ipv6() -> None:
    assert connect.addresses("broker") == [("broker", 9092)]
    assert connect.addresses("[::1]:9094,[fe80::1]") == [("::1", 9094), ("fe80::1", 9092)]


@for_each("text", ["a:b", "a:0", "a:65536", ":9092", "", ",", "a:-1"])
def test_addresses_refuse(text: str) -> None:
    with pytest.raises(click.BadParameter, match="HOST:PORT"):
        connect.addresses(text)


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def refusal(broker_message: str | None) -> BrokerRefused:
    error = BrokerRefused("127.0.0.1:9092 refused Produce")
    error.broker_message = broker_message
    return error


def test_no_broker_is_one_sentence_with_the_remedy(kq: Callable[..., Result]) -> None:
    port = free_port()
    result = kq("topics", "list", "-b", f"127.0.0.1:{port}")
    assert result.exit_code == 1
    assert result.output == (
        f"Error: no broker answers at 127.0.0.1:{port} (Connection refused). "
        "Start one with `kqueue serve`, or name another with --bootstrap-server HOST:PORT.\n"
    )


def test_listener_that_is_no_broker_is_detected(kq: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_wait.probe_broker, "__defaults__", (0.3,))
    with socket.create_server(("127.0.0.1", 0)) as mute:
        result = kq("topics", "list", "-b", f"127.0.0.1:{mute.getsockname()[1]}")
    assert result.exit_code == 1
    assert "does not answer in Kafka's protocol in time; if it needs TLS" in result.output


def test_single_reachable_address_is_enough() -> None:
    with kqueue.Broker() as broker:
        connect.find_broker(f"127.0.0.1:{free_port()},{broker.bootstrap}")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ClientError("127.0.0.1:9092: no response"), "127.0.0.1:9092: no response"),
        (refusal(None), "127.0.0.1:9092 refused Produce"),
        (refusal("the topic is full"), "the topic is full"),
    ],
)
def test_errors_of_the_own_client_become_one_sentence(bootstrap: str, error: ClientError, words: str) -> None:
    with connect.own_client(bootstrap) as client:
        assert client.metadata([]).brokers
    with pytest.raises(click.ClickException) as raised, connect.own_client(bootstrap):
        raise error
    assert raised.value.message == words


def test_the_own_client_needs_a_broker() -> None:
    with pytest.raises(connect.BrokerNotFound, match="no broker answers"), connect.own_client("127.0.0.1:1"):
        pass


def test_missing_package_is_reported_with_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    connect.require("kafka", "cli")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(click.ClickException, match=r"pip install '\.\[cli\]'"):
        connect.require("kafka", "cli")


@pytest.mark.parametrize(
    ("version", "is_good"), [("2.3", False), ("3.0.9", False), ("3.0.10", True), ("3.1.0.dev1", True), ("4.0", True)]
)
def test_an_old_client_library_is_refused(monkeypatch: pytest.MonkeyPatch, version: str, is_good: bool) -> None:
    monkeypatch.setattr("kafka.version.__version__", version)
    if is_good:
        connect.require_client()
        return
    with pytest.raises(click.ClickException, match=f"kafka-python {version} is too old"):
        connect.require_client()


def test_name_values() -> None:
    assert connect.parse_name_values(["a=1", " b =", "c=d=e"], "--config") == [("a", "1"), ("b", ""), ("c", "d=e")]
    for text in ("a", "=1", " =1"):
        with pytest.raises(click.BadParameter, match="NAME=VALUE"):
            connect.parse_name_values([text], "--config")


@for_each("name", error_texts.MESSAGES)
def test_explained_errors_exist_in_kafka_python(name: str) -> None:
    assert issubclass(getattr(errors, name), errors.KafkaError)


def test_explain_prefers_the_brokers_words() -> None:
    assert connect.explain_code(3, "Said the broker.") == "Said the broker"
    assert connect.explain_code(3) == error_texts.MESSAGES["UnknownTopicOrPartitionError"]
    assert connect.explain_code(3, "") == error_texts.MESSAGES["UnknownTopicOrPartitionError"]
    assert connect.explain_code(87) == error_texts.MESSAGES["InvalidRecordError"]
    assert connect.explain(errors.NotControllerError) == "NotControllerError"


def test_long_texts_are_truncated() -> None:
    text = connect.explain(errors.KafkaError("x" * 5000))
    assert len(text) == 300
    assert text.endswith("...")


@for_each(
    "error, words",
    [
        (errors.KafkaTimeoutError("Unable to bootstrap from x"), "no broker answers at here:1"),
        (errors.KafkaTimeoutError("late"), "did not answer in time"),
        (errors.KafkaConnectionError("cut"), "the connection to here:1 broke"),
        (errors.NonEmptyGroupError("…"), "the group has members"),
    ],
)
def test_errors_of_the_client_become_sentences(error: Exception, words: str) -> None:
    with pytest.raises(click.ClickException, match=words), connect.plain_errors("here:1"):
        raise error


class DyingBroker:
    """Stands for an administration client whose broker refuses connections `refusals` times."""

    name = "admin"

    def __init__(self, refusals: int, text: str = "111 ECONNREFUSED") -> None:
        self.refusals = refusals
        self.text = text
        self.calls: list[tuple[object, ...]] = []

    def ask(self, *arguments: object, key: object = None) -> str:
        self.calls.append((*arguments, key))
        if len(self.calls) <= self.refusals:
            raise KafkaConnectionError(self.text)
        return "answer"


def test_a_call_is_made_again_while_the_broker_that_was_picked_refuses_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connect, "AGAIN_S", 0)
    client = DyingBroker(2)
    persistent: Any = PersistentAdmin(client)  # type: ignore[arg-type]
    assert persistent.ask(1, key=2) == "answer"
    assert client.calls == [(1, 2)] * 3
    assert persistent.name == "admin"


def test_a_call_whose_connection_broke_is_not_made_again() -> None:
    client = DyingBroker(1, "socket disconnected")
    with pytest.raises(KafkaConnectionError):
        PersistentAdmin(client).ask()  # type: ignore[arg-type]
    assert len(client.calls) == 1


def test_a_broker_that_stays_away_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "BOOTSTRAP_TIMEOUT_MS", 50)
    monkeypatch.setattr(connect, "AGAIN_S", 0.01)
    with pytest.raises(KafkaConnectionError, match="ECONNREFUSED"):
        PersistentAdmin(DyingBroker(10**6)).ask()  # type: ignore[arg-type]
