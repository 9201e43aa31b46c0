"""`kqueue pipeline ingest`."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING, cast

import click

from kqueue.base.errors import KqueueError
from kqueue.base.text import counted
from kqueue.cli.connect import bootstrap_option
from kqueue.cli.output import columns, new_console, output_option, print_json
from kqueue.cli.pipeline.spark_command import (
    for_check,
    hide_progress,
    location,
    master_option,
    path_option,
    report_progress,
    report_unread,
    s3_endpoint_option,
    session,
    source_options,
    topics_option,
)
from kqueue.cli.pipeline.value_options import source_values, value_options
from kqueue.spark.stores.s3 import SCHEME

if TYPE_CHECKING:
    from rich.table import Table

    from kqueue.spark.event_schema import EventSchema
    from kqueue.spark.jobs.ingest import IngestResult
    from kqueue.spark.tables import Format

EXAMPLE = """\b
A file for --events, in TOML; what is left out of by, rules, gold, window and
lateness is as said behind it:
  id    = "number"              # identifies an event
  time  = ["paid", "ordered"]   # the first that is there is the event's time
  by    = ["shop"]              # gold counts by these            (none)
  window   = "1 hour"           # and by so much time             (1 hour)
  lateness = "2 hours"          # how late an event may arrive    (2 hours)
  [fields]                      # bigint, int, double, decimal(10,2), string,
  number  = "bigint"            # boolean, date, timestamp (ISO 8601, with its
  shop    = "string"            # zone), timestamp_ms (since 1970);
  ordered = "timestamp"
  paid    = "timestamp?"        # ? may be null or missing
  amount  = "decimal(10,2)"
  [rules]                       # SQL that is never false, or the event goes
  "amount: below 0" = "amount >= 0"       # to quarantine, with this reason
  [gold]                        # columns, as aggregates in SQL
  orders  = "count(*)"          # (events = "count(*)")
  revenue = "sum(amount)"
"""
FORMATS = ("parquet", "delta", "iceberg")
STAGES = ("bronze", "silver", "quarantine", "gold")
BEHIND = "behind"


@click.command(epilog=EXAMPLE)
@click.argument("folder")
@topics_option
@click.option(
    "--events", required=True, metavar="NAME|FILE",
    help="The schema of the events: a TOML file (see below), or flights, as in kqueue demo pipeline.",
)  # fmt: skip
@click.option(
    "--format",
    "format",
    type=click.Choice(FORMATS),
    default="parquet",
    show_default=True,
    help="The format of the tables.",
)
@click.option("--lateness", help="How late an event may arrive, e.g. '2 hours'.  [default: that of --events]")
@click.option(
    "--finish", is_flag=True, help="Write the last windows to gold too; later events of these windows are not counted."
)
@click.option(
    "--checkpoint",
    metavar="FOLDER",
    help="A mounted folder for the progress, always the same; needed for an s3:// FOLDER.  [default: in FOLDER]",
)
@click.option(
    "--catalog",
    metavar="FILE",
    help="The SQLite file of Iceberg's catalog.  [default: catalog.db beside the progress]",
)
@value_options
@s3_endpoint_option
@path_option
@output_option
@bootstrap_option
@master_option
def ingest(
    folder: str,
    topics: tuple[str, ...],
    events: str,
    format: str,
    lateness: str | None,
    finish: bool,
    checkpoint: str | None,
    catalog: str | None,
    s3_endpoint: str | None,
    path: str | None,
    as_json: bool,
    bootstrap: str,
    master: str | None,
    values: dict[str, str],
) -> None:
    """Write the events of topics to tables in FOLDER (or s3://BUCKET/PREFIX).

    \b
      kqueue pipeline ingest tables --topic orders --events orders.toml
      kqueue pipeline ingest tables --topic flights --events flights --format delta

    Events are JSON objects, or what --value-format says. bronze has all records unchanged, silver
    the valid events, quarantine the others with the reason, gold the counts of each window that is
    over. The command ends when all records are written. Another run adds newer records; no record
    counts twice.
    """
    schema = _schema(events, lateness)
    source = source_values(source_options(topics, path, bootstrap), values)
    place = location(folder, s3_endpoint, checkpoint, catalog)
    if catalog is not None and format != "iceberg":
        raise click.UsageError(f"--catalog is for --format iceberg, and this is {format}")
    if place.url.startswith(SCHEME) and checkpoint is None:
        raise click.UsageError(f"{folder} needs --checkpoint, a mounted folder for the progress, always the same")

    def check() -> None:
        from kqueue.spark.jobs.ingest import check

        check(for_check(source), place, schema=schema, format=cast("Format", format))

    with (
        session(
            master, bootstrap=bootstrap if path is None else None, folders=[path], place=place, check=check
        ) as spark,
        _shown() as tell,
    ):
        from kqueue.spark.jobs.ingest import ingest as run

        done = run(
            spark,
            source,
            place,
            schema=schema,
            format=cast("Format", format),
            finish=finish,
            tell=tell,
        )
    if as_json:
        until = None if done.until is None else f"{done.until:%Y-%m-%dT%H:%M:%SZ}"
        print_json({"rows": done.rows, "quarantined": dict(done.reasons), "gold_until": until})
    else:
        click.echo(summary(done, folder))
    report_unread(done.unread)


def _schema(events: str, lateness: str | None) -> EventSchema:
    from kqueue.spark.event_schema import load, seconds_of

    try:
        schema = load(events)
        if lateness is None:
            return schema
        seconds_of(lateness, "--lateness")
        return dataclasses.replace(schema, lateness=lateness)
    except KqueueError as error:
        raise click.UsageError(str(error)) from None


def summary(done: IngestResult, folder: str) -> str:
    """Return the summary of a run: rows by table, reasons by frequency, and the last window in
    gold.
    """
    rows = [(stage, f"{done.rows[stage]:,}", PurePath(folder, stage)) for stage in STAGES]
    parts = [columns(("TABLE", "NEW ROWS", "WHERE"), rows)]
    if done.reasons:
        parts.append(
            columns(("QUARANTINED", "REASON"), ((f"{count:,}", reason) for reason, count in done.reasons.most_common()))
        )
    if done.until is None:
        parts.append("Gold is empty: no window is over.")
    else:
        parts.append(f"Gold has the windows that ended by {done.until:%Y-%m-%d %H:%M} UTC.")
    return "\n\n".join(parts)


@contextlib.contextmanager
def _shown() -> Iterator[Callable[[str, int], None]]:
    """Show the rows of each table and the records to read; without a terminal, in lines."""
    if not sys.stderr.isatty():
        yield _in_lines()
        return
    from rich.live import Live

    hide_progress()

    row_counts: dict[str, int] = {}
    at: str | None = None
    with Live(
        _progress(row_counts, None), console=new_console(sys.stderr), transient=True, refresh_per_second=5
    ) as live:

        def tell(stage: str, rows: int) -> None:
            nonlocal at
            row_counts[stage] = rows
            at = at if stage == BEHIND else stage
            live.update(_progress(row_counts, at))

        yield tell


def _in_lines() -> Callable[[str, int], None]:
    """Return a listener that has the lines of the session say which table is written."""
    row_counts: dict[str, int] = {}
    at = STAGES[0]

    def tell(stage: str, rows: int) -> None:
        nonlocal at
        row_counts[stage] = rows
        at = at if stage == BEHIND else stage
        left = row_counts.get(BEHIND, 0)
        written = row_counts.get(at, 0)
        report_progress(at, written, written + left if left and at != "gold" else None)

    return tell


def _progress(row_counts: dict[str, int], at: str | None) -> Table:
    from rich.spinner import Spinner
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(width=10)
    table.add_column()
    table.add_column(min_width=12)
    for stage in STAGES:
        table.add_row(
            stage,
            counted(row_counts[stage], "row") if stage in row_counts else "",
            Spinner("dots") if stage == at else "",
        )
    if at is None:
        table.add_row("reading", "", Spinner("dots"))
    if row_counts.get(BEHIND):
        table.add_row("to read", counted(row_counts[BEHIND], "record"), "")
    return table
