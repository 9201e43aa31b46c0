"""Kafka's tool for delegation tokens, with kqueue; a token is used by Kafka's own client."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kqueue
from compat_tests.kafka.tool_host import ToolHost, ToolResult

TOOL = "org.apache.kafka.tools.DelegationTokenCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
USERS = 'user_ann="secret" user_bob="geheim";'
SETTINGS = {
    "listeners": "SASL://127.0.0.1:0",
    "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
    "inter.broker.listener.name": "SASL",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{SCRAM} required {USERS}",
    "delegation.token.secret.key": "the brokers' key",
}
Run = Callable[..., ToolResult]


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker(settings=SETTINGS) as broker:
        yield broker


@pytest.fixture
def run(tools: ToolHost, broker: kqueue.Broker, tmp_path: Path) -> Run:
    """Run a tool as a user: ``run(TOOL, "ann", "secret", "--describe")``."""

    def run_as(tool: str, user: str, password: str, *arguments: str, by_token: bool = False) -> ToolResult:
        host, port = broker._server.broker.endpoints("SASL")
        options = " tokenauth=true" if by_token else ""
        config = tmp_path / "client.properties"
        config.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
            f'sasl.jaas.config={SCRAM} required username="{user}" password="{password}"{options};\n'
            "default.api.timeout.ms=10000\nrequest.timeout.ms=5000\n"
        )
        where = ("--bootstrap-server", f"{host}:{port}", "--command-config", str(config))
        return tools.run(tool, *where, *arguments)

    return run_as


def test_a_token_is_created_used_renewed_and_ended(run: Run) -> None:
    created = run(TOOL, "ann", "secret", "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    assert created.status == 0, created
    [row] = [line for line in created.stdout.splitlines() if "User:ann" in line]
    token_id, hmac = re.split(r"\s+", row.strip())[:2]
    described = run(TOOL, "bob", "geheim", "--describe", "--owner-principal", "User:ann")
    assert token_id in described.stdout
    assert run(TOPICS, token_id, hmac, "--list", by_token=True).status == 0
    refused = run(TOOL, token_id, hmac, "--create", "--max-life-time-period", "-1", by_token=True)
    assert (refused.status, "Delegation Token requests are not allowed" in refused.stderr) == (1, True), refused
    renewed = run(TOOL, "bob", "geheim", "--renew", "--hmac", hmac, "--renew-time-period", "-1")
    assert renewed.status == 0, renewed
    ended = run(TOOL, "ann", "secret", "--expire", "--hmac", hmac, "--expiry-time-period", "-1")
    assert ended.status == 0, ended
    assert run(TOPICS, token_id, hmac, "--list", by_token=True).status != 0
