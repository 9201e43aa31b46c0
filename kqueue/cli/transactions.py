"""`kqueue transactions`: list, describe, abort, and find those that hang; as kafka-transactions
does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from kqueue.admin.transaction_states import (
    GRACE_MINUTES,
    MAX_TIMEOUT_MINUTES,
    MS_PER_MINUTE,
    OPEN_STATES,
    STATES,
    is_missing,
)
from kqueue.base.clock import wall_ms
from kqueue.base.errors import KqueueError
from kqueue.base.names import did_you_mean
from kqueue.base.patterns import compile_pattern
from kqueue.base.terminal import one_line
from kqueue.base.text import counted
from kqueue.cli.completion import complete_topics
from kqueue.cli.connect import bootstrap_option, own_client
from kqueue.cli.formats import time_text
from kqueue.cli.output import columns, output_option, print_json

if TYPE_CHECKING:
    from kqueue.admin.hanging_transactions import HangingTransaction
    from kqueue.client import AbortMarker, Client, TopicPartition, TransactionDescription

UNKNOWN = -1


@click.group()
def transactions() -> None:
    """List, describe and abort transactions; find those that hang.

    \b
      kqueue transactions list
      kqueue transactions list --state Ongoing --duration-filter 60000
      kqueue transactions describe billing-1
      kqueue transactions describe-producers orders
      kqueue transactions find-hanging
      kqueue transactions abort --transactional-id billing-1
      kqueue transactions abort --topic orders --partition 0 --start-offset 4711

    Consumers with isolation.level=read_committed read a partition up to its first open transaction.
    A coordinator aborts a transaction at its timeout. A hanging transaction is open in a partition
    and unknown to its coordinator; it blocks those consumers until it is aborted by hand.
    """


@transactions.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    metavar="STATE",
    help=f"Only in this state; may be repeated: {', '.join(STATES)}.",
)
@click.option(
    "--producer-id", "producer_ids", multiple=True, type=int, metavar="ID", help="Only of this; may be repeated."
)
@click.option(
    "--duration-filter",
    "running_ms",
    type=click.IntRange(min=0),
    metavar="MS",
    help="Only transactions that have been open for longer (Kafka 3.8 and later).",
)
@click.option(
    "--transactional-id-pattern",
    "--pattern",
    "pattern",
    metavar="REGEX",
    help="Only ids that match as a whole.",
)
@output_option
@bootstrap_option
def list_transactions(
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    running_ms: int | None,
    pattern: str | None,
    as_json: bool,
    bootstrap: str,
) -> None:
    """List the transactional ids of the cluster. Filters of different kinds must all match.

    \b
      kqueue transactions list
      kqueue transactions list --state Ongoing --state PrepareCommit
      kqueue transactions list --duration-filter 60000
      kqueue transactions list --pattern 'billing-.*' -o json
    """
    regex = _compiled(pattern or ".*")
    with own_client(bootstrap) as client:
        listings = client.transactions.find(states, producer_ids, running_ms=running_ms, pattern=regex)
    rows = sorted((*listing, coordinator) for coordinator, listed in listings.items() for listing in listed)
    if as_json:
        keys = ("transactional_id", "producer_id", "state", "coordinator")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
    else:
        order = [(id, coordinator, producer, state) for id, producer, state, coordinator in rows]
        click.echo(columns(("TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE"), order))
        if not order:
            is_filtered = states or producer_ids or running_ms is not None or pattern
            click.echo(f"There is no transactional id{' that matches' if is_filtered else ''}.", err=True)


@transactions.command()
@click.argument("ids", nargs=-1, metavar="TRANSACTIONAL-ID...")
@click.option("--transactional-id", "more_ids", multiple=True, metavar="ID", help="The same, as kafka-transactions.")
@output_option
@bootstrap_option
def describe(ids: tuple[str, ...], more_ids: tuple[str, ...], as_json: bool, bootstrap: str) -> None:
    """Show the state of transactional ids: producer, timeout, duration, partitions.

    \b
      kqueue transactions describe billing-1
      kqueue transactions describe billing-1 billing-2 -o json
    """
    ids = tuple(dict.fromkeys((*ids, *more_ids)))
    if not ids:
        raise click.UsageError("name at least one transactional id; `kqueue transactions list` shows all")
    described: list[TransactionDescription] = []
    failed = []
    with own_client(bootstrap) as client:
        for transactional_id in ids:
            try:
                described.append(client.transactions.describe(transactional_id))
            except KqueueError as error:
                if not is_missing(error):
                    raise
                failed.append(transactional_id)
    now_ms = _now_ms()
    if as_json:
        print_json([_description(description, now_ms) for description in described])
    else:
        click.echo("\n\n".join(_described_text(description, now_ms) for description in described), nl=bool(described))
    for transactional_id in failed:
        click.echo(f"Error: {_missing_text(transactional_id)}", err=True)
    if failed:
        raise click.exceptions.Exit(1)


@transactions.command("describe-producers")
@click.argument("partition_texts", nargs=-1, required=True, metavar="TOPIC[:P,P…]...", shell_complete=complete_topics)
@output_option
@bootstrap_option
def describe_producers(partition_texts: tuple[str, ...], as_json: bool, bootstrap: str) -> None:
    """Show what partitions know of producers, with the start of each open transaction.

    \b
      kqueue transactions describe-producers orders
      kqueue transactions describe-producers orders:0,2 payments
    """
    with own_client(bootstrap) as client:
        by_partition = client.transactions.producers(_partitions(client, partition_texts))
    rows = [(*partition, *producer) for partition, producers in sorted(by_partition.items()) for producer in producers]
    if as_json:
        keys = (
            *("topic", "partition", "producer_id", "producer_epoch", "last_sequence", "last_timestamp"),
            *("coordinator_epoch", "transaction_start_offset"),
        )
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    head = (
        *("TOPIC", "PARTITION", "PRODUCER-ID", "EPOCH", "LAST-SEQUENCE", "LAST-TIMESTAMP"),
        *("COORDINATOR-EPOCH", "TRANSACTION-START-OFFSET"),
    )
    cells = [[*row[:5], time_text(row[5]), *row[6:]] for row in rows]
    click.echo(columns(head, [["-" if cell in (None, -1) else cell for cell in row] for row in cells]))
    if not rows:
        click.echo(f"No producer with an id wrote to {counted(len(by_partition), 'partition')} of late.", err=True)


@transactions.command()
@click.option("--transactional-id", metavar="ID", help="Abort its open transaction, and fence its producer.")
@click.option(
    "-t",
    "--topic",
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Write an abort marker to a partition of this topic.",
)
@click.option("-p", "--partition", type=click.IntRange(min=0), metavar="N", help="The partition.")
@click.option("--start-offset", type=click.IntRange(min=0), metavar="N", help="First offset of the transaction.")
@click.option("--producer-id", type=int, metavar="ID", help="Instead of --start-offset, with both epochs.")
@click.option("--producer-epoch", type=int, metavar="N", help="Epoch of that producer.")
@click.option("--coordinator-epoch", type=int, metavar="N", help="Last epoch of its coordinator in the partition.")
@bootstrap_option
def abort(
    transactional_id: str | None,
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    bootstrap: str,
) -> None:
    """Abort a transaction: at its coordinator, or, if it hangs, in one partition.

    \b
      kqueue transactions abort --transactional-id billing-1
      kqueue transactions abort --topic orders --partition 0 --start-offset 4711

    With --transactional-id the coordinator aborts the open transaction in all partitions, and
    refuses the producer that began it; a new producer with this id can begin another.

    With --topic and --partition an abort marker is written to that partition, past the coordinator:
    only for hanging transactions, which `kqueue transactions find-hanging` shows. A transaction
    that its coordinator knows would lose records in this partition alone. --start-offset finds the
    producer; before Kafka 2.8 give --producer-id, --producer-epoch and --coordinator-epoch.
    """
    by_producer = (producer_id, producer_epoch, coordinator_epoch)
    if transactional_id is not None:
        if any(value is not None for value in (topic, partition, start_offset, *by_producer)):
            raise click.UsageError("--transactional-id stands alone: the coordinator knows the partitions")
        with own_client(bootstrap) as client:
            was_open = _has_transaction(client, transactional_id)
            fenced = client.transactions.fence(transactional_id)
        done = f"Aborted the transaction of {transactional_id}" if was_open else f"{transactional_id} had none open"
        click.echo(f"{done}; its producer is fenced: id {fenced.id}, epoch {fenced.epoch} now.")
        return
    if topic is None or partition is None:
        raise click.UsageError("say what to abort: --transactional-id, or --topic and --partition")
    if (start_offset is None) == (None in by_producer) or (
        start_offset is not None and any(value is not None for value in by_producer)
    ):
        raise click.UsageError("give either --start-offset, or --producer-id, --producer-epoch and --coordinator-epoch")
    with own_client(bootstrap) as client:
        [topic_partition] = _partitions(client, [f"{topic}:{partition}"])
        marker = _marker(client, topic_partition, start_offset, by_producer)
        client.transactions.abort({topic_partition: marker})
    click.echo(f"Aborted the transaction of producer {marker.producer_id} in {topic_partition}.")


@transactions.command("find-hanging")
@click.option("--broker-id", type=click.IntRange(min=0), metavar="ID", help="Only partitions that this broker leads.")
@click.option("-t", "--topic", "topic", metavar="TOPIC", shell_complete=complete_topics, help="Only this topic.")
@click.option("-p", "--partition", type=click.IntRange(min=0), metavar="N", help="Only this partition of --topic.")
@click.option(
    "--max-transaction-timeout",
    "timeout_minutes",
    type=click.IntRange(min=0),
    default=MAX_TIMEOUT_MINUTES,
    show_default=True,
    metavar="MINUTES",
    help="Longest transaction timeout that the cluster allows (transaction.max.timeout.ms).",
)
@output_option
@bootstrap_option
def find_hanging(
    broker_id: int | None,
    topic: str | None,
    partition: int | None,
    timeout_minutes: int,
    as_json: bool,
    bootstrap: str,
) -> None:
    """Find transactions that are open in a partition and unknown to their coordinator.

    \b
      kqueue transactions find-hanging
      kqueue transactions find-hanging --topic orders
      kqueue transactions find-hanging --broker-id 1 --max-transaction-timeout 60

    Candidates are open, and silent for the maximum timeout and 5 more minutes. One hangs if no
    coordinator has its producer id, or its coordinator does not count the partition to the
    transaction. The exit status is 1 if any is found.
    """
    if partition is not None and topic is None:
        raise click.UsageError("--partition needs --topic")
    from kqueue.admin.hanging_transactions import find_hanging_transactions

    with own_client(bootstrap) as client:
        partitions = _searched(client, broker_id, topic, partition)
        oldest_ms = _now_ms() - (timeout_minutes + GRACE_MINUTES) * MS_PER_MINUTE
        hanging = find_hanging_transactions(client, partitions, oldest_ms)
    if as_json:
        print_json([each.as_dict() for each in hanging])
    elif hanging:
        click.echo(columns(HANGING_HEAD, [_cells(each, _now_ms()) for each in hanging]))
    if not hanging:
        click.echo(f"No transaction hangs in {counted(len(partitions), 'partition')}.", err=True)
        return
    first = hanging[0]
    click.echo(
        f"Error: {counted(len(hanging), 'transaction')} hanging; abort one with `kqueue transactions abort "
        f"--topic {first.partition.topic} --partition {first.partition.partition} "
        f"--start-offset {first.producer.transaction_start}`",
        err=True,
    )
    raise click.exceptions.Exit(1)


HANGING_HEAD = (
    *("TOPIC", "PARTITION", "PRODUCER-ID", "PRODUCER-EPOCH", "COORDINATOR-EPOCH", "START-OFFSET"),
    *("LAST-TIMESTAMP", "SILENT-MINUTES"),
)


def _cells(hanging: HangingTransaction, now_ms: int) -> list[object]:
    """Return a hanging transaction as cells of a table."""
    silent_minutes = (now_ms - hanging.producer.last_timestamp_ms) // MS_PER_MINUTE
    return [*list(hanging.as_dict().values())[:-1], time_text(hanging.producer.last_timestamp_ms), silent_minutes]


def _searched(client: Client, broker_id: int | None, topic: str | None, partition: int | None) -> list[TopicPartition]:
    if topic is not None:
        partitions = _partitions(client, [topic if partition is None else f"{topic}:{partition}"])
    else:
        topics = client.metadata().topics.values()
        partitions = [topic_partition for known_topic in topics for topic_partition in known_topic.topic_partitions]
    if broker_id is None:
        return partitions
    metadata = client.metadata({partition.topic for partition in partitions})
    if broker_id not in metadata.brokers:
        brokers = ", ".join(map(str, sorted(metadata.brokers)))
        raise click.BadParameter(f"{broker_id}: the cluster has the brokers {brokers}", param_hint="--broker-id")
    return [
        partition
        for partition in partitions
        if metadata.topics[partition.topic].partitions[partition.partition].leader == broker_id
    ]


def _partitions(client: Client, texts: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions of ``topic`` or ``topic:0,2`` texts. Raises: ClickException."""
    from kqueue.client import TopicPartition

    named = [text.partition(":") for text in texts]
    topics = client.metadata().topics
    partitions: list[TopicPartition] = []
    for name, colon, numbers in named:
        if name not in topics:
            remedy = did_you_mean(name, topics) or "; `kqueue topics list` shows all topics"
            raise click.ClickException(f"there is no topic {name!r}{remedy}")
        existing = sorted(topics[name].partitions)
        chosen = numbers.split(",") if colon else [str(number) for number in existing]
        if not all(number.isdecimal() and int(number) in existing for number in chosen):
            have = "only partition 0" if len(existing) == 1 else f"the partitions 0 to {existing[-1]}"
            raise click.ClickException(f"{name} has {have}, found {numbers!r}")
        partitions += [TopicPartition(name, int(number)) for number in chosen]
    return list(dict.fromkeys(partitions))


def _has_transaction(client: Client, transactional_id: str) -> bool:
    """Return whether a transaction is open; also if the broker can't say (before Kafka 3.0).

    Raises: ClickException: no such id. Fencing would create it.
    """
    from kqueue.client.errors import IncompatibleBroker

    try:
        return client.transactions.describe(transactional_id).state in OPEN_STATES
    except IncompatibleBroker:
        return True
    except KqueueError as error:
        if not is_missing(error):
            raise
        raise click.ClickException(_missing_text(transactional_id)) from None


def _missing_text(transactional_id: str) -> str:
    return f"there is no transactional id {transactional_id!r}; `kqueue transactions list` shows all"


def _marker(
    client: Client,
    partition: TopicPartition,
    start_offset: int | None,
    by_producer: tuple[int | None, int | None, int | None],
) -> AbortMarker:
    from kqueue.admin.hanging_transactions import abort_marker
    from kqueue.client import AbortMarker

    if start_offset is None:
        return AbortMarker(*(UNKNOWN if value is None else value for value in by_producer))  # checked before
    producers = client.transactions.producers([partition])[partition]
    for producer in producers:
        if producer.transaction_start == start_offset:
            return abort_marker(producer)
    starts = sorted(producer.transaction_start for producer in producers if producer.transaction_start is not None)
    known = f"open ones start at {', '.join(map(str, starts))}" if starts else "none is open there"
    raise click.ClickException(f"no transaction in {partition} starts at offset {start_offset}; {known}")


def _description(transaction: TransactionDescription, now_ms: int) -> dict[str, Any]:
    is_open = transaction.state in OPEN_STATES  # the start of the last one is kept after its end
    return {
        "transactional_id": transaction.transactional_id,
        "state": transaction.state,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "timeout_ms": transaction.timeout_ms,
        "start_ms": transaction.start_ms,
        "duration_ms": None if transaction.start_ms is None or not is_open else max(now_ms - transaction.start_ms, 0),
        "partitions": [{"topic": topic, "partition": index} for topic, index in transaction.partitions],
    }


def _described_text(transaction: TransactionDescription, now_ms: int) -> str:
    fields = _description(transaction, now_ms)
    fields["start_ms"] = None if transaction.start_ms is None else time_text(transaction.start_ms)
    fields["partitions"] = ", ".join(map(str, transaction.partitions)) or "-"
    named = {"start" if name == "start_ms" else name: value for name, value in fields.items()}
    width = max(map(len, named))
    return "\n".join(
        f"{name:<{width}}  {'-' if value is None else one_line(str(value))}" for name, value in named.items()
    )


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return compile_pattern(pattern, re.DOTALL)
    except re.error as error:
        raise click.BadParameter(f"{pattern!r} is no regular expression: {error}", param_hint="--pattern") from None


def _now_ms() -> int:
    return wall_ms()
