"""`kqueue log-dirs`: the data folders of brokers, as a table or in the JSON of kafka-log-dirs."""

from __future__ import annotations

from typing import Any

import click

from kqueue.base.text import size_text
from kqueue.cli.connect import admin, bootstrap_option, explain_code
from kqueue.cli.output import counted, output_option, print_json, table_console

Folder = dict[str, Any]


@click.command("log-dirs")
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
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
def log_dirs(topics: tuple[str, ...], brokers: tuple[int, ...], as_json: bool, bootstrap: str) -> None:
    """Show the data folders of brokers (log.dirs): free space, and the size of each partition.

    \b
      kqueue log-dirs
      kqueue log-dirs orders payments
      kqueue log-dirs -o json

    SIZE counts records without indexes. LAG is how many records a replica is behind. The JSON is
    that of kafka-log-dirs.sh. The exit status is 1 if a folder is offline or a topic does not
    exist.
    """
    with admin(bootstrap) as client:
        missing = (
            [topic for topic in client.describe_topics(list(topics)) if topic["error_code"] != 0] if topics else []
        )
        responses = client.describe_log_dirs(list(topics) or None, list(brokers) or None)
    for response in responses:
        response["log_dirs"] = [folder for folder in response["log_dirs"] if folder["log_dir"] or folder["error_code"]]
    if as_json:
        print_json(kafka_json(responses))
    elif len(missing) < len(topics) or not topics:
        _print_tables(responses)
    for topic in missing:
        click.echo(f"Error: {topic['name']}: {explain_code(topic['error_code'])}", err=True)
    if missing or any(folder["error_code"] for response in responses for folder in response["log_dirs"]):
        raise click.exceptions.Exit(1)


def kafka_json(responses: list[dict[str, Any]]) -> dict[str, Any]:
    """What ``kafka-log-dirs.sh --describe`` of Kafka 4.3 prints."""
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
