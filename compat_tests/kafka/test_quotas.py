"""Kafka's tool for client quotas: what it does with Kafka, it does with kqueue."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from compat_tests.clients import protocol_client
from compat_tests.kafka.tool_host import ToolHost, ToolResult

CONFIGS = "kafka.admin.ConfigCommand"
ALTER_CLIENT_QUOTAS = 49
END_S = 40
Configs = Callable[..., ToolResult]
ANN = ("--entity-type", "users", "--entity-name", "quotas-ann")
APP = ("--entity-type", "clients", "--entity-name", "quotas-app")
OTHER_CLIENTS = ("--entity-type", "clients", "--entity-default")
ADDRESS = ("--entity-type", "ips", "--entity-name", "192.0.2.7")


@pytest.fixture
def configs(tools: ToolHost, either: str) -> Configs:
    """Run kafka-configs."""
    if ALTER_CLIENT_QUOTAS not in protocol_client.served_apis(either):
        pytest.skip("the broker has no quotas")
    return lambda *arguments: tools.run(CONFIGS, "--bootstrap-server", either, *arguments)


def until_described(configs: Configs, entity: tuple[str, ...], *expected: str) -> None:
    """Describe until the output has these words: Kafka answers before a change takes effect."""
    deadline = time.monotonic() + END_S
    while True:
        done = configs("--describe", *entity)
        assert done.status == 0, done
        if all(words in done.stdout for words in expected) and (expected or "rate=" not in done.stdout):
            return
        assert time.monotonic() < deadline, (done.stdout, done.stderr[:2000])
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("entity", "quota", "described"),
    [
        (ANN, "producer_byte_rate=1024", "for user-principal 'quotas-ann' are producer_byte_rate=1024.0"),
        (APP, "consumer_byte_rate=2048", "for client-id 'quotas-app' are consumer_byte_rate=2048.0"),
        ((*ANN, *APP), "controller_mutation_rate=0.5",
         "for user-principal 'quotas-ann', client-id 'quotas-app' are controller_mutation_rate=0.5"),
        ((*ANN, *OTHER_CLIENTS), "producer_byte_rate=4096", "the default client-id are producer_byte_rate=4096.0"),
        (ADDRESS, "connection_creation_rate=50", "for ip '192.0.2.7' are connection_creation_rate=50.0"),
    ],
)  # fmt: skip
def test_quotas_are_set_described_and_deleted(
    configs: Configs, entity: tuple[str, ...], quota: str, described: str
) -> None:
    added = configs("--alter", *entity, "--add-config", quota)
    assert added.status == 0, added
    until_described(configs, entity, described)
    deleted = configs("--alter", *entity, "--delete-config", quota.partition("=")[0])
    assert deleted.status == 0, deleted
    until_described(configs, entity)


def test_refusals_have_the_same_words(configs: Configs) -> None:
    for entity, quota, words in (
        (ANN, "producer_byte_rate=0", "must be greater than 0"),
        (ANN, "producer_byte_rate=1.5", "cannot be a fractional value"),
    ):
        done = configs("--alter", *entity, "--add-config", quota)
        assert done.status != 0, quota
        assert words in done.stdout + done.stderr, (quota, done.stdout, done.stderr[:2000])
