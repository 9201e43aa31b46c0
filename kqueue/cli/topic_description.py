"""`kqueue topics describe`: topics in the lines of kafka-topics, or those in a bad condition."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kqueue.admin.partition_conditions import Condition, conditions_of
from kqueue.base.names import uuid_text
from kqueue.base.text import counted
from kqueue.cli.completion import complete_topics
from kqueue.cli.connect import admin, bootstrap_option, explain_code
from kqueue.cli.name_suggestions import no_topic
from kqueue.cli.output import output_option, print_json

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

Topic = dict[str, Any]
F = TypeVar("F", bound=Callable[..., Any])
BACKLOG = "kqueue.backlog"
UNKNOWN_TOPIC = 3
MIN_ISR = "min.insync.replicas"
_ELR_LISTS = ("eligible_leader_replicas", "last_known_elr")
_MOVES = ("adding_replicas", "removing_replicas")
_OPTIONS = {
    Condition.UNDER_REPLICATED: (
        ("--under-replicated", "--under-replicated-partitions"),
        "that lack an in-sync replica",
    ),
    Condition.UNAVAILABLE: (("--unavailable-partitions",), "without a leader"),
    Condition.UNDER_MIN_ISR: (("--under-min-isr-partitions",), "with fewer in-sync replicas than min.insync.replicas"),
    Condition.AT_MIN_ISR: (("--at-min-isr-partitions",), "with as many in-sync replicas as min.insync.replicas"),
}


def _condition_options(command: F) -> F:
    """Add the options that select partitions by their condition, as arguments of its names."""
    for condition, (names, words) in reversed(_OPTIONS.items()):
        command = click.option(
            condition.value.replace("-", "_"), *names, is_flag=True, help=f"Only partitions {words}."
        )(command)
    return command


def internal_option(command: F) -> F:
    """Add ``--internal``, as the argument of this name."""
    return click.option(
        "--internal", "--all", is_flag=True, help="Show internal topics too, such as __consumer_offsets."
    )(command)


def without_internal(described: list[Topic]) -> list[Topic]:
    """Return the topics that are not internal."""
    return [topic for topic in described if not topic["is_internal"]]


def note_internal(hidden: int) -> None:
    """Say on a terminal how many internal topics are not shown."""
    if hidden and sys.stderr.isatty():
        click.echo(f"{counted(hidden, 'internal topic')} not shown; --internal shows all.", err=True)


def explain_topic_code(bootstrap: str, name: str, code: int, message: str | None = None) -> str:
    """Return the message for an error code about a topic, with the topic's name."""
    if code == UNKNOWN_TOPIC:
        return no_topic(bootstrap, name)
    reason = explain_code(code, message)
    return reason if f"topic {name!r}" in reason else f"{name}: {reason}"


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_topics)
@internal_option
@_condition_options
@output_option
@bootstrap_option
def describe(names: tuple[str, ...], internal: bool, as_json: bool, bootstrap: str, **chosen: bool) -> None:
    """Show a topic's partitions, replicas and settings.

    The format is that of kafka-topics. Without a name the command shows all topics but internal
    ones; an option that selects partitions looks at those too.

    \b
      kqueue topics describe orders
      kqueue topics describe --under-replicated

    Of a topic with a bound on its unread backlog (kqueue.backlog.messages.max,
    kqueue.backlog.bytes.max) it also shows the backlog, the slowest group, and what producers get:
    open, refusing or slowing.
    """
    conditions = frozenset(one for one in Condition if chosen[one.value.replace("-", "_")])
    with admin(bootstrap) as client:
        topics = sorted(client.describe_topics(list(names) or None), key=name_of)
        described = topics if names or internal or conditions else without_internal(topics)
        existing = [topic for topic in described if topic["error_code"] == 0]
        _add_eligible_replicas(client, existing)
        _add_moves(client, existing)
        settings, min_isr = _settings_of(client, [topic["name"] for topic in existing])
    for topic in existing if conditions else ():
        least = int(min_isr.get(topic["name"], 1))
        topic["partitions"] = [row for row in topic["partitions"] if conditions & _conditions(row, least)]
    shown = [topic for topic in existing if topic["partitions"] or not conditions]
    if as_json:
        print_json([_as_dict(topic, settings.get(topic["name"], {})) for topic in shown])
    for topic in () if as_json else shown:
        text = describe_text(topic, settings.get(topic["name"], {}))
        click.echo("\n".join(line for line in text.splitlines() if "\tPartition: " in line) if conditions else text)
    for topic in described:
        if topic["error_code"] != 0:
            click.echo(f"Error: {explain_topic_code(bootstrap, topic['name'], topic['error_code'])}", err=True)
    if not as_json:
        note_internal(len(topics) - len(described))
    if len(existing) < len(described):
        raise click.exceptions.Exit(1)


def _conditions(row: Mapping[str, Any], min_isr: int) -> frozenset[Condition]:
    return conditions_of(
        row["leader_id"],
        row["replica_nodes"],
        row["isr_nodes"],
        adding=row.get("adding_replicas", ()),
        min_isr=min_isr,
    )


def describe_text(topic: Topic, settings: dict[str, str]) -> str:
    """Format a topic as `kafka-topics --describe` of Kafka 4.3 does.

    ``Elr: N/A`` is for brokers without eligible leader replicas.
    """
    partitions = sorted(topic["partitions"], key=lambda partition: int(partition["partition_index"]))
    name = topic["name"]
    factor = len(set(partitions[0]["replica_nodes"]) - set(partitions[0].get(_MOVES[0], ()))) if partitions else 0
    backlog = _backlog(settings)
    configs = ",".join(f"{key}={value}" for key, value in sorted(settings.items()) if key != BACKLOG)
    head = (
        f"Topic: {name}\tTopicId: {_id_text(topic)}\tPartitionCount: {len(partitions)}"
        f"\tReplicationFactor: {factor}\tConfigs: {configs}"
    )
    lines = [head]
    unread = {} if backlog is None else {one["partition"]: one for one in backlog["partitions"]}
    if backlog is not None:
        lines.append(f"\tTopic: {name}\tBacklog: {backlog['state']}\t{_unread_text(backlog)}")
    for partition in partitions:
        leader = partition["leader_id"] if partition["leader_id"] >= 0 else "none"
        replicas, isr, elr, last_elr = (
            _nodes(partition.get(key)) for key in ("replica_nodes", "isr_nodes", *_ELR_LISTS)
        )
        moves = [_nodes(partition[key]) for key in _MOVES] if _MOVES[0] in partition else None
        lines.append(
            f"\tTopic: {name}\tPartition: {partition['partition_index']}\tLeader: {leader}"
            f"\tReplicas: {replicas}\tIsr: {isr}"
            + (f"\tAdding Replicas: {moves[0]}\tRemoving Replicas: {moves[1]}" if moves is not None else "")
            + f"\tElr: {elr}\tLastKnownElr: {last_elr}"
            + (f"\t{_unread_text(unread[index])}" if (index := partition["partition_index"]) in unread else "")
        )
    return "\n".join(lines)


def _backlog(settings: dict[str, str]) -> dict[str, Any] | None:
    value = settings.get(BACKLOG)
    return None if value is None else dict(json.loads(value))


def _unread_text(backlog: dict[str, Any]) -> str:
    group = backlog["group"] if backlog["group"] is not None else "none"
    return f"Unread: {backlog['messages']}\tUnreadBytes: {backlog['bytes']}\tSlowestGroup: {group}"


def head_of(topic: Topic) -> dict[str, object]:
    """Return what JSON has of each topic."""
    return {"name": topic["name"], "id": _id_text(topic), "internal": topic["is_internal"]}


def _as_dict(topic: Topic, settings: dict[str, str]) -> dict[str, object]:
    """Return the content of `describe_text` as JSON values.

    ``elr`` and ``last_known_elr`` are null for brokers without eligible leader replicas.
    """
    partitions = [
        {
            "partition": partition["partition_index"],
            "leader": partition["leader_id"] if partition["leader_id"] >= 0 else None,
            "replicas": partition["replica_nodes"],
            "isr": partition["isr_nodes"],
            "elr": partition.get(_ELR_LISTS[0]),
            "last_known_elr": partition.get(_ELR_LISTS[1]),
            "adding": partition.get(_MOVES[0], []),
            "removing": partition.get(_MOVES[1], []),
        }
        for partition in sorted(topic["partitions"], key=lambda partition: int(partition["partition_index"]))
    ]
    configs = {key: value for key, value in settings.items() if key != BACKLOG}
    backlog = _backlog(settings)
    described = head_of(topic) | {"partitions": partitions, "configs": configs}
    return described if backlog is None else described | {"backlog": backlog}


def name_of(topic: Topic) -> str:
    """Return a topic's name."""
    return str(topic["name"])


def _id_text(topic: Topic) -> str:
    """Return the topic id as Kafka prints it; brokers before 2.8 have none."""
    from uuid import UUID

    raw = topic.get("topic_id")
    return uuid_text(UUID(str(raw)).bytes) if raw else "N/A"


def _settings_of(client: KafkaAdminClient, names: list[str]) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """Return the settings that differ from their defaults, and the backlog, by topic, and each
    topic's min.insync.replicas; empty if the broker omits them.
    """
    from kafka.admin import ConfigResource, ConfigResourceType
    from kafka.errors import IncompatibleBrokerVersion

    if not names:
        return {}, {}
    try:
        response = client.describe_configs(
            [ConfigResource(ConfigResourceType.TOPIC, name) for name in names], config_filter="all"
        )
    except IncompatibleBrokerVersion:
        return {}, {}
    described = response.get("topic", {})
    shown = {
        name: {
            key: row["value"] for key, row in rows.items() if row["config_source"] != "DEFAULT_CONFIG" or key == BACKLOG
        }
        for name, rows in described.items()
    }
    return shown, {name: rows[MIN_ISR]["value"] for name, rows in described.items() if MIN_ISR in rows}


def _add_eligible_replicas(client: KafkaAdminClient, topics: list[Topic]) -> None:
    """Add each partition's eligible leader replicas, which brokers from Kafka 3.7 on report."""
    from kafka.errors import IncompatibleBrokerVersion

    known = {
        (topic["name"], partition["partition_index"]): partition
        for topic in topics
        for partition in topic["partitions"]
    }
    cursor = None
    while known:
        try:
            response = client.describe_topic_partitions([topic["name"] for topic in topics], cursor=cursor)
        except IncompatibleBrokerVersion:
            return
        for topic in response["topics"]:
            for row in topic["partitions"]:
                partition = known.get((topic["name"], row["partition_index"]), {})
                partition.update({key: row[key] or [] for key in _ELR_LISTS})
        cursor = response["next_cursor"]
        if cursor is None:
            return


def _add_moves(client: KafkaAdminClient, topics: list[Topic]) -> None:
    """Add the replicas that a reassignment adds and removes, to partitions that are being moved."""
    from kafka import TopicPartition
    from kafka.errors import IncompatibleBrokerVersion

    try:
        moving = client.list_partition_reassignments()
    except IncompatibleBrokerVersion:
        return
    for topic in topics if moving else ():
        for partition in topic["partitions"]:
            move = moving.get(TopicPartition(topic["name"], partition["partition_index"]))
            if move is not None:
                partition.update({key: list(move[key]) for key in _MOVES})


def _nodes(ids: list[int] | None) -> str:
    return "N/A" if ids is None else ",".join(map(str, ids))
