from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import kqueue
from kqueue.cli.app import kqueue as main

Acls = Callable[..., Result]
ADMIN = "User:ANONYMOUS allow all cluster"


@pytest.fixture(scope="module")
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker(acls=[ADMIN]) as broker:
        yield broker


@pytest.fixture
def acls(broker: kqueue.Broker) -> Iterator[Acls]:
    """Run `kqueue acls` against a broker that has one ACL."""

    def run(*args: str, input: str | None = None) -> Result:
        return CliRunner().invoke(main, ["acls", *args], input=input, env={"KQUEUE_BOOTSTRAP": broker.bootstrap})

    yield run
    run("remove", "--topic", "orders", "--resource-pattern-type", "match", "--force")


def known(broker: kqueue.Broker) -> set[str]:
    return {str(binding) for binding in broker._server.broker.security.acls.index} - {ADMIN}


def test_acls_are_added_listed_and_removed(broker: kqueue.Broker, acls: Acls) -> None:
    added = acls("add", "--allow-principal", "User:ann", "--producer", "--topic", "orders")
    assert added.exit_code == 0, added.output
    head, titles, *rows = added.stdout.splitlines()
    assert head == "Added 3 ACLs:"
    assert titles.split() == ["PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "PATTERN", "NAME", "HOST"]
    assert rows[0].split() == ["User:ann", "ALLOW", "WRITE", "TOPIC", "LITERAL", "orders", "*"]
    assert known(broker) == {f"User:ann allow {word} topic:orders" for word in ("write", "describe", "create")}
    assert acls("list", "--topic", "orders").stdout.splitlines()[0] == titles
    removed = acls("remove", "--allow-principal", "User:ann", "--operation", "write", "--topic", "orders", "--force")
    assert removed.stdout.splitlines()[0] == "Removed 1 ACL:"
    assert known(broker) == {f"User:ann allow {word} topic:orders" for word in ("describe", "create")}


def test_the_list_says_what_applies(acls: Acls) -> None:
    acls("add", "--deny-principal", "User:eve", "--operation", "Read", "--topic", "*")
    acls(
        "add",
        "--allow-principal",
        "User:ann",
        "--operation",
        "Read",
        "--topic",
        "ord",
        "--resource-pattern-type",
        "prefixed",
    )

    def listed(*args: str) -> set[tuple[str, str]]:
        rows = json.loads(acls("list", "--json", *args).stdout)
        return {(row["principal"], row["name"]) for row in rows}

    assert listed("--topic", "orders") == set()
    assert listed("--topic", "orders", "--resource-pattern-type", "MATCH") == {("User:eve", "*"), ("User:ann", "ord")}
    assert listed("--principal", "User:ann") == {("User:ann", "ord")}
    assert listed("--topic", "ord", "--resource-pattern-type", "any") == {("User:ann", "ord")}


def test_a_removal_is_asked_for(broker: kqueue.Broker, acls: Acls) -> None:
    acls("add", "--allow-principal", "User:ann", "--operation", "Read", "--topic", "orders")
    refused = acls("remove", "--topic", "orders", input="n\n")
    assert refused.exit_code == 1
    assert "Remove all ACLs of these resources?" in refused.stderr
    assert len(known(broker)) == 1
    assert acls("remove", "--topic", "orders", input="y\n").exit_code == 0
    assert known(broker) == set()
    assert acls("remove", "--topic", "orders", "--force").stdout == "Removed 0 ACLs.\n"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("add", "--topic", "orders"), "say for whom: --allow-principal or --deny-principal"),
        (("add", "--allow-principal", "User:ann"), "say of which resource"),
        (("add", "--allow-principal", "User:ann", "--topic", "t", "--operation", "Reed"), "did you mean 'Read'"),
        (("remove",), "say of which resource"),
    ],
)
def test_mistakes_are_told(acls: Acls, args: tuple[str, ...], words: str) -> None:
    result = acls(*args)
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_broker_without_an_authorizer_has_no_acls(bootstrap: str) -> None:
    arguments = ["acls", "add", "--allow-principal", "User:ann", "--topic", "t", "-b", bootstrap]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert "set authorizer.class.name" in result.stderr
    result = CliRunner().invoke(main, ["acls", "list", "-b", bootstrap])
    assert result.exit_code == 1
    assert "no authorizer is configured: set authorizer.class.name" in result.stderr


def test_the_first_acls_are_there_before_the_first_start(tmp_path: Path) -> None:
    folder = tmp_path / "data"

    def run(*args: str) -> Result:
        return CliRunner().invoke(main, ["acls", *args, "--folder", str(folder)])

    for principal in ("User:ANONYMOUS", "User:bob"):
        added = run(
            "add", "--allow-principal", principal, "--operation", "Alter", "--operation", "Describe", "--cluster"
        )
        assert added.exit_code == 0, added.output
    assert folder.stat().st_mode & 0o777 == 0o700
    assert run("remove", "--allow-principal", "User:bob", "--operation", "Alter", "--cluster", "--force").exit_code == 0
    expected = {f"User:ANONYMOUS allow {word} cluster" for word in ("alter", "describe")}
    expected.add("User:bob allow describe cluster")
    assert len(json.loads(run("list", "--json").stdout)) == 3
    settings = {"authorizer.class.name": "standard"}
    with kqueue.Broker(folder, settings=settings) as broker:
        assert known(broker) == expected
        listed = CliRunner().invoke(main, ["acls", "list", "--json", "-b", broker.bootstrap])
        assert {row["operation"] for row in json.loads(listed.stdout)} == {"ALTER", "DESCRIBE"}
        busy = run("list")
        assert busy.exit_code == 1
        assert "Ask it by --bootstrap-server, or stop it" in busy.stderr
