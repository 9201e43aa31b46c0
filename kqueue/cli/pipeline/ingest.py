"""`kqueue pipeline ingest`."""

from __future__ import annotations

import click

from kqueue.cli.pipeline.shared import absolute, bootstrap_option, master_option, path_option, session, source_of, tell, topics_option


@click.command()
@click.argument("folder")
@topics_option
@click.option("--lateness", default="2 hours", show_default=True, help="How late an event may be told.")
@path_option
@bootstrap_option
@master_option
def ingest(folder: str, topics: tuple[str, ...], lateness: str, path: str | None, bootstrap: str, master: str) -> None:
    """Take in what has come to topics of flight events, as Parquet in FOLDER.

    \b
      kqueue pipeline ingest tables --topic flights

    bronze has all records as they came, silver the events that can be used, quarantine the others with the reason, gold the
    delays per airport and hour. It ends when all is taken in; started again, it takes in what has come since.
    """
    with session(master) as spark:
        from kqueue.spark.jobs.ingest import ingest as run

        done = run(spark, source_of(topics, path, bootstrap), absolute(folder), lateness=lateness, tell=tell)
    click.echo(f"Took in {done['bronze']:,} records.")
