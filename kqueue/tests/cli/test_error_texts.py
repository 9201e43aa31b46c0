"""The texts of commands when the broker does not allow something."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import kqueue
from kqueue.cli.app import kqueue as root
from kqueue.cli.error_texts import MESSAGES, explain_code, remedy_of
from kqueue.tests.tables import for_each

REMEDY = "`kqueue acls add`"


@pytest.fixture(scope="module")
def broker() -> Iterator[kqueue.Broker]:
    acls = ["User:ann allow describe topic:orders", "User:ann allow describe group:billing"]
    with kqueue.Broker(users={"ann": "secret", "admin": "secret"}, acls=acls) as broker:
        broker.create_topic("orders", 1)
        yield broker


@pytest.fixture
def ann(broker: kqueue.Broker, tmp_path: Path) -> Callable[..., Result]:
    file = tmp_path / "ann.properties"
    mechanism = broker.client_config("kafka-python", user="ann")["sasl_mechanism"]
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.username=ann\nsasl.password=secret\n"
    )

    def run(*args: str, input: str | None = None) -> Result:
        return CliRunner().invoke(root, [*args, "-b", broker.bootstrap, "--command-config", str(file)], input=input)

    return run


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("topics", "create", "payments"), "topic"),
        (("topics", "delete", "orders"), "topic"),
        (("produce", "orders"), "topic"),
        (("consume", "orders", "--from-beginning", "-n", "1", "--timeout-ms", "5000"), "topic"),
        (("consume", "orders", "-g", "mail", "--from-beginning", "-n", "1", "--timeout-ms", "5000"), "group"),
        (("groups", "delete", "billing"), "group"),
        (("groups", "describe", "mail"), "group"),
        (("groups", "reset-offsets", "mail", "-t", "orders", "--to-latest", "--execute"), "group"),
        (("topics", "alter", "orders", "-p", "3"), "topic"),
        (("topics", "alter", "orders", "-c", "retention.ms=5"), "topic"),
        (("topics", "delete-records", "orders", "--all"), "topic"),
        (("configs", "alter", "topics", "orders", "--add", "retention.ms=5"), "topic"),
        (("configs", "alter", "brokers", "--default", "--add", "log.retention.ms=5"), "cluster"),
        (("configs", "describe", "topics", "orders"), "topic"),
        (("configs", "describe", "brokers", "--default"), "cluster"),
        (("transactions", "abort", "--transactional-id", "mine"), ""),
        (("transactions", "describe", "mine"), ""),
        (("transactions", "describe-producers", "orders"), "topic"),
        (("transactions", "find-hanging", "-t", "orders"), "topic"),
        (("quotas", "set", "--user", "a", "producer_byte_rate=5"), "cluster"),
        (("quotas", "list"), "cluster"),
        (("cluster", "info"), "cluster"),
        (("cluster", "describe"), "cluster"),
        (("cluster", "elect", "--all"), "cluster"),
        (("cluster", "unregister", "7"), "cluster"),
        (("cluster", "reassign", "list"), "cluster"),
        (("log-dirs",), "cluster"),
        (("log-dirs", "move", "orders", "--to", "/x"), "cluster"),
        (("acls", "add", "--allow-principal", "User:a", "--topic", "x"), "cluster"),
        (("acls", "remove", "--force", "--topic", "x"), "cluster"),
        (("users", "remove", "ann"), "cluster"),
        (("users", "add", "bob", "--password", "x"), "cluster"),
        (("acls", "list"), "cluster"),
        (("users", "list"), "cluster"),
    ],
)
def test_denied_command_prints_the_remedy(ann: Callable[..., Result], args: tuple[str, ...], words: str) -> None:
    result = ann(*args, input="x\n")
    assert result.exit_code == 1, result.output
    assert REMEDY in result.stderr, result.stderr
    assert words in result.stderr.lower()


@for_each("code", [29, 30, 31, 53, 58, 65])
def test_every_refusal_of_security_has_a_remedy(code: int) -> None:
    """By code: topic, group, cluster, transactional id, SASL, delegation token."""
    text = explain_code(code, None)
    assert text in MESSAGES.values()
    assert REMEDY in text or "--command-config" in text
    if code != 58:
        assert explain_code(code, "Denied.") == f"Denied: {text}"


def test_other_refusals_have_none() -> None:
    assert remedy_of("UNKNOWN_TOPIC_OR_PARTITION") == ""
