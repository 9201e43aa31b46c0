"""`-o json`: every command that prints a table has it, and what it prints is JSON with keys that
stay.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

import kqueue
from kqueue.cli.app import kqueue as root
from kqueue.tests.tables import for_each

Kq = Callable[..., Result]
PRINTS_A_TABLE = ("columns(", "Table(")
TEXTS = {"topics list", "topics describe", "groups list", "log repair"}
TEXTS |= {"backup create", "backup verify", "backup restore"}
"""Commands whose text is as good as a table."""
WITHOUT = {
    *("configs alter", "demo", "groups delete", "groups delete-offsets", "topics create", "plugins new"),
    *("cluster reassign run", "cluster reassign cancel", "log-dirs move", "users add", "users remove"),
    *("quotas set", "quotas remove", "transactions abort"),
    *("profile create", "profile delete", "profile edit", "profile use"),
    *("metrics dashboard", "metrics alerts"),
}
"""Commands in a module with tables that print none themselves; and the demo's is for people."""


def context_of(command: click.Command) -> click.Context:
    """With the help options of the root command: a command remembers those of the first context
    that asks for them.
    """
    return click.Context(command, **root.context_settings)


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """All commands that are no groups, by their path."""
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    context = context_of(command)
    for name in command.list_commands(context):
        subcommand = command.get_command(context, name)
        assert subcommand is not None
        yield from leaves(subcommand, (*path, name))


def prints_a_table(name: str, command: click.Command) -> bool:
    assert command.callback is not None
    source = inspect.getsource(inspect.getmodule(inspect.unwrap(command.callback)))  # type: ignore[arg-type]
    has_json = any(param.name == "as_json" for param in command.params)
    return has_json or name in TEXTS or any(sign in source for sign in PRINTS_A_TABLE)


COMMANDS = {name: command for name, command in leaves(root) if prints_a_table(name, command)}


def test_the_tree_is_walked() -> None:
    assert {
        "groups describe",
        "log-dirs show",
        "plugins list",
        "cluster info",
        "log verify",
        "pipeline audit",
        "pipeline sweep",
        "pipeline ingest",
        "groups reset-offsets",
    } <= set(COMMANDS)


@for_each("name", sorted(set(COMMANDS) - WITHOUT))
def test_every_command_that_prints_a_table_prints_json_too(name: str) -> None:
    (option,) = (param for param in COMMANDS[name].params if param.name == "as_json")
    assert {"-o", "--output"} <= set(option.opts), "demo" in name
    assert "--json" in COMMANDS[name].get_help(context_of(COMMANDS[name]))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kqueue.Broker]:
    from kafka import KafkaConsumer

    with kqueue.Broker(tmp_path_factory.mktemp("data")) as broker:
        broker.create_topic("orders", 2, retention_ms=1000)
        broker.topics["orders"].produce_all(["a", "b"], partition=0)
        consumer = KafkaConsumer(
            "orders", bootstrap_servers=broker.bootstrap, group_id="mail", auto_offset_reset="earliest"
        )
        next(consumer)
        consumer.commit()
        consumer.close()
        yield broker


def printed(broker: kqueue.Broker, *args: str) -> Any:
    result = CliRunner().invoke(root, args, env={"KQUEUE_BOOTSTRAP": broker.bootstrap})
    assert result.exit_code == 0, result.output
    (line,) = result.stdout.splitlines()
    return json.loads(line)


def keys(value: Any) -> Any:
    """The keys of a document, with what lists hold by their first item."""
    if isinstance(value, dict):
        return {key: keys(item) for key, item in value.items()}
    return [keys(value[0])] if isinstance(value, list) and value and isinstance(value[0], (dict, list)) else None


PARTITION = dict.fromkeys(("partition", "leader", "replicas", "isr", "elr", "last_known_elr", "adding", "removing"))
GROUP = dict.fromkeys(("group", "type", "state", "epoch", "assignment_epoch", "assignor", "members"))
MEMBER = dict.fromkeys(("topic", "partition", "committed", "end", "lag", "pending", "member_id", "host", "client_id"))


@pytest.mark.parametrize("flag", [("-o", "json"), ("--json",)])
@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("topics", "list"), [dict.fromkeys(("name", "id", "internal", "partitions"))]),
        (
            ("topics", "describe", "orders"),
            [
                {
                    "name": None,
                    "id": None,
                    "internal": None,
                    "partitions": [PARTITION],
                    "configs": {"retention.ms": None},
                }
            ],
        ),
        (("groups", "list"), [dict.fromkeys(("group", "type", "state", "protocol_type", "lag"))]),
        (("groups", "describe", "mail"), [{**GROUP, "partitions": [MEMBER]}]),
        (
            ("groups", "reset-offsets", "mail", "--topic", "orders", "--to-earliest"),
            [dict.fromkeys(("group", "topic", "partition", "current", "new", "executed"))],
        ),
        (
            ("cluster", "info"),
            {
                "cluster_id": None,
                "controller": None,
                "brokers": [dict.fromkeys(("id", "host", "port", "rack", "is_controller", "kafka"))],
                "features": [dict.fromkeys(("name", "level", "supported_min", "supported_max"))],
                "quorum": dict.fromkeys(("leader", "epoch", "high_watermark", "voters", "observers")),
                "apis": [dict.fromkeys(("name", "key", "min", "max"))],
            },
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_command_prints_one_document_with_the_expected_keys(
    broker: kqueue.Broker, args: tuple[str, ...], flag: tuple[str, ...], expected: Any
) -> None:
    assert keys(printed(broker, *args, *flag)) == expected


def test_the_values_are_those_of_the_broker(broker: kqueue.Broker) -> None:
    (topic,) = (one for one in printed(broker, "topics", "list", "-o", "json") if one["name"] == "orders")
    assert (topic["partitions"], topic["internal"], len(topic["id"])) == (2, False, 22)
    (group,) = printed(broker, "groups", "describe", "mail", "-o", "json")
    assert (group["group"], group["state"]) == ("mail", "Empty")
    (row,) = (row for row in group["partitions"] if row["partition"] == 0)
    assert (row["topic"], row["end"], row["member_id"]) == ("orders", 2, None)
    assert row["lag"] == 2 - row["committed"]
    info = printed(broker, "cluster", "info", "-o", "json")
    assert info["brokers"] == [
        {"id": 1, "host": "127.0.0.1", "port": broker.port, "rack": None, "is_controller": True, "kafka": "4.3"}
    ]
    assert {"name": "Produce", "key": 0, "min": 0, "max": 13} in info["apis"]


@pytest.mark.parametrize("args", [("log-dirs", "orders"), ("plugins",), ("plugins", "list")])
def test_others_print_one_document_as_well(broker: kqueue.Broker, args: tuple[str, ...]) -> None:
    assert isinstance(printed(broker, *args, "-o", "json"), dict)


def test_log_folders_too(tmp_path: Path) -> None:
    with kqueue.Broker(tmp_path / "data") as broker:
        broker.create_topic("orders")
        broker.topics["orders"].produce("a")
    for command in (("verify", str(tmp_path / "data")), ("repair", str(tmp_path / "data"), "--dry-run")):
        assert printed(broker_of_none, "log", *command, "-o", "json")["sound"] is True


class broker_of_none:
    bootstrap = "127.0.0.1:1"
