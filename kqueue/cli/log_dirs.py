"""`kqueue log-dirs`: shows the data folders of brokers, and moves logs between them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from kqueue.base.text import counted, size_text
from kqueue.cli.completion import complete_topics
from kqueue.cli.connect import admin, bootstrap_option, explain_code
from kqueue.cli.error_texts import remedy_of
from kqueue.cli.output import output_option, print_json, table_console
from kqueue.cli.topic_description import explain_topic_code

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

Folder = dict[str, Any]
LOG_DIR_NOT_FOUND = 57
POLL_S = 0.2


class _ShowByDefault(click.Group):
    """A group that runs `show` where the first argument is no subcommand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group("log-dirs", cls=_ShowByDefault)
def log_dirs() -> None:
    """Show the data folders of brokers (log.dirs), or move logs between them.

    \b
      kqueue log-dirs
      kqueue log-dirs orders payments
      kqueue log-dirs move orders --to /disk2/kqueue

    `show` is the default; a topic named `move` needs it: kqueue log-dirs show move.
    """


@log_dirs.command()
@click.argument("topics", nargs=-1, metavar="[TOPIC]...", shell_complete=complete_topics)
@click.option(
    "--broker",
    "brokers",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="ID",
    help="Only this broker; may be repeated.",
)
@output_option
@bootstrap_option
def show(topics: tuple[str, ...], brokers: tuple[int, ...], as_json: bool, bootstrap: str) -> None:
    """Show the data folders of brokers (log.dirs): free space, and the size of each partition.

    \b
      kqueue log-dirs
      kqueue log-dirs orders payments
      kqueue log-dirs show -o json

    SIZE counts records without indexes. LAG is how many records a replica is behind. The JSON is
    that of kafka-log-dirs.sh. The exit status is 1 if a folder is offline or a topic does not
    exist.
    """
    with admin(bootstrap) as client:
        missing = (
            [topic for topic in client.describe_topics(list(topics)) if topic["error_code"] != 0] if topics else []
        )
        responses = client.describe_log_dirs(list(topics) or None, list(brokers) or None)
    # kafka-python leaves out the error of a whole response; each broker has a folder
    refused = [response["broker"] for response in responses if not response["log_dirs"]]
    for response in responses:
        response["log_dirs"] = [folder for folder in response["log_dirs"] if folder["log_dir"] or folder["error_code"]]
    if as_json:
        print_json(kafka_json(responses))
    elif len(missing) < len(topics) or not topics:
        _print_tables(responses)
    for topic in missing:
        click.echo(f"Error: {explain_topic_code(bootstrap, topic['name'], topic['error_code'])}", err=True)
    for broker in refused:
        click.echo(f"Error: broker {broker}: {remedy_of('CLUSTER_AUTHORIZATION_FAILED')}", err=True)
    if missing or refused or any(folder["error_code"] for response in responses for folder in response["log_dirs"]):
        raise click.exceptions.Exit(1)


@log_dirs.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topics)
@click.option("--to", "folder", required=True, metavar="FOLDER", help="The data folder, as `kqueue log-dirs` shows it.")
@click.option(
    "-p", "--partition", "chosen", type=click.IntRange(min=0), multiple=True, metavar="P",
    help="Only this partition; may be repeated.",
)  # fmt: skip
@click.option("--no-wait", is_flag=True, help="Return when the moves have begun.")
@bootstrap_option
def move(topics: tuple[str, ...], folder: str, chosen: tuple[int, ...], no_wait: bool, bootstrap: str) -> None:
    """Move the logs of topics to another data folder of their broker, while they are used.

    \b
      kqueue log-dirs move orders --to /disk2/kqueue
      kqueue log-dirs move orders -p 0 -p 3 --to /disk2/kqueue --no-wait

    A partition that is there already stays. Moving it back to where it is ends its move. The exit
    status is 1 if a partition can't be moved; the broker's log says why.
    """
    with admin(bootstrap) as client:
        replicas = _replicas(client, bootstrap, topics, frozenset(chosen))
        codes = client.alter_replica_log_dirs(dict.fromkeys(replicas, folder))
        refused = {replica: error for replica, error in codes.items() if error.errno != 0}
        for replica, error in sorted(refused.items()):
            click.echo(f"Error: {replica.topic}-{replica.partition}: {_explain(error.errno, folder)}", err=True)
        begun = [replica for replica in replicas if replica not in refused]
        stayed = [] if no_wait else _wait(client, begun, folder)
    for topic, partition, _ in stayed:
        click.echo(f"Error: {topic}-{partition} was not moved; the broker's log says why", err=True)
    count = counted(len(begun) - len(stayed), "partition")
    click.echo(f"{count} will be in {folder}." if no_wait else f"{count} of {', '.join(topics)} now in {folder}.")
    if refused or stayed:
        raise click.exceptions.Exit(1)


def _replicas(client: KafkaAdminClient, bootstrap: str, topics: tuple[str, ...], chosen: frozenset[int]) -> list[Any]:
    """Return the leaders of the chosen partitions; empty: all."""
    from kafka import TopicPartitionReplica

    replicas = []
    for topic in client.describe_topics(list(topics)):
        if topic["error_code"] != 0:
            raise click.ClickException(explain_topic_code(bootstrap, topic["name"], topic["error_code"]))
        leaders = {row["partition_index"]: row["leader_id"] for row in topic["partitions"]}
        for index in sorted(chosen or leaders):
            if index not in leaders:
                raise click.ClickException(f"{topic['name']} has partitions 0 to {len(leaders) - 1}, not {index}")
            replicas.append(TopicPartitionReplica(topic["name"], index, leaders[index]))
    return replicas


def _explain(code: int, folder: str) -> str:
    if code == LOG_DIR_NOT_FOUND:
        return f"{folder} is no data folder of its broker; `kqueue log-dirs` shows them"
    return explain_code(code)


def _wait(client: KafkaAdminClient, replicas: list[Any], folder: str) -> list[Any]:
    """Wait until no replica is on its way; return those that are not in `folder`."""
    from kqueue.cli.log.progress_bar import progress_bar

    names = sorted({replica.topic for replica in replicas})
    with progress_bar(f"moving to {folder}") as show_progress:
        while replicas:
            is_there, copied, total = _progress(
                client.describe_log_dirs(names), {tuple(one[:2]) for one in replicas}, folder
            )
            show_progress(copied, total)
            if not any(where is None for where in is_there.values()):
                return [one for one in replicas if not is_there.get(tuple(one[:2]))]
            time.sleep(POLL_S)
    return []


def _progress(
    responses: list[dict[str, Any]], wanted: set[tuple[str, int]], folder: str
) -> tuple[dict[tuple[str, int], bool | None], int, int]:
    """Return for each partition whether it is in `folder` (None: on its way), bytes that are there,
    and bytes in all.
    """
    is_there: dict[tuple[str, int], bool | None] = {}
    copied = total = 0
    for one in (one for response in responses for one in response["log_dirs"]):
        for name, index, size, _, is_future in _rows(one):
            if (name, index) not in wanted:
                continue
            if is_future:
                is_there[name, index] = None
                copied += size
            else:
                here = one["log_dir"] == folder
                if is_there.setdefault((name, index), here) is False:
                    is_there[name, index] = here  # in two folders: one was listed before the move ended
                total += size
                copied += size if one["log_dir"] == folder else 0
    return is_there, copied, total


def kafka_json(responses: list[dict[str, Any]]) -> dict[str, Any]:
    """The line that ``kafka-log-dirs.sh --describe`` of Kafka 4.3 prints."""
    return {
        "brokers": [
            {
                "broker": response["broker"],
                "logDirs": [
                    {
                        "partitions": [
                            {"partition": f"{name}-{index}", "size": size, "offsetLag": lag, "isFuture": is_future}
                            for name, index, size, lag, is_future in _rows(folder)
                        ],
                        "error": explain_code(folder["error_code"]) if folder["error_code"] else None,
                        "logDir": folder["log_dir"],
                    }
                    for folder in response["log_dirs"]
                ],
            }
            for response in responses
        ],
        "version": 1,
    }


def _rows(folder: Folder) -> list[tuple[str, int, int, int, bool]]:
    return sorted(
        (topic["name"], entry["partition_index"], entry["partition_size"], entry["offset_lag"], entry["is_future_key"])
        for topic in folder["topics"]
        for entry in topic["partitions"]
    )


def _print_tables(responses: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    console = table_console()
    for response in responses:
        for folder in response["log_dirs"]:
            console.print(Text(_heading(response["broker"], folder), style="bold"), soft_wrap=True)
            rows = _rows(folder)
            if not rows:
                continue
            table = Table(box=None)
            table.add_column("TOPIC")
            for title in ("PARTITION", "SIZE", "BYTES", "LAG"):
                table.add_column(title, justify="right")
            for name, index, size, lag, is_future in rows:
                table.add_row(
                    Text(name + (" (moving here)" if is_future else "")),
                    str(index),
                    size_text(size),
                    str(size),
                    str(lag),
                )
            console.print(table)


def _heading(broker: int, folder: Folder) -> str:
    title = f"Broker {broker}, {folder['log_dir'] or 'a folder without a name'}"
    if folder["error_code"]:
        return f"{title}: {explain_code(folder['error_code'])}"
    rows = _rows(folder)
    content = f"{counted(len(rows), 'partition')}, {size_text(sum(row[2] for row in rows))}"
    total, usable = folder.get("total_bytes", -1), folder.get("usable_bytes", -1)
    if usable is None or usable < 0:
        return f"{title}: {content}"
    return f"{title}: {content}; {size_text(usable)} free" + (
        f" of {size_text(total)}" if total is not None and total >= 0 else ""
    )
