"""`kqueue backup`: backups of data folders, also of brokers that run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from kqueue.base.errors import KqueueError
from kqueue.base.text import counted, size_text
from kqueue.cli.output import output_option, print_json

if TYPE_CHECKING:
    from kqueue.log_tools.backup import Manifest

T = TypeVar("T")
DAMAGED = 1
UNUSABLE = 2


class _NoBackup(click.ClickException):
    exit_code = UNUSABLE


@click.group()
def backup() -> None:
    """Back up data folders, check backups, and restore them.

    \b
      kqueue backup create kqueue-data --to backup-monday
      kqueue backup verify backup-monday
      kqueue backup restore backup-monday --to kqueue-restored
    """


@backup.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FOLDER...")
@click.option("--to", required=True, type=click.Path(path_type=Path), metavar="DIR", help="A new or empty folder.")
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The SQLite file of kqueue.cluster.store, if it is not in one of the folders.",
)
@output_option
def create(folders: tuple[Path, ...], to: Path, store: Path | None, as_json: bool) -> None:
    """Copy data folders (log.dirs) into DIR. Brokers may run, and serve clients meanwhile.

    \b
      kqueue backup create kqueue-data --to backup-monday
      kqueue backup create data-1 data-2 data-3 --store cluster.db --to backup-monday

    Name all data folders of a broker; of a cluster on one machine those of all brokers, and its
    store. Files that do not change any more share their blocks with the original, or are hard
    links, where the file system can: on the disk of the data a backup costs little room, and does
    not outlive the disk. Everything that was confirmed before the command began is in the backup.

    Exit status: 0 if the backup is complete, 2 if none was made.
    """
    from kqueue.log_tools.backup import create_backup

    manifest = _run("Copying", lambda progress: create_backup(folders, to, store=store, progress=progress))
    if as_json:
        print_json({"backup": str(to), **manifest.as_json()})
        return
    click.echo(f"{_described(manifest)} in {to}.")
    if not manifest.is_of_one_moment:
        click.echo(f"Brokers wrote meanwhile: partitions are as of up to {manifest.window_ms:,.0f} ms apart.")


@backup.command()
@click.argument("backup", type=click.Path(path_type=Path), metavar="BACKUP")
@output_option
def verify(backup: Path, as_json: bool) -> None:
    """Check that all of BACKUP is there and undamaged; each batch of the logs by its checksum.

    \b
      kqueue backup verify backup-monday

    Exit status: 0 if the backup is whole, 1 if something is missing or damaged, 2 if BACKUP is no
    complete backup.
    """
    from kqueue.log_tools.backup import verify_backup

    report = _run("Checking", lambda progress: verify_backup(backup, progress=progress))
    if as_json:
        print_json(report.as_json())
    elif report.is_whole:
        click.echo(f"{backup} is whole: {_described(report.manifest)}.")
    else:
        for line in report.damage:
            click.echo(line)
        click.echo(f"{backup} is damaged: use another backup.", err=True)
    if not report.is_whole:
        raise click.exceptions.Exit(DAMAGED)


@backup.command()
@click.argument("backup", type=click.Path(path_type=Path), metavar="BACKUP")
@click.option("--to", required=True, type=click.Path(path_type=Path), metavar="DIR", help="A new or empty folder.")
@click.option("--only", metavar="NAME", help="Restore this data folder of several, as DIR.")
@output_option
def restore(backup: Path, to: Path, only: str | None, as_json: bool) -> None:
    """Copy BACKUP into DIR, from which brokers can start. BACKUP stays as it is.

    \b
      kqueue backup restore backup-monday --to kqueue-data
      kqueue backup restore backup-monday --to cluster
      kqueue backup restore backup-monday --only data-2 --to data-2

    A backup of one data folder becomes DIR; of several, DIR holds them by their names, with the
    cluster's store. A single broker starts with the data of the backup. One broker of a cluster
    that goes on counts as one with an empty disk, and copies from the others: no backup is needed
    for that. A whole cluster goes back to the backup if its store and all folders are restored
    together.

    Exit status: 0 if all is restored, 2 if not; DIR is complete, or as it was.
    """
    from kqueue.log_tools.backup import restore_backup

    manifest = _run("Restoring", lambda progress: restore_backup(backup, to, only=only, progress=progress))
    if as_json:
        print_json({"restored": str(to), "only": only, **manifest.as_json()})
        return
    click.echo(f"Restored {only or _described(manifest)} to {to}.")
    if any(folder.is_member for folder in manifest.folders) and (only is not None or manifest.store is None):
        click.echo("In a cluster that goes on, the broker counts as one with an empty disk: it copies from the others.")


def _run(title: str, work: Callable[[Callable[[int, int], None]], T]) -> T:
    from kqueue.cli.log.progress_bar import progress_bar

    try:
        with progress_bar(title) as progress:
            return work(progress)
    except (KqueueError, OSError) as error:
        raise _NoBackup(f"{error}.") from None


def _described(manifest: Manifest) -> str:
    partitions = sum(folder.partitions for folder in manifest.folders)
    names = counted(len(manifest.folders), "data folder")
    store = " and the metadata store" if manifest.store is not None else ""
    return f"{names} with {counted(partitions, 'partition')}{store}, {size_text(manifest.total_bytes)}"
