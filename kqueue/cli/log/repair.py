"""`kqueue log repair`: repair damaged log folders after a backup."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kqueue.base.errors import FolderInUse, KqueueError
from kqueue.base.text import size_text
from kqueue.cli.log.folder_or_url import FOLDER_OR_URL
from kqueue.cli.log.verify import DAMAGED, NoLogs, show_table
from kqueue.cli.output import output_option
from kqueue.log_tools.errors import NotALogFolder

if TYPE_CHECKING:
    from kqueue.log_tools.repair import RepairResult


@click.command()
@click.argument("folder", type=FOLDER_OR_URL)
@click.option(
    "--copy-to",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A new or empty folder for the backup.",
)
@click.option("--dry-run", is_flag=True, help="Report the damage and what would be lost; change and copy nothing.")
@click.option("--deep", is_flag=True, help="Decode every record too, and remove batches whose records cannot be read.")
@click.option("--allow-gaps", is_flag=True, help="The logs are compacted: missing offsets are no loss.")
@output_option
def repair(
    folder: str | Path, copy_to: Path | None, dry_run: bool, deep: bool, allow_gaps: bool, as_json: bool
) -> None:
    """Repair FOLDER: a partition's folder, or a data folder. The broker must be stopped.

    \b
      kqueue log repair kqueue-data --dry-run
      kqueue log repair kqueue-data --copy-to kqueue-data-before

    The damaged partitions are copied first; nothing is changed before the copy is on disk. Then
    damaged batches are removed from the logs. All other records keep their offsets, so lost records
    leave a gap. Wrong indexes, snapshots, leader epochs and checkpoints are rebuilt. All losses are
    printed. If a repair is interrupted, run it again with another --copy-to.

    Exit status: 0 if nothing is damaged now, 1 if something still is, 2 if FOLDER holds no logs.
    """
    if copy_to is None and not dry_run:
        raise click.UsageError("name a folder for the copy: --copy-to DIR (or only look: --dry-run)")
    result = _repaired(folder, copy_to, dry_run, deep, allow_gaps)
    if as_json:
        click.echo(json.dumps(result.as_json(), ensure_ascii=False))
    else:
        _show(result, dry_run)
    if not result.is_sound:
        raise click.exceptions.Exit(DAMAGED)


def _repaired(folder: str | Path, copy_to: Path | None, dry_run: bool, deep: bool, allow_gaps: bool) -> RepairResult:
    from kqueue.cli.log.progress_bar import progress_bar
    from kqueue.log_tools.repair import repair as repair_folder

    try:
        with progress_bar("Copying") as progress:
            return repair_folder(folder, copy_to, dry_run=dry_run, deep=deep, allow_gaps=allow_gaps, progress=progress)
    except NotALogFolder as error:
        raise NoLogs(f"{error}.") from None
    except FolderInUse as error:
        raise click.ClickException(f"{error}. Stop the broker first.") from None
    except (KqueueError, OSError) as error:
        raise click.ClickException(f"{error}.") from None


def _show(result: RepairResult, dry_run: bool) -> None:
    if result.before.is_sound:
        click.echo(f"Nothing is damaged in {result.folder}; nothing was copied or changed.")
        return
    show_table(result.before.errors)
    if result.copy is not None:
        click.echo(f"Copied {size_text(result.copied_bytes)} to {result.copy}.")
    for lost in result.lost:
        click.echo(f"{'Would be lost' if dry_run else 'Lost'}: {lost}")
    for done in result.done:
        click.echo(f"{done.file}: {done.what}.")
    for failed in result.failed:
        click.echo(f"Error: can't repair {failed}", err=True)
    if dry_run:
        click.echo("Nothing was changed. Wrong files that derive from the logs would be rebuilt.")
    elif result.is_sound:
        click.echo("Nothing is damaged now.")
    elif result.after is not None:
        click.echo("Still damaged:")
        show_table(result.after.errors)
