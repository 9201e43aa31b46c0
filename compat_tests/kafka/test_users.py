"""Kafka's tool for users with passwords: what it does with Kafka, it does with kqueue."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from compat_tests.clients import protocol_client
from compat_tests.kafka.tool_host import ToolHost, ToolResult

CONFIGS = "kafka.admin.ConfigCommand"
ALTER_USER_SCRAM_CREDENTIALS = 51
END_S = 40
Configs = Callable[..., ToolResult]


@pytest.fixture
def configs(tools: ToolHost, either: str) -> Configs:
    """Run kafka-configs about users."""
    if ALTER_USER_SCRAM_CREDENTIALS not in protocol_client.served_apis(either):
        pytest.skip("the broker has no users")
    return lambda *arguments: tools.run(CONFIGS, "--bootstrap-server", either, "--entity-type", "users", *arguments)


def until_described(configs: Configs, name: str, expected: set[str]) -> None:
    """Describe until the user has these: Kafka answers before a change takes effect."""
    deadline = time.monotonic() + END_S
    while True:
        done = configs("--describe", "--entity-name", name)
        found = set(re.findall(r"SCRAM-SHA-\d+=iterations=\d+", done.stdout))
        if found == expected:
            return
        assert time.monotonic() < deadline, (done.stdout, done.stderr[:2000])
        time.sleep(0.1)


def test_users_are_set_described_and_deleted(configs: Configs) -> None:
    name = "users-tool"
    added = configs(
        "--alter", "--entity-name", name, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]"
    )  # fmt: skip
    assert (added.status, f"Completed updating config for user {name}" in added.stdout) == (0, True), added
    until_described(configs, name, {"SCRAM-SHA-256=iterations=8192"})
    configs("--alter", "--entity-name", name, "--add-config", "SCRAM-SHA-512=[password=other]")
    until_described(configs, name, {"SCRAM-SHA-256=iterations=8192", "SCRAM-SHA-512=iterations=4096"})
    configs("--alter", "--entity-name", name, "--delete-config", "SCRAM-SHA-256")
    until_described(configs, name, {"SCRAM-SHA-512=iterations=4096"})
    configs("--alter", "--entity-name", name, "--delete-config", "SCRAM-SHA-512")
    until_described(configs, name, set())


def test_refusals_have_the_same_words(configs: Configs) -> None:
    for change, words in (
        (("--add-config", "SCRAM-SHA-256=[iterations=4095,password=x]"), "less than the minimum 4096"),
        (("--add-config", "SCRAM-SHA-256=[iterations=99999,password=x]"), "Too many iterations"),
        (("--add-config", "SCRAM-SHA-256=[password=x],SCRAM-SHA-512=[password=x]"), "cannot be altered twice"),
    ):
        done = configs("--alter", "--entity-name", "users-refused", *change)
        assert done.status != 0, change
        assert words in done.stdout + done.stderr, (change, done.stdout, done.stderr[:2000])
