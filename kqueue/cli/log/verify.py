"""`kqueue log verify`: check log folders for damage, and compare those of several brokers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kqueue.base.errors import KqueueError
from kqueue.base.text import counted, size_text
from kqueue.cli.log.folder_or_url import FOLDER_OR_URL
from kqueue.cli.output import new_console, output_option
from kqueue.log_tools.errors import NotALogFolder

if TYPE_CHECKING:
    from kqueue.log_tools.comparison import ComparisonReport, PartitionComparison
    from kqueue.log_tools.verify.report import Finding, VerificationReport

DAMAGED = 1


class NoLogs(click.ClickException):
    """The folder holds no logs; exits as after a usage error."""

    exit_code = 2


@click.command()
@click.argument("folders", type=FOLDER_OR_URL, nargs=-1, required=True, metavar="FOLDER...")
@click.option("--compare", is_flag=True, help="Compare the logs of several brokers, partition by partition.")
@click.option("--deep", is_flag=True, help="Decode every record too, not only checksums and headers.")
@click.option("--allow-gaps", is_flag=True, help="The logs are compacted: missing offsets are no loss.")
@output_option
@click.option("-q", "--quiet", is_flag=True, help="Print damage only, no notes and no summary.")
def verify(
    folders: tuple[str | Path, ...], compare: bool, deep: bool, allow_gaps: bool, as_json: bool, quiet: bool
) -> None:
    """Check all files of FOLDER, a partition's or a data folder, against each other.

    \b
      kqueue log verify kqueue-data
      kqueue log verify kqueue-data/orders-0 --deep
      kqueue log verify kqueue-data --json
      kqueue log verify --compare broker-1 broker-2 broker-3
      kqueue log verify s3://bucket/prefix/orders-0

    Batches are checked by their checksums; indexes, snapshots, leader epochs and checkpoints
    against the batches. Nothing is written, no broker is needed, and a broker may use the folder.

    With --compare, data folders of several brokers, or folders of one partition, are compared with
    each other instead: replicas must be equal below their high watermarks, and a leader epoch must
    have had one leader.

    Exit status: 0 if nothing is damaged or different (notes report what is unusual but harmless),
    1 if something is, 2 if FOLDER holds no logs.
    """
    if compare:
        _compare(folders, deep, allow_gaps, as_json, quiet)
        return
    if len(folders) > 1:
        raise click.UsageError("name one FOLDER; several are compared with each other by --compare")
    report = checked(folders[0], deep, allow_gaps)
    if as_json:
        click.echo(json.dumps(report.as_json(), ensure_ascii=False))
    else:
        show(report, quiet=quiet)
    if not report.is_sound:
        raise click.exceptions.Exit(DAMAGED)


def _compare(folders: tuple[str | Path, ...], deep: bool, allow_gaps: bool, as_json: bool, quiet: bool) -> None:
    if deep:
        raise click.UsageError("--deep checks one folder, and goes not with --compare")
    report = _compared(folders, allow_gaps)
    if as_json:
        click.echo(json.dumps(report.as_json(), ensure_ascii=False))
    else:
        _show_comparison(report, quiet=quiet)
    if not report.is_equal:
        raise click.exceptions.Exit(DAMAGED)


def _compared(folders: tuple[str | Path, ...], allow_gaps: bool) -> ComparisonReport:
    from kqueue.cli.log.progress_bar import progress_bar
    from kqueue.log_tools.comparison import compare

    try:
        with progress_bar("Comparing") as progress:
            return compare(folders, allow_gaps=allow_gaps, progress=progress)
    except NotALogFolder as error:
        raise NoLogs(f"{error}.") from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except (KqueueError, OSError) as error:
        raise click.ClickException(f"{error}.") from None


def _show_comparison(report: ComparisonReport, *, quiet: bool) -> None:
    partitions = report.different if quiet else report.partitions
    if partitions:
        _comparison_table(partitions)
    if quiet:
        return
    compared = f"{counted(len(report.partitions), 'partition')} in {counted(len(report.folders), 'folder')}"
    if report.is_equal:
        click.echo(f"Compared {compared}: equal below the high watermarks.")
    else:
        click.echo(f"Compared {compared}: {counted(len(report.different), 'partition')} not equal.")


def _comparison_table(partitions: list[PartitionComparison]) -> None:
    """Print one row for each partition: wrapped on a terminal, one line each in a pipe."""
    from rich.table import Table
    from rich.text import Text

    console = new_console()
    table = Table(pad_edge=False)
    for title in ("Partition", "Ends", "High watermark", "Equal to", "First difference"):
        table.add_column(title, justify="right" if title in ("High watermark", "Equal to") else "left", overflow="fold")
    for one in partitions:
        ends = ", ".join(map(str, one.ends.values()))
        if console.is_terminal:
            cells = (one.name, ends, str(one.high_watermark), str(one.equal_to), str(one.difference or ""))
            table.add_row(*(Text(cell, style="red" if one.difference else "") for cell in cells))
        elif one.difference is not None:
            click.echo(f"different: {one.name}: {one.difference}")
        else:
            click.echo(f"equal: {one.name} to {one.equal_to}; high watermark {one.high_watermark}, ends {ends}")
    if console.is_terminal:
        console.print(table)


def checked(folder: str | Path, deep: bool, allow_gaps: bool) -> VerificationReport:
    """Verify a folder with a progress bar. Raises: NoLogs, ClickException."""
    from kqueue.cli.log.progress_bar import progress_bar
    from kqueue.log_tools.verify import verify as check

    try:
        with progress_bar("Verifying") as progress:
            return check(folder, deep=deep, allow_gaps=allow_gaps, progress=progress)
    except NotALogFolder as error:
        raise NoLogs(f"{error}.") from None
    except (KqueueError, OSError) as error:
        raise click.ClickException(f"{error}.") from None


def show(report: VerificationReport, *, quiet: bool) -> None:
    """Print the report as text; `quiet` prints damage only."""
    findings = report.errors if quiet else sorted(report.findings, key=lambda finding: finding.severity)
    if findings:
        show_table(findings)
    if quiet:
        return
    batches = f"{report.batches:,} batch{'' if report.batches == 1 else 'es'}"
    read = f"{counted(report.partitions, 'partition')}, {counted(report.segments, 'segment')}, {batches}"
    click.echo(f"Read {read} and {counted(report.records, 'record')} ({size_text(report.bytes)}) in {report.folder}.")
    notes = f"; {counted(len(report.notes), 'note')}" if report.notes else ""
    if report.is_sound:
        click.echo(f"All is sound{notes}.")
    else:
        click.echo(f"{counted(len(report.errors), 'place')} damaged{notes}.")


def show_table(findings: list[Finding]) -> None:
    """Print one row for each finding: wrapped on a terminal, one line each in a pipe."""
    from rich.table import Table
    from rich.text import Text

    console = new_console()
    if not console.is_terminal:
        for finding in findings:
            click.echo(f"{finding.severity}: {finding}")
        return
    table = Table(pad_edge=False)
    for title in ("", "File", "Position", "Expected", "Found"):
        table.add_column(title, justify="right" if title == "Position" else "left", overflow="fold")
    for finding in findings:
        position = "" if finding.position is None else str(finding.position)
        style = "red" if finding.severity == "error" else "dim"
        cells = (finding.severity, finding.file, position, finding.expected, finding.found)
        table.add_row(*(Text(cell, style=style) for cell in cells))
    console.print(table)
