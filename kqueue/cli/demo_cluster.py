"""`kqueue demo cluster`: flights through three brokers, of which one is killed and one paused."""

from __future__ import annotations

from pathlib import Path

import click

from kqueue.cli.connect import require
from kqueue.cli.demo import NEEDED, check_empty, data_folder, interruptible, play


@click.command()
@click.option(
    "--folder", type=click.Path(file_okay=False, path_type=Path), help="Keep the data in this folder (new or empty)."
)
@click.option("--keep", is_flag=True, help="Keep the temporary folder with the data, and say where it is.")
@click.option("--flights", "limit", type=click.IntRange(min=1), help="Take only the first N flights.", metavar="N")
@click.option(
    "--store", metavar="STORE", help="Keep the metadata there, as kqueue.cluster.store (default: SQLite in the folder)."
)
def cluster(folder: Path | None, keep: bool, limit: int | None, store: str | None) -> None:
    """Kill and pause brokers of three while flights arrive, and check that none is lost.

    Starts three brokers in processes of their own and sends all flights that left New York in 2013
    through kafka-python, with acks=all and idempotence, into a topic with three replicas of which
    two must confirm. Meanwhile one broker is killed with SIGKILL and started again, and another one
    is paused with SIGSTOP until the others lead its partitions. At the end two aiokafka consumers
    must read every flight once, unchanged, and in order within its key, and the three logs must be
    equal; otherwise the exit status is 1.

    \b
      kqueue demo cluster
      kqueue demo cluster --folder flights-data
      kqueue demo cluster --store postgresql://kqueue@localhost/kqueue
      kqueue log verify --compare flights-data/broker-*/data
    """
    for module in NEEDED:
        require(module, "demo")
    check_empty(folder)
    with interruptible(), data_folder(folder, keep) as place:
        _play(place, limit, store)
        if folder is not None or keep:
            click.echo(f"The data is in {place}; each broker has a folder with its log lines and its data.")


def _play(folder: Path, limit: int | None, store: str | None) -> None:
    from kqueue.demo.cluster_demo import run

    title = "Flights through three brokers, two of which failed"
    result = play(lambda display: run(folder, display, limit=limit, store=store), title)
    click.echo(f"All {result.tracker.sent:,} flights came back, each once and in order, and three logs are equal.")
