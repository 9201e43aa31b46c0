"""Kafka's Java clients authenticate by each mechanism, and again while they produce."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import kqueue
from compat_tests.kafka.tool_host import ToolHost, ToolResult
from kqueue.embedded.users import MODULES
from kqueue.security.jaas import OAUTHBEARER_MODULE
from kqueue.security.sasl.token_validators import UNSECURED_HANDLER

UNSECURED = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.server.callback.handler.class": UNSECURED_HANDLER,
}


def properties(folder: Path, mechanism: str, login: str) -> str:
    file = folder / "client.properties"
    values = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": login,
        "request.timeout.ms": 5000,
        "default.api.timeout.ms": 10_000,
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return str(file)


def with_password(folder: Path, mechanism: str, password: str = "secret") -> str:
    login = f'{MODULES[mechanism]} required username="ann" password="{password}";'
    return properties(folder, mechanism, login)


def create_topic(tools: ToolHost, bootstrap: str, file: str) -> ToolResult:
    arguments = ("--bootstrap-server", bootstrap, "--create", "--topic", "t", "--command-config", file)
    return tools.run("org.apache.kafka.tools.TopicCommand", *arguments)


@pytest.mark.parametrize("mechanism", MODULES)
def test_the_admin_client_authenticates(tools: ToolHost, tmp_path: Path, mechanism: str) -> None:
    with kqueue.Broker(users={"ann": "secret"}) as broker:
        done = create_topic(tools, broker.bootstrap, with_password(tmp_path, mechanism))
        assert (done.status, "t" in broker.topics) == (0, True), done.stderr


@pytest.mark.parametrize("mechanism", MODULES)
def test_a_wrong_password_is_an_authentication_error(tools: ToolHost, tmp_path: Path, mechanism: str) -> None:
    with kqueue.Broker(users={"ann": "secret"}) as broker:
        done = create_topic(tools, broker.bootstrap, with_password(tmp_path, mechanism, "a guess"))
        assert done.status == 1
        assert f"invalid credentials with SASL mechanism {mechanism}" in done.stdout + done.stderr
        assert list(broker.topics) == []


def test_unsecured_tokens_authenticate_where_they_are_accepted(tools: ToolHost, tmp_path: Path) -> None:
    login = f'{OAUTHBEARER_MODULE} required unsecuredLoginStringClaim_sub="ann";'
    with kqueue.Broker(settings=UNSECURED) as broker:
        done = create_topic(tools, broker.bootstrap, properties(tmp_path, "OAUTHBEARER", login))
        assert (done.status, "t" in broker.topics) == (0, True), done.stderr


@pytest.mark.parametrize("mechanism", MODULES)
def test_a_producer_authenticates_again_while_it_sends(
    tools: ToolHost, tmp_path: Path, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="kqueue")
    with kqueue.Broker(users={"ann": "secret"}, settings={"connections.max.reauth.ms": 2000}) as broker:
        broker.create_topic("t")
        file = with_password(tmp_path, mechanism)
        size = ("--num-records", 3000, "--throughput", 500, "--record-size", 10)
        props = ("--producer-props", f"bootstrap.servers={broker.bootstrap}", "acks=all")
        done = tools.run(
            "org.apache.kafka.tools.ProducerPerformance", "--topic", "t", *size, *props, "--producer.config", file
        )
        assert done.status == 0, done.stderr
        assert broker.topics["t"].end_offsets[0] == 3000
        assert "its session has expired" not in caplog.text
        connections = {one.address for one in broker.requests(api="Produce")}
        handshakes = [one for one in broker.requests(api="SaslHandshake") if one.address in connections]
        assert len(handshakes) > len(connections), "some of them came on an authenticated connection"
