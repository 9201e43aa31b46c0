"""`kqueue demo tiered`: more records than disks hold, and a cluster made again from a bucket."""

from __future__ import annotations

from pathlib import Path

import click

from kqueue.cli.connect import require
from kqueue.cli.demo import check_empty, data_folder, interruptible, play

MB = 10**6


@click.command()
@click.option(
    "--folder", type=click.Path(file_okay=False, path_type=Path), help="Keep the data in this folder (new or empty)."
)
@click.option("--keep", is_flag=True, help="Keep the temporary folder with the data, and say where it is.")
@click.option(
    "--size", type=click.IntRange(min=10), default=400, show_default=True, metavar="MB", help="Send so many megabytes."
)
@click.option(
    "--local",
    type=click.IntRange(min=1),
    metavar="MB",
    help="Keep so many of them on the disk of each broker (default: a twentieth).",
)
@click.option("--tier", metavar="URL", help="An empty object store, as kqueue.tier.url (default: in the folder).")
@click.option(
    "--store",
    "stores",
    nargs=2,
    metavar="STORE STORE",
    help="Keep the metadata there, as kqueue.cluster.store: those of the cluster that is lost, and of the recovered "
    "one (default: SQLite in the folder).",
)
def tiered(
    folder: Path | None, keep: bool, size: int, local: int | None, tier: str | None, stores: tuple[str, str] | None
) -> None:
    """Lose a disk, then all brokers, and read everything from the object store.

    Starts three brokers in processes of their own, with a tiered topic of which a twentieth fits
    their disks, and fills it through kafka-python with acks=all. Then a broker is killed, its disk
    deleted, and the broker started again. kafka-python must read every record from the start, and
    Spark, if it is installed, what is in the object store. Then all brokers and their metadata
    are deleted. A new cluster is recovered from the object store alone, and every record that was
    there must be read again; otherwise the exit status is 1.

    \b
      kqueue demo tiered
      kqueue demo tiered --size 20000 --local 1000 --tier 's3://bucket/demo?region=eu-central-1'
      kqueue demo tiered --store postgresql://localhost/first postgresql://localhost/second
    """
    require("kafka", "demo")
    check_empty(folder)
    with interruptible(), data_folder(folder, keep) as place:
        _play(place, size * MB, (local or max(size // 20, 1)) * MB, tier, stores or None)
        if folder is not None or keep:
            click.echo(f"The data is in {place}: the recovered brokers in 'after', the object store in 'tier'.")


def _play(folder: Path, size: int, local: int, tier: str | None, stores: tuple[str, str] | None) -> None:
    from kqueue.demo.tiered_demo import run

    title = "A topic in an object store, a lost disk, and a lost cluster"
    result = play(lambda display: run(folder, display, size=size, local=local, tier=tier, stores=stores), title)
    click.echo(f"All {result.sent:,} readings came back, and {result.tiered:,} of them from the object store alone.")
