"""`kqueue groups`: list, describe, reset offsets, delete; tables as kafka-consumer-groups prints
them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from kqueue.admin.group_lags import group_lags
from kqueue.admin.group_partitions import (
    SHARE,
    GroupPartition,
    SharePartition,
    group_dict,
    group_partitions,
    owners,
    share_partitions,
)
from kqueue.base.names import did_you_mean
from kqueue.cli.completion import complete_groups, complete_topics
from kqueue.cli.connect import admin, bootstrap_option, explain, explain_code, own_client
from kqueue.cli.formats import parse_time
from kqueue.cli.group_description import show
from kqueue.cli.name_suggestions import no_group, no_topic
from kqueue.cli.output import columns, output_option, print_json

if TYPE_CHECKING:
    from kafka import KafkaAdminClient, TopicPartition

    from kqueue.admin.offset_reset import ResetTarget
    from kqueue.client import Client, GroupDescription
    from kqueue.client import TopicPartition as Partition

    Offsets = dict[TopicPartition, int]

LATEST = -1


@click.group()
def groups() -> None:
    """List, describe, reset and delete groups: classic, consumer, share and streams.

    \b
      kqueue groups list
      kqueue groups describe billing
      kqueue groups reset-offsets billing --topic orders --to-earliest
      kqueue groups reset-offsets billing --topic orders --to-earliest --execute
      kqueue groups delete billing
      kqueue groups delete-offsets billing --topic orders
    """


@groups.command("list")
@click.option("--state", is_flag=True, hidden=True)  # it is shown in any case; scripts may still ask for it
@output_option
@bootstrap_option
def list_groups(state: bool, as_json: bool, bootstrap: str) -> None:
    """Print all groups with their type (classic, consumer, share or streams), state and lag.

    \b
      kqueue groups list
      kqueue groups list -o json

    LAG is the sum over all partitions of the records that the group has still to read; `-` where it
    has committed nothing, or may not be asked for its offsets.
    """
    with own_client(bootstrap) as client:
        listed = client.groups().values()
        lags = group_lags(client, listed)
    if as_json:
        print_json(
            [
                {
                    "group": group.name,
                    "type": group.type or None,
                    "state": group.state or None,
                    "protocol_type": group.protocol_type,
                    "lag": lags[group.name],
                }
                for group in listed
            ]
        )
        return
    rows = [
        (group.name, group.type or "-", group.state or "-", "-" if (lag := lags[group.name]) is None else lag)
        for group in listed
    ]
    click.echo(columns(("GROUP", "TYPE", "STATE", "LAG"), rows))


@groups.command()
@click.argument("names", nargs=-1, metavar="[GROUP]...", shell_complete=complete_groups)
@click.option("--all", "--all-groups", "everything", is_flag=True, help="Describe all groups.")
@output_option
@bootstrap_option
def describe(names: tuple[str, ...], everything: bool, as_json: bool, bootstrap: str) -> None:
    """Show offsets, lag and members of each group, of any type; of types newer than classic the
    state and epochs too.

    \b
      kqueue groups describe billing
      kqueue groups describe --all -o json

    LAG is the number of records to read: the log end offset minus the committed offset. Offsets
    that an open transaction has committed do not count before it ends; standard error names their
    partitions.

    A share group has no committed offsets: all records before START-OFFSET are done, and LAG is the
    number of those from there on that are not. A member whose EPOCH is below ASSIGNMENT-EPOCH has
    not taken over its latest assignment.
    """
    if bool(names) == everything:
        raise click.UsageError("name groups, or describe all of them with --all")
    missing = False
    described: list[dict[str, object]] = []
    with admin(bootstrap) as client, own_client(bootstrap) as own:
        listed = own.groups()
        for name in dict.fromkeys(names or listed):
            group, rows = _describe(client, own, name, listed[name].type if name in listed else "")
            if group.state == "Dead" and not rows:
                missing = True
                click.echo(f"Error: {no_group(bootstrap, name)}", err=True)
                continue
            if not as_json:
                if described:
                    click.echo()
                show(group, rows)
                _report_pending(rows)
            described.append(group_dict(group, rows))
    if as_json:
        print_json(described)
    if missing:
        raise click.exceptions.Exit(1)


@groups.command("reset-offsets")
@click.argument("group", shell_complete=complete_groups)
@click.option(
    "-t",
    "--topic",
    "topic_texts",
    multiple=True,
    metavar="TOPIC[:P,P…]",
    shell_complete=complete_topics,
    help="What to reset; may be repeated.",
)
@click.option("--all-topics", is_flag=True, help="Reset all partitions that the group has committed.")
@click.option("--to-earliest", is_flag=True, help="To the oldest record.")
@click.option("--to-latest", is_flag=True, help="To the end: only new records are read.")
@click.option("--to-offset", type=int, metavar="N", help="To this offset; -N: N before the end.")
@click.option("--to-datetime", metavar="TIME", help="To the first record of this time (ISO or milliseconds) or later.")
@click.option("--shift-by", type=int, metavar="N", help="By so many records, forward, or back if negative.")
@click.option("--execute", is_flag=True, help="Commit the new offsets; without it the command only shows them.")
@output_option
@bootstrap_option
def reset_offsets(
    group: str,
    topic_texts: tuple[str, ...],
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_datetime: str | None,
    shift_by: int | None,
    execute: bool,
    as_json: bool,
    bootstrap: str,
) -> None:
    """Change the committed offsets of GROUP, which must have no members; of a share group its start
    offsets.

    Without --execute it is a dry run: it shows the new offsets, and nothing changes.

    \b
      kqueue groups reset-offsets billing --topic orders --to-earliest
      kqueue groups reset-offsets billing --topic orders:0,2 --shift-by -10 --execute
      kqueue groups reset-offsets billing --all-topics --to-datetime 2026-01-31T12:00:00Z --execute
    """
    if bool(topic_texts) == all_topics:
        raise click.UsageError("say what to reset: --topic (once or more), or --all-topics")
    target = _target(to_earliest, to_latest, to_offset, to_datetime, shift_by)
    from kqueue.admin import offset_reset

    with own_client(bootstrap) as client:
        listing = client.groups()
        listed = listing.get(group)
        type = listed.type if listed is not None else ""
        committed = offset_reset.positions(client, group, type)
        offset_reset.check_no_members(client, group, listed)
        partitions = list(committed) if all_topics else _named_partitions(client, bootstrap, topic_texts)
        if not partitions:
            known = "" if listed is not None else f": {no_group(bootstrap, group)}"
            raise click.ClickException(f"the group {group!r} has committed nothing{known}")
        plan = offset_reset.plan_reset(client, partitions, committed, target)
        if listed is None:
            how = "this creates it" if execute else "--execute creates it"
            click.echo(f"There is no group {group!r} yet: {how}{did_you_mean(group, listing)}", err=True)
        failed = offset_reset.execute_reset(client, group, type, plan) if execute else {}
    rows = [(group, *planned.partition, planned.current, planned.new) for planned in plan]
    if as_json:
        keys = ("group", "topic", "partition", "current", "new")
        print_json(
            [
                {
                    **dict(zip(keys, row, strict=True)),
                    "executed": execute and row[1:3] not in failed,
                }
                for row in rows
            ]
        )
    else:
        head = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "NEW-OFFSET")
        click.echo(columns(head, [["-" if cell is None else cell for cell in row] for row in rows]))
    for partition, reason in failed.items():
        click.echo(f"Error: {partition.topic}-{partition.partition}: {reason}", err=True)
    if failed:
        raise click.exceptions.Exit(1)
    if not execute:
        click.echo(
            "This was a dry run: nothing has changed. The same command with --execute commits the new offsets.",
            err=True,
        )


@groups.command()
@click.argument("names", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_groups)
@bootstrap_option
def delete(names: tuple[str, ...], bootstrap: str) -> None:
    """Delete groups with what they have committed. A group with members can't be deleted.

    \b
      kqueue groups delete billing
      kqueue groups delete billing mail
    """
    from kafka import errors

    with admin(bootstrap) as client:
        outcome = client.delete_groups(list(names))
    refused = False
    for name, result in outcome.items():
        if result == "OK":
            click.echo(f"Deleted group {name}.")
        else:
            refused = True
            is_unknown = result == errors.GroupIdNotFoundError.__name__
            reason = explain(getattr(errors, result, errors.KafkaError))
            click.echo(f"Error: {no_group(bootstrap, name) if is_unknown else f'{name}: {reason}'}", err=True)
    if refused:
        raise click.exceptions.Exit(1)


@groups.command("delete-offsets")
@click.argument("group", shell_complete=complete_groups)
@click.option(
    "-t",
    "--topic",
    "topic_texts",
    multiple=True,
    required=True,
    metavar="TOPIC[:P,P…]",
    shell_complete=complete_topics,
    help="Whose offsets; may be repeated.",
)
@bootstrap_option
def delete_offsets(group: str, topic_texts: tuple[str, ...], bootstrap: str) -> None:
    """Delete what GROUP has committed for topics; the group stays. Topics that its members read are
    refused.

    \b
      kqueue groups delete-offsets billing --topic orders
      kqueue groups delete-offsets billing --topic orders:0,2 --topic payments

    A consumer of the group then begins there as its `auto.offset.reset` says. Of a share group the
    start offsets of whole topics are deleted, and it must have no members.
    """
    from kafka import TopicPartition as KafkaPartition
    from kafka.errors import NoError

    refused = False
    with admin(bootstrap) as client:
        with own_client(bootstrap) as own:
            partitions = _named_partitions(own, bootstrap, topic_texts)
            listed = own.groups().get(group)
            if listed is None:
                raise click.ClickException(no_group(bootstrap, group))
            if listed.type == SHARE:
                _delete_share_offsets(own, group, topic_texts)
                return
        committed = _committed(client, group)
        outcome = client.delete_group_offsets(group, [KafkaPartition(*partition) for partition in partitions])
        for partition, error in sorted(outcome.items()):
            if error is not NoError:
                refused = True
                click.echo(f"Error: {partition.topic}-{partition.partition}: {explain(error)}", err=True)
            elif partition in committed:
                click.echo(
                    f"Deleted the offset of {partition.topic}-{partition.partition}, which was {committed[partition]}."
                )
    if refused:
        raise click.exceptions.Exit(1)
    if not any(partition in committed for partition in outcome):
        click.echo(f"The group {group} had committed nothing there.", err=True)


def _describe(client: KafkaAdminClient, own: Client, name: str, type: str) -> tuple[GroupDescription, Sequence[Any]]:
    """Return a group and its rows. `type`: as ListGroups has it; "" of a group that it lacks."""
    from kqueue.admin.group_members import describe_group

    if type == SHARE:
        return own.describe_group(name, type), share_partitions(own.share_offsets(name))
    group = describe_group(own, name, type)
    committed = _committed(client, name)
    partitions = {*committed, *owners(group)}
    return group, group_partitions(
        group, committed, _offsets_at(client, partitions, LATEST), _pending(own, name, partitions)
    )


def _pending(own: Client, group: str, partitions: Collection[tuple[str, int]]) -> Collection[tuple[str, int]]:
    """Return the partitions for which an open transaction has an offset pending.

    kafka-python's admin client does not ask for stable offsets.
    """
    from kqueue.client import TopicPartition as Partition
    from kqueue.client.errors import IncompatibleBroker

    try:
        return own.pending_offsets(group, [Partition(*partition) for partition in partitions]) if partitions else ()
    except IncompatibleBroker:
        return ()


def _report_pending(rows: Iterable[GroupPartition | SharePartition]) -> None:
    names = [f"{row.topic}-{row.partition}" for row in rows if isinstance(row, GroupPartition) and row.is_pending]
    if names:
        click.echo(
            f"Open transactions have offsets pending for {', '.join(names)}; "
            "`kqueue transactions list --state Ongoing` shows them.",
            err=True,
        )


def _committed(client: KafkaAdminClient, group: str) -> Offsets:
    offsets = client.list_group_offsets({group: None}).get(group, {})
    return {partition: value.offset for partition, value in offsets.items() if value.offset >= 0}


def _offsets_at(client: KafkaAdminClient, partitions: Iterable[TopicPartition], spec: int) -> Offsets:
    """Return the offset of each partition for `spec`: LATEST, EARLIEST, or a time in ms.

    Deleted partitions are omitted.
    """
    known = [partition for partition in partitions if partition.partition in _partitions(client, partition.topic)]
    offsets = client.list_partition_offsets(dict.fromkeys(known, spec)) if known else {}
    return {partition: value.offset for partition, value in offsets.items()}


def _partitions(client: KafkaAdminClient, topic: str) -> set[int]:
    """Return the partitions of a topic; empty if it does not exist."""
    return {row["partition_index"] for topic_row in client.describe_topics([topic]) for row in topic_row["partitions"]}


def _target(
    to_earliest: bool, to_latest: bool, to_offset: int | None, to_datetime: str | None, shift_by: int | None
) -> ResetTarget:
    """Return where to move the offsets. Raises UsageError: not exactly one option."""
    from kqueue.admin.offset_reset import ResetKind, ResetTarget

    chosen: list[ResetTarget] = []
    if to_earliest:
        chosen.append(ResetTarget(ResetKind.EARLIEST))
    if to_latest:
        chosen.append(ResetTarget(ResetKind.LATEST))
    if to_offset is not None:
        chosen.append(ResetTarget(ResetKind.OFFSET, to_offset))
    if to_datetime is not None:
        chosen.append(ResetTarget(ResetKind.TIME, _parsed_time(to_datetime)))
    if shift_by is not None:
        chosen.append(ResetTarget(ResetKind.SHIFT, shift_by))
    if len(chosen) != 1:
        raise click.UsageError("choose one of --to-earliest, --to-latest, --to-offset, --to-datetime, --shift-by")
    return chosen[0]


def _parsed_time(text: str) -> int:
    try:
        return parse_time(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--to-datetime") from None


def _named_partitions(client: Client, bootstrap: str, texts: Iterable[str]) -> list[Partition]:
    """Return the partitions of ``topic`` or ``topic:0,2`` texts.

    Raises: BadParameter or ClickException: a topic or partition does not exist.
    """
    from kqueue.client import TopicPartition as Partition

    topics = client.metadata().topics
    partitions = []
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if topic not in topics:
            raise click.ClickException(no_topic(bootstrap, topic))
        existing = topics[topic].partitions
        if colon and not all(number.isdecimal() and int(number) in existing for number in numbers.split(",")):
            raise click.BadParameter(
                f"{text!r}: {topic} has the partitions 0 to {len(existing) - 1}", param_hint="--topic"
            )
        partitions += [
            Partition(topic, number) for number in (map(int, numbers.split(",")) if colon else sorted(existing))
        ]
    return partitions


def _delete_share_offsets(own: Client, group: str, topics: Iterable[str]) -> None:
    """Delete the start offsets of topics.

    Raises: UsageError: a partition is named. Exit: a topic is refused.
    """
    if named := [text for text in topics if ":" in text]:
        raise click.UsageError(f"{named[0]}: the offsets of a share group are deleted for whole topics: leave out :P")
    outcome = own.delete_share_offsets(group, topics)
    for topic, refusal in outcome.items():
        if refusal.code:
            click.echo(f"Error: {topic}: {explain_code(refusal.code, refusal.message)}", err=True)
        else:
            click.echo(f"Deleted the start offsets of {topic}.")
    if any(refusal.code for refusal in outcome.values()):
        raise click.exceptions.Exit(1)
