"""`kqueue tier verify`: manifests against objects, objects against themselves and local logs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kqueue.base.text import counted, size_text
from kqueue.cli.log.verify import DAMAGED, show_table
from kqueue.cli.output import output_option, print_json
from kqueue.cli.tier.tier_options import opened_tier, tier_errors, topic_option, url_argument

if TYPE_CHECKING:
    from kqueue.log_tools.tier.comparison import ComparedLogs
    from kqueue.log_tools.tier.verification import TierReport
    from kqueue.tier.stores.contract import ObjectEntry

READ_AHEAD_THREADS = 4


@click.command()
@url_argument
@topic_option
@click.option("--checksums", is_flag=True, help="Read all segments: checksums, batches, indexes and snapshots.")
@click.option(
    "--against",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Compare with the logs of this data folder: both must have the same bytes.",
)
@click.option("--delete-orphans", is_flag=True, help="Delete segments that no manifest knows, once an hour old.")
@output_option
@click.option("-q", "--quiet", is_flag=True, help="Print damage only, no notes and no summary.")
def verify(
    url: str,
    topics: tuple[str, ...],
    checksums: bool,
    against: Path | None,
    delete_orphans: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Check the tier at URL: that manifests and objects agree, and nothing is missing.

    \b
      kqueue tier verify s3://bucket/prefix
      kqueue tier verify s3://bucket/prefix --topic orders --checksums
      kqueue tier verify file:///mnt/tier --against kqueue-data
      kqueue tier verify s3://bucket/prefix --delete-orphans

    Objects are listed, and compared with the manifests: missing objects, wrong sizes, gaps between
    segments, and orphans, which are objects that no manifest knows. --checksums reads all bytes,
    which a store may charge for. --against reads what both have.

    Nothing is written but by --delete-orphans, and brokers may use the tier. Orphans of a partition
    whose manifest can't be read are kept: `kqueue tier recover` makes the manifest again from them.

    Exit status: 0 if nothing is damaged or different, 1 if something is, 2 if there is no tier.
    """
    from kqueue.base.clock import wall_ms
    from kqueue.cli.log.progress_bar import progress_bar
    from kqueue.log_tools.tier.verification import delete_orphans as delete
    from kqueue.log_tools.tier.verification import verify_tier

    with (
        opened_tier(url, topics) as store,
        ThreadPoolExecutor(READ_AHEAD_THREADS, thread_name_prefix="kqueue-tier") as pool,
    ):
        with progress_bar("Verifying") as progress:
            report = verify_tier(store, topics, checksums=checksums, run_later=pool.submit, progress=progress)
        deleted = delete(store, report, wall_ms()) if delete_orphans else []
    compared = [] if against is None else _compared(url, topics, against)
    for one in compared:
        for finding in one.findings:
            report.verification.add(finding)
    if as_json:
        print_json(_json_of(report, deleted, compared))
    else:
        _show(report, deleted, compared, quiet=quiet)
    if not report.verification.is_sound:
        raise click.exceptions.Exit(DAMAGED)


def _compared(url: str, topics: tuple[str, ...], folder: Path) -> list[ComparedLogs]:
    from kqueue.cli.log.progress_bar import progress_bar
    from kqueue.log_tools.tier.comparison import compare_with_folder
    from kqueue.log_tools.tier_urls import open_url

    with tier_errors(), progress_bar("Comparing") as progress:
        return compare_with_folder(open_url(url, topics), folder, progress=progress)


def _json_of(report: TierReport, deleted: list[ObjectEntry], compared: list[ComparedLogs]) -> dict[str, Any]:
    return {
        **report.as_json(),
        "deleted_orphans": [entry.key for entry in deleted],
        "compared": [
            {"partition": one.partition, "start_offset": one.start_offset, "end_offset": one.end_offset}
            for one in compared
        ],
    }


def _show(report: TierReport, deleted: list[ObjectEntry], compared: list[ComparedLogs], *, quiet: bool) -> None:
    found = report.verification
    findings = found.errors if quiet else sorted(found.findings, key=lambda finding: finding.severity)
    if findings:
        show_table(findings)
    if deleted:
        click.echo(f"Deleted {counted(len(deleted), 'orphan')} ({size_text(sum(one.size for one in deleted))}).")
    if quiet:
        return
    kept = len(report.orphans) - len(deleted)
    if kept:
        click.echo(f"Kept {counted(kept, 'orphan')}; --delete-orphans deletes those that are an hour old.")
    for one in compared:
        if one.start_offset < one.end_offset and not any(each.severity == "error" for each in one.findings):
            click.echo(f"{one.partition}: offsets {one.start_offset} to {one.end_offset - 1} are equal in both.")
    if all(one.start_offset == one.end_offset for one in compared) and compared:
        click.echo("The tier and the folder have no offsets in common.")
    what = f"{counted(found.partitions, 'partition')} and {counted(found.segments, 'segment')}"
    read = f", read {counted(found.records, 'record')} ({size_text(found.bytes)})" if found.batches else ""
    click.echo(f"Checked {what}{read} in {found.folder}.")
    notes = f"; {counted(len(found.notes), 'note')}" if found.notes else ""
    if found.is_sound:
        click.echo(f"All is sound{notes}.")
    else:
        click.echo(f"{counted(len(found.errors), 'place')} damaged{notes}.")
