"""`kqueue pipeline audit`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kqueue.base.text import counted, size_text
from kqueue.cli.completion import complete_groups
from kqueue.cli.connect import bootstrap_option, require
from kqueue.cli.output import output_option, table_console
from kqueue.cli.pipeline.spark_command import (
    folder_option,
    for_check,
    master_option,
    pattern_option,
    report_progress,
    session,
    some_topics_option,
    source_options,
)

if TYPE_CHECKING:
    from rich.table import Table

    from kqueue.spark.jobs.audit import AuditReport, PartitionAudit

FOUND = 3
"""The exit status for findings; 1 says that a job failed, as of the other commands."""


@click.command()
@some_topics_option
@pattern_option
@click.option(
    "-g",
    "--group",
    "groups",
    shell_complete=complete_groups,
    multiple=True,
    help="A consumer group whose lag to report; may be repeated.  [default: all]",
)
@output_option
@click.option(
    "--report",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Write report.html there.",
)
@click.option("--strict", is_flag=True, help="Count repeated records and records that a group lost as findings.")
@folder_option
@bootstrap_option
@master_option
def audit(
    topics: tuple[str, ...],
    pattern: str | None,
    groups: tuple[str, ...],
    as_json: bool,
    folder: Path | None,
    strict: bool,
    path: str | None,
    bootstrap: str,
    master: str | None,
) -> None:
    """Read every record of topics; report missing and repeated records, and the lag of groups.

    \b
      kqueue pipeline audit
      kqueue pipeline audit --topic orders --report audit-of-orders
      kqueue pipeline audit --path kqueue-data --json

    Without --topic or --pattern it reads all topics but internal ones. With --path it reads a
    folder, without a broker. The audit explains every offset: it has a record, is below the log
    start (retention), ends a transaction, or was removed by compaction. An offset without an
    explanation is MISSING. REPEATED records equal an earlier one of their partition in key, value,
    headers and timestamp.

    Exit status: 0 if nothing is missing; 3 if records are missing, and with --strict also if
    records are repeated or were deleted before a group read them; 1 if the audit failed.
    """
    source = source_options(topics, path, bootstrap, pattern)

    def check() -> None:
        from kqueue.spark.jobs.audit import check

        if folder is not None:
            _check_report(folder)
        check(for_check(source), groups)

    with session(master, bootstrap=bootstrap if path is None else None, folders=[path], check=check) as spark:
        from kqueue.spark.jobs.audit import audit as run

        report = run(spark, source, groups=groups, tell=report_progress)
    if folder is not None:
        from kqueue.spark.jobs.audit.html_report import write_report

        try:
            written = write_report(report, folder)
        except OSError as error:
            raise click.ClickException(f"the report can't be written: {error}") from None
    if as_json:
        for line in json_lines(report):
            click.echo(line)
    else:
        show(report)
        if folder is not None:
            click.echo(f"The report is in {written}.")
    if report.missing or (strict and (report.repeated or any(lag.deleted for lag in report.lags))):
        raise click.exceptions.Exit(FOUND)


def _check_report(folder: Path) -> None:
    """Raise ClickException if a report can't be made there, before the records are read for it."""
    require("matplotlib", "spark")
    there = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise click.ClickException(f"the report can't be written: {there} is no folder where you may write")


def json_lines(report: AuditReport) -> Iterator[str]:
    """Yield the rows of a report as JSON objects: partitions, then lags."""
    for row in report.partitions:
        yield json.dumps({"kind": "partition", **row.as_json()})
    for lag in report.lags:
        yield json.dumps({"kind": "lag", **lag._asdict(), "age_ms": lag.age_ms(report.taken_ms)})


def show(report: AuditReport) -> None:
    """Print the tables of a report, and its findings as sentences."""
    from kqueue.spark.jobs.audit.formatting import findings

    console = table_console()
    full = [row for row in report.partitions if row.records]
    for table in (_records(report.partitions), _shapes(full) if full else None, _lags(report) if report.lags else None):
        if table is not None:
            console.print(table)
            click.echo()
    for line in findings(report):
        click.echo(line)
    if report.lag_unknown:
        click.echo(f"The lag is unknown: {report.lag_unknown}.")
    if report.note:
        click.echo(report.note)
    rows, size = sum(row.records for row in report.partitions), sum(row.bytes for row in report.partitions)
    click.echo(
        f"{counted(rows, 'record')}, {size_text(size)} of keys and values, in "
        f"{counted(len(report.partitions), 'partition')}."
    )


def _table(*titles: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for number, title in enumerate(titles):
        is_name = title in ("TOPIC", "GROUP")
        table.add_column(
            title,
            justify="left" if is_name else "right",
            overflow="fold" if is_name else "ellipsis",
            no_wrap=number > 1,
        )
    return table


def _records(rows: Sequence[PartitionAudit]) -> Table:
    from rich.text import Text

    table = _table("TOPIC", "P", "START", "END", "RECORDS", "DELETED", "MARKERS", "COMPACTED", "MISSING", "REPEATED")
    for row in rows:
        counts = (row.start, row.end, row.records, row.deleted, row.markers, row.compacted, row.missing, row.repeated)
        cells = [f"{count:,}" for count in counts]
        problems = [Text(cell, style="bold red" if cell != "0" else "") for cell in cells[6:]]
        table.add_row(row.topic, str(row.partition), *cells[:6], *problems)
    return table


def _shapes(rows: Sequence[PartitionAudit]) -> Table:
    from kqueue.spark.jobs.audit.formatting import time_text

    table = _table("TOPIC", "P", "BYTES", "LARGEST", "KEYS", "NO KEY", "NO VALUE", "LATE", "FROM, UTC", "TO, UTC")
    for row in rows:
        about = "~" if row.keys_are_estimated else ""
        counts = [f"{count:,}" for count in (row.keyless, row.tombstones, row.backward)]
        sizes = size_text(row.bytes), size_text(row.largest), f"{about}{row.keys:,}"
        table.add_row(row.topic, str(row.partition), *sizes, *counts, time_text(row.first_ms), time_text(row.last_ms))
    return table


def _lags(report: AuditReport) -> Table:
    from rich.text import Text

    from kqueue.spark.jobs.audit.formatting import age_text, plain

    table = _table("GROUP", "TOPIC", "P", "COMMITTED", "END", "LAG", "OLDEST UNREAD", "DELETED UNREAD")
    for lag in report.lags:
        cells = (
            f"{lag.committed:,}",
            f"{lag.end:,}",
            f"{lag.lag:,}",
            age_text(lag.age_ms(report.taken_ms)),
            f"{lag.deleted:,}",
        )
        table.add_row(Text(plain(lag.group)), lag.topic, str(lag.partition), *cells)
    return table
