"""`kqueue cluster reassign`: move partitions to other brokers, in the formats of
kafka-reassign-partitions.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TextIO

import click

from kqueue.base.errors import InvalidReplicationFactor
from kqueue.cli.completion import complete_topics
from kqueue.cli.connect import bootstrap_option, explain_code, own_client
from kqueue.cli.output import Counter, columns, output_option, print_json
from kqueue.cli.reassignment_plan import Plan, plan_document, plan_text, read_json, read_plan, rows_of
from kqueue.cli.replication_throttles import clear_throttles, set_throttles
from kqueue.replication.rebalancing import rebalance

if TYPE_CHECKING:
    from kqueue.client import Client, ClusterDescription, Reassignment, TopicPartition

NOT_IN_PROGRESS = 85
POLL_S = 0.5
COMPLETED = "completed"
IN_PROGRESS = "in progress"
DIFFERENT = "different"
preserve_option = click.option("--preserve-throttles", is_flag=True, help="Leave the throttles of moves as they are.")


@click.group()
def reassign() -> None:
    """Move partitions to other brokers: to fill a new one, or to empty one that retires.

    \b
      kqueue cluster reassign plan --brokers 1,2,4 --file plan.json
      kqueue cluster reassign run plan.json --wait
      kqueue cluster reassign verify plan.json
      kqueue cluster reassign cancel plan.json

    The brokers copy in the background, and clients go on. A plan is the JSON of
    kafka-reassign-partitions.
    """


@reassign.command()
@click.option("--brokers", required=True, metavar="ID,ID,…", help="The brokers that are to hold the partitions.")
@click.option(
    "-t", "--topic", "names", multiple=True, shell_complete=complete_topics, help="Only this topic; may be repeated."
)
@click.option(
    "--topics-file",
    "stream",
    type=click.File(),
    help='Topics in the JSON of kafka-reassign-partitions: {"version": 1, "topics": [{"topic": "orders"}]}.',
)
@click.option("-r", "--replication-factor", "factor", type=click.IntRange(min=1), help="Change the number of replicas.")
@click.option("-f", "--file", "output", type=click.File("w"), help="Write the proposed plan to this file, too.")
@output_option
@bootstrap_option
def plan(
    brokers: str,
    names: tuple[str, ...],
    stream: TextIO | None,
    factor: int | None,
    output: TextIO | None,
    as_json: bool,
    bootstrap: str,
) -> None:
    """Propose replicas on these brokers for all partitions; move nothing.

    \b
      kqueue cluster reassign plan --brokers 1,2,4 --file plan.json
      kqueue cluster reassign plan --brokers 1,2,3 --topic orders --replication-factor 3

    Leaders and replicas are spread evenly, and few replicas move: those of other brokers, and what
    a broker has too much of. A move leaves no partition in fewer racks. The same question has the
    same answer.
    """
    with own_client(bootstrap) as client:
        cluster = client.cluster.describe()
        racks = _racks(brokers, cluster)
        wanted = list(dict.fromkeys([*names, *(_topics_in(stream) if stream is not None else ())]))
        topics = client.metadata(wanted or None).topics
    current = {
        one: topic.partitions[one.partition].replicas for topic in topics.values() for one in topic.topic_partitions
    }
    factors = {
        topic.name: factor or max((len(row.replicas) for row in topic.partitions.values()), default=1)
        for topic in topics.values()
    }
    try:
        placed = rebalance(racks, {(one.topic, one.partition): row for one, row in current.items()}, factors)
    except InvalidReplicationFactor as error:
        raise click.ClickException(str(error)) from None
    proposed: Plan = {one: placed[one.topic, one.partition] for one in current}
    if output is not None:
        output.write(plan_text(proposed) + "\n")
    if as_json:
        print_json({"current": plan_document(current), "proposed": plan_document(proposed)})
        return
    click.echo(f"Current partition replica assignment\n{plan_text(current)}\n")
    click.echo(f"Proposed partition reassignment configuration\n{plan_text(proposed)}")


def _racks(text: str, cluster: ClusterDescription) -> dict[int, str | None]:
    """Parse ids of brokers; return the rack of each.

    Raises: BadParameter: one is no id, is unknown, or is fenced.
    """
    try:
        ids = [int(part) for part in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r}: write ids with commas between", param_hint="--brokers") from None
    for id in ids:
        if id not in cluster.brokers or id in cluster.fenced:
            what = "is fenced: start it first" if id in cluster.fenced else "is not registered"
            known = ", ".join(str(known) for known in cluster.brokers if known not in cluster.fenced)
            raise click.BadParameter(f"broker {id} {what}; brokers that serve: {known}", param_hint="--brokers")
    return {id: cluster.brokers[id].rack for id in ids}


def _topics_in(stream: TextIO) -> list[str]:
    rows = rows_of(read_json(stream, "list of topics"), "topics", stream)
    try:
        return [str(row["topic"]) for row in rows]
    except (KeyError, TypeError) as error:
        raise click.ClickException(f"{stream.name}: expected a topic in each row: {error!r}") from None


@reassign.command()
@click.argument("stream", metavar="PLAN", type=click.File())
@click.option("--wait", is_flag=True, help="Return when all partitions are moved; show how many are.")
@click.option(
    "--throttle",
    type=click.IntRange(min=0),
    metavar="BYTES",
    help="Copy at most so many bytes per second from and to each broker; `verify` removes it.",
)
@bootstrap_option
def run(stream: TextIO, wait: bool, throttle: int | None, bootstrap: str) -> None:
    """Begin the moves of a plan, a file or - for standard input.

    \b
      kqueue cluster reassign run plan.json
      kqueue cluster reassign run - --wait < plan.json
      kqueue cluster reassign run plan.json --throttle 50000000

    It prints where the partitions are now, as a plan that moves them back. With --wait, Ctrl-C ends
    the command and not the moves. With --throttle, run `verify` until all are moved: it removes the
    throttle. To change it while they move, run the same plan with another one.
    """
    wanted = read_plan(stream)
    with own_client(bootstrap) as client:
        before = _current(client, wanted)
        click.echo(f"Current partition replica assignment\n\n{plan_text(before)}\n")
        click.echo("Save this to use as the --reassignment-json-file option during rollback")
        if throttle is not None:
            click.echo(
                "Warning: You must run --verify periodically, until the reassignment completes, to ensure the "
                "throttle is removed."
            )
            set_throttles(client, _moves(client, before, wanted), throttle)
            click.echo(f"The inter-broker throttle limit was set to {throttle} B/s")
        refused = client.cluster.reassign(wanted)
        for partition, (code, message) in sorted(refused.items()):
            click.echo(f"Error: {partition}: {explain_code(code, message)}", err=True)
        started = [partition for partition in wanted if partition not in refused]
        if started:
            click.echo(f"Successfully started partition reassignment{_s(started)} for {_names(started)}")
        if wait and started:
            _wait(client, {partition: wanted[partition] for partition in started})
            rows = [(partition, _ids(before[partition]), _ids(wanted[partition])) for partition in sorted(started)]
            click.echo("\n" + columns(("PARTITION", "BEFORE", "NOW"), rows))
    if refused:
        raise click.exceptions.Exit(1)


@reassign.command()
@click.argument("stream", metavar="PLAN", type=click.File())
@output_option
@preserve_option
@bootstrap_option
def verify(stream: TextIO, as_json: bool, preserve_throttles: bool, bootstrap: str) -> None:
    """Say of each partition of a plan whether it is moved. The exit status is 1 if one is not.

    \b
      kqueue cluster reassign verify plan.json

    Once nothing in the cluster is being moved, the throttles of all brokers and of the plan's
    topics are removed.
    """
    wanted = read_plan(stream)
    with own_client(bootstrap) as client:
        current = _current(client, wanted)
        moving = client.cluster.reassignments()
        cleared = [] if moving or preserve_throttles else clear_throttles(client, {one.topic for one in wanted})
    states = {partition: _state(current[partition], wanted[partition], moving.get(partition)) for partition in wanted}
    if as_json:
        print_json(
            [
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "state": state,
                    "replicas": list(current[partition]),
                    "wanted": list(wanted[partition]),
                }
                for partition, state in sorted(states.items())
            ]
        )
    else:
        click.echo("Status of partition reassignment:")
        for partition, state in sorted(states.items()):
            click.echo(_verify_line(partition, state, current[partition], wanted[partition]))
        if cleared:
            click.echo("\n" + "\n".join(cleared))
    if set(states.values()) != {COMPLETED}:
        raise click.exceptions.Exit(1)


@reassign.command()
@click.argument("stream", metavar="PLAN", type=click.File())
@preserve_option
@bootstrap_option
def cancel(stream: TextIO, preserve_throttles: bool, bootstrap: str) -> None:
    """Cancel the moves of a plan that run: their partitions go back to where they were.

    \b
      kqueue cluster reassign cancel plan.json

    The throttles of all brokers and of the plan's topics are removed.
    """
    wanted = read_plan(stream)
    with own_client(bootstrap) as client:
        moving = client.cluster.reassignments(wanted)
        refused = client.cluster.reassign(dict.fromkeys(moving)) if moving else {}
        cleared = [] if preserve_throttles else clear_throttles(client, {one.topic for one in wanted})
    cancelled = [partition for partition in moving if partition not in refused]
    if cancelled:
        click.echo(f"Successfully cancelled partition reassignment{_s(cancelled)} for: {_names(cancelled)}")
    refused = {partition: reason for partition, reason in refused.items() if reason.code != NOT_IN_PROGRESS}
    if not cancelled and not refused:
        click.echo("None of the specified partition reassignments are active.")
    for line in cleared:
        click.echo(line)
    for partition, (code, message) in sorted(refused.items()):
        click.echo(f"Error: {partition}: {explain_code(code, message)}", err=True)
    if refused:
        raise click.exceptions.Exit(1)


@reassign.command("list")
@output_option
@bootstrap_option
def list_moves(as_json: bool, bootstrap: str) -> None:
    """Show the partitions that are being moved. COPIED are new replicas that are in sync.

    \b
      kqueue cluster reassign list
    """
    with own_client(bootstrap) as client:
        moving = sorted(client.cluster.reassignments().items())
        topics = client.metadata({partition.topic for partition, _ in moving}).topics if moving else {}
    rows = []
    for partition, move in moving:
        in_sync = topics[partition.topic].partitions[partition.partition].in_sync
        rows.append((partition, move, [node for node in move.adding if node in in_sync]))
    if as_json:
        print_json(
            [
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "replicas": list(move.replicas),
                    "adding": list(move.adding),
                    "removing": list(move.removing),
                    "copied": copied,
                }
                for partition, move, copied in rows
            ]
        )
    elif rows:
        cells = [
            (partition, _ids(move.replicas), _ids(move.adding) or "-", _ids(move.removing) or "-", _ids(copied) or "-")
            for partition, move, copied in rows
        ]
        click.echo(columns(("PARTITION", "REPLICAS", "ADDING", "REMOVING", "COPIED"), cells))
    else:
        click.echo("No partition reassignments found.")


def _wait(client: Client, wanted: Plan) -> None:
    """Return when none of the partitions is being moved."""
    with Counter(f"of {len(wanted):,} partitions moved", shown=True) as counter:
        while moving := client.cluster.reassignments(wanted):
            counter.show(len(wanted) - len(moving))
            time.sleep(POLL_S)


def _current(client: Client, partitions: Iterable[TopicPartition]) -> Plan:
    """Return the replicas of these partitions. Raises ClickException: one does not exist."""
    wanted = list(partitions)
    topics = client.metadata({partition.topic for partition in wanted}).topics
    missing = [one for one in wanted if one.partition not in topics[one.topic].partitions]
    if missing:
        raise click.ClickException(f"there is no partition {missing[0]}")
    return {one: topics[one.topic].partitions[one.partition].replicas for one in wanted}


def _moves(client: Client, before: Plan, wanted: Plan) -> dict[TopicPartition, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return what partitions have now, without what they are being given, and what they get."""
    moving = client.cluster.reassignments(wanted)
    return {
        one: (tuple(node for node in before[one] if one not in moving or node not in moving[one].adding), target)
        for one, target in wanted.items()
    }


def _state(current: tuple[int, ...], wanted: tuple[int, ...], move: Reassignment | None) -> str:
    if move is not None:
        return IN_PROGRESS
    return COMPLETED if current == wanted else DIFFERENT


def _verify_line(partition: TopicPartition, state: str, current: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    if state == DIFFERENT:
        return (
            f"There is no active reassignment of partition {partition}, but replica set is {_ids(current)} "
            f"rather than {_ids(wanted)}."
        )
    return f"Reassignment of partition {partition} is {'still ' if state == IN_PROGRESS else ''}{state}."


def _ids(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes))


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ",".join(map(str, sorted(partitions)))


def _s(items: Mapping[TopicPartition, object] | list[TopicPartition]) -> str:
    return "" if len(items) == 1 else "s"
