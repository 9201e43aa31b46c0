"""`kqueue cluster elect` and `kqueue cluster unregister`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

import click

from kqueue.base.text import counted
from kqueue.cli.completion import complete_topics
from kqueue.cli.connect import bootstrap_option, explain_code, own_client
from kqueue.cli.reassignment_plan import read_json, rows_of

if TYPE_CHECKING:
    from kqueue.client import Refusal, TopicPartition

ELECTION_NOT_NEEDED = 84


@click.command()
@click.option(
    "--type",
    "election",
    type=click.Choice(["preferred", "unclean"]),
    default="preferred",
    show_default=True,
    help="preferred: the first replica of each partition. unclean: of a partition without a leader any replica "
    "that is there; records that it lacks are lost.",
)
@click.option("-t", "--topic", shell_complete=complete_topics, help="Only the partitions of this topic.")
@click.option("-p", "--partition", type=click.IntRange(min=0), multiple=True, help="Only this one; may be repeated.")
@click.option("--all", "everything", is_flag=True, help="All partitions that need an election.")
@click.option(
    "-f",
    "--file",
    "stream",
    type=click.File(),
    help='Partitions in the JSON of kafka-leader-election: {"partitions": [{"topic": "orders", "partition": 0}]}.',
)
@bootstrap_option
def elect(
    election: str,
    topic: str | None,
    partition: tuple[int, ...],
    everything: bool,
    stream: TextIO | None,
    bootstrap: str,
) -> None:
    """Have leaders of partitions elected.

    \b
      kqueue cluster elect --all
      kqueue cluster elect --topic orders --partition 0
      kqueue cluster elect --type unclean --topic orders --partition 0

    An unclean election makes a partition available again when none of its in-sync replicas will
    come back. What only they had is lost.
    """
    if sum((topic is not None, everything, stream is not None)) != 1:
        raise click.UsageError("say of which partitions: --topic, --file, or --all")
    if partition and topic is None:
        raise click.UsageError("--partition needs --topic")
    from kqueue.client import ElectionType, TopicPartition

    with own_client(bootstrap) as client:
        wanted: list[TopicPartition] | None = None
        if stream is not None:
            wanted = _read_partitions(stream)
        elif topic is not None:
            described = client.metadata([topic]).topics[topic]
            wanted = [TopicPartition(topic, index) for index in partition] or described.topic_partitions
        outcomes = client.cluster.elect_leaders(wanted, election_type=ElectionType[election.upper()])
    _print_outcomes(election.upper(), outcomes)


@click.command()
@click.argument("broker", type=click.IntRange(min=0))
@bootstrap_option
def unregister(broker: int, bootstrap: str) -> None:
    """Remove a broker that is gone for good, by its id.

    \b
      kqueue cluster unregister 3

    It must be stopped. Its replicas stay where they are assigned: move them to other brokers first,
    with `kqueue cluster reassign`.
    """
    with own_client(bootstrap) as client:
        client.cluster.unregister_broker(broker)
        topics = client.metadata().topics.values()
    click.echo(f"Broker {broker} is no longer registered.")
    left = sum(broker in partition.replicas for topic in topics for partition in topic.partitions.values())
    if left:
        click.echo(
            f"It has replicas of {counted(left, 'partition')} still: move them with `kqueue cluster reassign`.",
            err=True,
        )


def _read_partitions(stream: TextIO) -> list[TopicPartition]:
    from kqueue.client import TopicPartition

    rows = rows_of(read_json(stream, "list of partitions"), "partitions", stream)
    try:
        return [TopicPartition(str(row["topic"]), int(row["partition"])) for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise click.ClickException(f"{stream.name}: expected a topic and a partition in each row: {error!r}") from None


def _print_outcomes(election: str, outcomes: dict[TopicPartition, Refusal]) -> None:
    """Print the lines of kafka-leader-election. Exits with 1 if a partition got no leader."""
    elected = [one for one, refusal in outcomes.items() if refusal.code == 0]
    unneeded = [one for one, refusal in outcomes.items() if refusal.code == ELECTION_NOT_NEEDED]
    if elected:
        click.echo(f"Successfully completed leader election ({election}) for partitions {_names(elected)}")
    if unneeded:
        click.echo(f"Valid replica already elected for partitions {_names(unneeded)}")
    if not outcomes:
        click.echo("No partition needs an election.")
    failed = {one: refusal for one, refusal in outcomes.items() if refusal.code not in (0, ELECTION_NOT_NEEDED)}
    for one, (code, message) in sorted(failed.items()):
        click.echo(
            f"Error completing leader election ({election}) for partition: {one}: {explain_code(code, message)}",
            err=True,
        )
    if failed:
        raise click.exceptions.Exit(1)


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions)))
