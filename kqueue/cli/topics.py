"""`kqueue topics`: create, list, describe, alter and delete, in the formats of kafka-topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kqueue.base.text import counted
from kqueue.cli.completion import complete_settings, complete_topics
from kqueue.cli.connect import admin, bootstrap_option, explain, explain_code, parse_name_values, print_error
from kqueue.cli.error_texts import remedy_of
from kqueue.cli.name_suggestions import no_topic
from kqueue.cli.output import output_option, print_json
from kqueue.cli.topic_description import (
    UNKNOWN_TOPIC,
    describe,
    explain_topic_code,
    head_of,
    internal_option,
    name_of,
    note_internal,
    without_internal,
)

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

ALREADY_EXISTS = 36
TO_THE_END = -1
LATEST = -1
_REFUSED_DELETION = {
    "OffsetOutOfRangeError": "the partition ends before that offset",
    "PolicyViolationError": "the topic keeps the last record of each key (cleanup.policy=compact); none can be deleted",
    "InvalidTopicError": "the topic is the broker's own",
}
_settings_option = click.option(
    "-c",
    "--config",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    shell_complete=complete_settings("topic", suffix="="),
    help="Set a setting of the topic; may be repeated.",
)


@click.group()
def topics() -> None:
    """Create, list, describe, alter and delete topics, and delete their oldest records.

    \b
      kqueue topics create orders --partitions 3
      kqueue topics create audit -c retention.ms=3600000 -c cleanup.policy=delete
      kqueue topics describe orders
      kqueue topics alter orders --partitions 6
      kqueue topics delete-records orders --before-offset 1000
      kqueue topics delete orders
    """


@topics.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of partitions.  [default: the broker's num.partitions]",
)
@click.option(
    "-r",
    "--replication-factor",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of replicas.  [default: the broker's]",
)
@_settings_option
@click.option("--if-not-exists", is_flag=True, help="Do not fail if the topic exists.")
@bootstrap_option
def create(
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    settings: tuple[str, ...],
    if_not_exists: bool,
    bootstrap: str,
) -> None:
    """Create topics.

    \b
      kqueue topics create orders
      kqueue topics create orders --partitions 3 -c retention.ms=86400000 --if-not-exists
      kqueue topics create prices -c cleanup.policy=compact
      kqueue topics create jobs -c cleanup.policy=consumed -c kqueue.consumed.groups=mail,billing

    cleanup.policy says what is deleted: `delete` removes segments older than retention.ms or beyond
    retention.bytes, `compact` keeps the last record of each key, `consumed` removes what all groups
    of kqueue.consumed.groups have consumed. Several may be named.
    """
    request = {
        "num_partitions": partitions or -1,
        "replication_factor": replication_factor or -1,
        "configs": dict(parse_name_values(settings, "--config")),
    }
    with admin(bootstrap) as client:
        results = client.create_topics(dict.fromkeys(names, request), raise_errors=False)["topics"]
    refused = False
    for result in results:
        name, code = result["name"], result["error_code"]
        if code == 0:
            created = result.get("num_partitions", -1)
            click.echo(f"Created topic {name}" + (f" with {counted(created, 'partition')}." if created > 0 else "."))
        elif code == ALREADY_EXISTS and if_not_exists:
            click.echo(f"Topic {name} exists already.")
        else:
            refused = True
            print_error(name, explain_code(code, result.get("error_message")))
    _exit_if(refused)


@topics.command("list")
@internal_option
@click.option("--exclude-internal", is_flag=True, hidden=True)  # what is done now; scripts may still say it
@output_option
@bootstrap_option
def list_topics(internal: bool, exclude_internal: bool, as_json: bool, bootstrap: str) -> None:
    """Print the names of all topics, one per line.

    \b
      kqueue topics list
      kqueue topics list --internal -o json
    """
    with admin(bootstrap) as client:
        described = sorted(client.describe_topics(), key=name_of)
    shown = described if internal and not exclude_internal else without_internal(described)
    if as_json:
        print_json([head_of(topic) | {"partitions": len(topic["partitions"])} for topic in shown])
        return
    for topic in shown:
        click.echo(topic["name"])
    note_internal(len(described) - len(shown))


topics.add_command(describe)


@topics.command()
@click.argument("name", shell_complete=complete_topics)
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(min=1),
    metavar="N",
    help="The new number of partitions, which can only grow.",
)
@_settings_option
@click.option(
    "--delete-config",
    "removed",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_settings("topic"),
    help="Reset a setting to its default; may be repeated.",
)
@bootstrap_option
def alter(
    name: str, partitions: int | None, settings: tuple[str, ...], removed: tuple[str, ...], bootstrap: str
) -> None:
    """Add partitions to a topic, or change its settings.

    \b
      kqueue topics alter orders --partitions 6
      kqueue topics alter orders -c retention.ms=3600000 --delete-config segment.bytes

    With more partitions a key may map to another partition than before; the order of its records
    holds only from then on.
    """
    if partitions is None and not settings and not removed:
        raise click.UsageError("nothing to change: give --partitions, --config or --delete-config")
    values = parse_name_values(settings, "--config")
    named = [*(key for key, _ in values), *removed]
    if twice := [key for key in dict.fromkeys(named) if named.count(key) > 1]:
        raise click.UsageError(f"{twice[0]} is named more than once: give each setting once")
    changes: dict[str, tuple[str, str | None]] = {key: ("SET", value) for key, value in values}
    changes |= dict.fromkeys(removed, ("DELETE", None))
    with admin(bootstrap) as client:
        if partitions is not None:
            _grow(client, bootstrap, name, partitions)
        if changes:
            _change_settings(client, bootstrap, name, changes)


@topics.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_topics)
@click.option("--if-exists", is_flag=True, help="Do not fail if the topic does not exist.")
@bootstrap_option
def delete(names: tuple[str, ...], if_exists: bool, bootstrap: str) -> None:
    """Delete topics with all their records. This cannot be undone.

    \b
      kqueue topics delete orders
      kqueue topics delete orders payments --if-exists
    """
    with admin(bootstrap) as client:
        results = client.delete_topics(list(names), raise_errors=False)["topics"]
    refused = False
    for result in results:
        name, code = result["name"], result["error_code"]
        if code == 0:
            click.echo(f"Deleted topic {name}.")
        elif code == UNKNOWN_TOPIC and if_exists:
            click.echo(f"Topic {name} does not exist.")
        else:
            refused = True
            click.echo(f"Error: {explain_topic_code(bootstrap, name, code)}", err=True)
    _exit_if(refused)


@topics.command("delete-records")
@click.argument("name", metavar="TOPIC", shell_complete=complete_topics)
@click.option(
    "--before-offset", type=int, metavar="N", help="Delete the records below this offset; -N: all but the last N."
)
@click.option("--all", "everything", is_flag=True, help="Delete all records.")
@click.option(
    "-p",
    "--partition",
    "chosen",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="P",
    help="Only in this partition; may be repeated.",
)
@bootstrap_option
def delete_records(
    name: str, before_offset: int | None, everything: bool, chosen: tuple[int, ...], bootstrap: str
) -> None:
    """Delete the oldest records of a topic; the topic stays. This cannot be undone.

    \b
      kqueue topics delete-records orders --before-offset 1000 --partition 0
      kqueue topics delete-records orders --all

    Consumers whose position is below the new log start continue as `auto.offset.reset` says.
    """
    from kafka import TopicPartition
    from kafka.errors import KafkaError

    if (before_offset is None) != everything:
        raise click.UsageError("say how far: --before-offset N, or --all")
    refused = False
    with admin(bootstrap) as client:
        for index in _chosen_partitions(client, bootstrap, name, chosen):
            try:
                partition = TopicPartition(name, index)
                response = client.delete_records({partition: _before(client, partition, before_offset)})
            except KafkaError as error:
                refused = True
                print_error(f"{name}-{index}", _REFUSED_DELETION.get(type(error).__name__) or explain(error))
            else:
                click.echo(f"{name}-{index} now starts at offset {response[partition]['low_watermark']}.")
    _exit_if(refused)


def _before(client: KafkaAdminClient, partition: Any, offset: int | None) -> int:
    """Return the offset for DeleteRecords: a negative one counts back from the end, None is all."""
    if offset is None or offset >= 0:
        return TO_THE_END if offset is None else offset
    return max(0, int(client.list_partition_offsets({partition: LATEST})[partition].offset) + offset)


def _chosen_partitions(client: KafkaAdminClient, bootstrap: str, name: str, chosen: Sequence[int]) -> Sequence[int]:
    (topic,) = client.describe_topics([name])
    if topic["error_code"] != 0:
        raise click.ClickException(explain_topic_code(bootstrap, name, topic["error_code"]))
    return chosen or sorted(partition["partition_index"] for partition in topic["partitions"])


def _grow(client: KafkaAdminClient, bootstrap: str, name: str, count: int) -> None:
    result = client.create_partitions({name: count}, raise_errors=False).results[0]
    if result.error_code != 0:
        raise click.ClickException(explain_topic_code(bootstrap, name, result.error_code, result.error_message))
    click.echo(f"Topic {name} now has {counted(count, 'partition')}.")


def _change_settings(
    client: KafkaAdminClient, bootstrap: str, name: str, changes: dict[str, tuple[str, str | None]]
) -> None:
    from kafka.admin import ConfigResource, ConfigResourceType
    from kafka.errors import IncompatibleBrokerVersion

    resource = ConfigResource(ConfigResourceType.TOPIC, name, changes)
    try:
        response = client.alter_configs([resource], raise_on_unknown=False, incremental=True)
    except IncompatibleBrokerVersion:
        raise click.ClickException(
            "this broker cannot change the settings of an existing topic (it does not serve IncrementalAlterConfigs); "
            "set them when you create the topic: kqueue topics create NAME -c SETTING=VALUE"
        ) from None
    outcome = response["topic"][name]
    if "UnknownTopicOrPartition" in outcome:
        raise click.ClickException(no_topic(bootstrap, name))
    if outcome != "OK":
        said = outcome.rpartition("Error: ")[2] or outcome
        if "TopicAuthorizationFailed" in outcome:
            said = f"{said}: {remedy_of('TOPIC_AUTHORIZATION_FAILED')}"
        raise click.ClickException(f"{name}: {said}")
    click.echo(f"Changed the settings of topic {name}: {', '.join(changes)}.")


def _exit_if(refused: bool) -> None:
    """Exit with status 1 if something was refused; everything else is done."""
    if refused:
        raise click.exceptions.Exit(1)
