"""`kqueue pipeline archive` and `kqueue pipeline replay`."""

from __future__ import annotations

import click

from kqueue.cli.pipeline.shared import absolute, bootstrap_option, master_option, path_option, session, source_of, tell, topics_option


@click.command()
@click.argument("folder")
@topics_option
@path_option
@bootstrap_option
@master_option
def archive(folder: str, topics: tuple[str, ...], path: str | None, bootstrap: str, master: str) -> None:
    """Write the records of topics to Parquet in FOLDER, by topic and day.

    \b
      kqueue pipeline archive kept --topic orders --path kqueue-data
    """
    with session(master) as spark:
        from kqueue.spark.jobs.archive import archive as run

        count = run(spark, source_of(topics, path, bootstrap), absolute(folder), tell=tell)
    click.echo(f"Archived {count:,} records.")


@click.command()
@click.argument("folder")
@click.option("-t", "--topic", help="Send all to this topic; else each goes to the one that it was in.")
@bootstrap_option
@master_option
def replay(folder: str, topic: str | None, bootstrap: str, master: str) -> None:
    """Send the archive in FOLDER to a broker: same partitions, same order, same times.

    \b
      kqueue pipeline replay kept --topic orders-again
    """
    with session(master) as spark:
        from kqueue.spark.jobs.archive import replay as run

        count = run(spark, absolute(folder), bootstrap, topic=topic)
    click.echo(f"Sent {count:,} records.")
