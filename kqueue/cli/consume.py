"""`kqueue consume`: prints records as lines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from kqueue.cli.broker_wait import await_broker, waiting
from kqueue.cli.completion import complete_groups, complete_topics
from kqueue.cli.connect import (
    addresses,
    bootstrap_option,
    checked_topic,
    client_access,
    client_arguments,
    plain_errors,
    require_client,
)
from kqueue.cli.console_schemas import registry_options
from kqueue.cli.formats import formatter, parse_time
from kqueue.cli.name_suggestions import no_topic
from kqueue.cli.signals import stop_on_signal
from kqueue.cli.topic_reader import ReaderLimits, Start, TopicReader

if TYPE_CHECKING:
    from kqueue.console.messages.schema_values import SchemaSettings


@click.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "-g",
    "--group",
    shell_complete=complete_groups,
    help="Read as a member of this consumer group, and commit what is printed. Without it the command reads all "
    "partitions, joins no group and commits nothing.",
)
@click.option("--from-beginning", is_flag=True, help="Start at the oldest record, whatever the group has committed.")
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(min=0),
    metavar="N",
    multiple=True,
    help="Read only this partition; may be repeated.",
)
@click.option(
    "-o",
    "--offset",
    metavar="[-]N|earliest|latest",
    help="Where to start in --partition; -N: the last N.  [default: latest]",
)
@click.option(
    "--timestamp", metavar="TIME", help="Start at the first record of this time (ISO or milliseconds) or later."
)
@click.option("-n", "--max-messages", type=click.IntRange(min=1), metavar="N", help="End after so many records.")
@click.option("-e", "--exit-eof", is_flag=True, help="End when all partitions are read to their present end.")
@click.option(
    "--timeout-ms", type=click.IntRange(min=1), metavar="N", help="End when no record has arrived for so long."
)
@click.option(
    "--format", "form", default="value", show_default=True, help="value, json, or a template such as '{key}={value}'."
)
@click.option("--read-committed", is_flag=True, help="Skip records of open and aborted transactions.")
@registry_options
@bootstrap_option
def consume(
    topic: str,
    group: str | None,
    from_beginning: bool,
    partitions: tuple[int, ...],
    offset: str | None,
    timestamp: str | None,
    max_messages: int | None,
    exit_eof: bool,
    timeout_ms: int | None,
    form: str,
    read_committed: bool,
    schemas: SchemaSettings | None,
    bootstrap: str,
) -> None:
    """Print the records of TOPIC, one per line, until Ctrl-C.

    \b
      kqueue consume orders --from-beginning
      kqueue consume orders --from-beginning --exit-eof --format json > orders.jsonl
      kqueue consume orders --group billing --format '{partition}:{offset} {key}={value} {headers}'
      kqueue consume orders --partition 0 --offset 100 --max-messages 5 --format json
      kqueue consume orders --timestamp 2026-01-31T12:00:00Z --timeout-ms 2000
      kqueue consume orders --from-beginning --schema-registry http://localhost:8081

    Without --group it starts at the end of the topic unless an option says otherwise. Consumers of
    one group share the records. A group resumes after the last printed record, which is committed;
    a new group starts at the end.

    With --schema-registry, keys and values that were written by its schemas (Avro, Protobuf, JSON
    Schema) are printed as JSON.

    Template fields: {topic} {partition} {offset} {timestamp} {time} {key} {value} {headers}, \\t
    and \\n.
    """
    checked_topic(topic)
    write = _checked(formatter, form, "--format")
    at_ms = _checked(parse_time, timestamp, "--timestamp") if timestamp is not None else None
    start = _start_of(offset)
    _check_start(group, from_beginning, partitions, offset, timestamp)
    require_client()
    addresses(bootstrap)
    if schemas is not None:
        from kqueue.cli.decoded_records import RecordDecoder

        write = RecordDecoder(schemas).writing(write)
    reader = TopicReader(
        topic,
        write,
        sys.stdout.buffer,
        ReaderLimits(max_messages, timeout_ms, exit_eof=exit_eof),
        missing=lambda: no_topic(bootstrap, topic),
    )
    options = _client_options(bootstrap, group, read_committed)
    with plain_errors(bootstrap), waiting(bootstrap):
        response_ms = await_broker(bootstrap, client_access().timeout_s)
        reader.open({**options, "bootstrap_timeout_ms": response_ms})
    with plain_errors(bootstrap), stop_on_signal(reader.stop):
        try:
            if group is None:
                reader.assign(partitions, "earliest" if from_beginning else start, at_ms)
            else:
                reader.subscribe("earliest" if from_beginning else None, at_ms)
            _hint(topic, group)
            reader.run()
        finally:
            reader.close()


def _checked(parse: Callable[[str], Any], text: str, option: str) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


def _check_start(
    group: str | None, from_beginning: bool, partitions: tuple[int, ...], offset: str | None, timestamp: str | None
) -> None:
    if partitions and group is not None:
        raise click.UsageError("--partition reads in no group: leave out --group")
    if offset is not None and not partitions:
        raise click.UsageError(
            "--offset needs --partition (for all partitions there are --from-beginning and --timestamp)"
        )
    if sum((from_beginning, offset is not None, timestamp is not None)) > 1:
        raise click.UsageError("--from-beginning, --offset and --timestamp exclude each other")
    if from_beginning and partitions:
        raise click.UsageError("with --partition write --offset earliest instead of --from-beginning")


def _start_of(offset: str | None) -> Start:
    if offset is None or offset in ("earliest", "latest"):
        return offset or "latest"
    if not offset.removeprefix("-").isdecimal():
        hint = " (--format json prints records as JSON)" if offset == "json" else ""
        raise click.BadParameter(
            f"{offset!r} is no offset; write a number, earliest or latest{hint}", param_hint="--offset"
        )
    return int(offset)


def _client_options(bootstrap: str, group: str | None, read_committed: bool) -> dict[str, Any]:
    return {
        "bootstrap_servers": bootstrap.split(","),
        "client_id": "kqueue-consume",
        "group_id": group,
        "auto_offset_reset": "latest",
        "enable_auto_commit": False,  # printed records are committed, not fetched ones
        "allow_auto_create_topics": False,
        "isolation_level": "read_committed" if read_committed else "read_uncommitted",
        "metrics_enabled": False,
        **client_arguments(),
    }


def _hint(topic: str, group: str | None) -> None:
    """Write a notice to a terminal while no record has arrived."""
    if sys.stderr.isatty():
        membership = "without a group" if group is None else f"in the group {group}"
        click.echo(f"Reading {topic} {membership}; Ctrl-C ends.", err=True)
