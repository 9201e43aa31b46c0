"""`kqueue log-dirs`: the data folders of brokers, as a table, or in the JSON of Kafka's own tool."""

from __future__ import annotations

from typing import Any

import click

from kqueue.cli.connect import admin, bootstrap_option, explain_code
from kqueue.cli.output import counted, output_option, print_json, size_text, table_console

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
    """Show the data folders of brokers (log.dirs), the room on their disks, and what each partition
    takes.

    \b
      kqueue log-dirs
      kqueue log-dirs orders payments
      kqueue log-dirs -o json

    SIZE counts records alone, not their indexes. LAG is how many records a replica is behind. The
    JSON is that of kafka-log-dirs.sh. Exit status 1 if a folder is offline, or a topic is not
    there.
    """
    with admin(bootstrap) as client:
        missing = (
            [topic for topic in client.describe_topics(list(topics)) if topic["error_code"] != 0] if topics else []
        )
        answers = client.describe_log_dirs(list(topics) or None, list(brokers) or None)
    for answer in answers:
        answer["log_dirs"] = [folder for folder in answer["log_dirs"] if folder["log_dir"] or folder["error_code"]]
    if as_json:
        print_json(kafka_json(answers))
    elif len(missing) < len(topics) or not topics:
        _print_tables(answers)
    for topic in missing:
        click.echo(f"Error: {topic['name']}: {explain_code(topic['error_code'])}", err=True)
    if missing or any(folder["error_code"] for answer in answers for folder in answer["log_dirs"]):
        raise click.exceptions.Exit(1)


def kafka_json(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """What ``kafka-log-dirs.sh --describe`` of Kafka 4.3 prints."""
    return {
        "brokers": [
            {
                "broker": answer["broker"],
                "logDirs": [
                    {
                        "partitions": [
                            {"partition": f"{name}-{index}", "size": size, "offsetLag": lag, "isFuture": is_future}
                            for name, index, size, lag, is_future in _rows(folder)
                        ],
                        "error": explain_code(folder["error_code"]) if folder["error_code"] else None,
                        "logDir": folder["log_dir"],
                    }
                    for folder in answer["log_dirs"]
                ],
            }
            for answer in answers
        ],
        "version": 1,
    }


def _rows(folder: Folder) -> list[tuple[str, int, int, int, bool]]:
    return sorted(
        (topic["name"], one["partition_index"], one["partition_size"], one["offset_lag"], one["is_future_key"])
        for topic in folder["topics"]
        for one in topic["partitions"]
    )


def _print_tables(answers: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    console = table_console()
    for answer in answers:
        for folder in answer["log_dirs"]:
            console.print(Text(_heading(answer["broker"], folder), style="bold"), soft_wrap=True)
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
    where = f"Broker {broker}, {folder['log_dir'] or 'a folder that it does not name'}"
    if folder["error_code"]:
        return f"{where}: {explain_code(folder['error_code'])}"
    rows = _rows(folder)
    held = f"{counted(len(rows), 'partition')}, {size_text(sum(row[2] for row in rows))}"
    total, usable = folder.get("total_bytes", -1), folder.get("usable_bytes", -1)
    if usable is None or usable < 0:
        return f"{where}: {held}"
    return f"{where}: {held}; {size_text(usable)} free" + (
        f" of {size_text(total)}" if total is not None and total >= 0 else ""
    )
