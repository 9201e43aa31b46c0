"""`kqueue pipeline checkpoint`: moves a stream's checkpoint to another source; without Spark."""

from __future__ import annotations

from pathlib import Path

import click

from kqueue.base.errors import KqueueError
from kqueue.base.text import counted


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--to", type=click.Choice(["kafka"]), required=True, help="The source that is to go on: Spark's own.")
def checkpoint(folder: Path, to: str) -> None:
    """Make the checkpoint in FOLDER one that Spark's own Kafka source reads.

    \b
      kqueue pipeline checkpoint orders-checkpoint --to kafka

    Stop the query first. Its offsets lose the ids of topics, which Spark's own source refuses.
    Without them a topic that was deleted and made again is noticed only if its offsets are lower.
    kqueue's source reads the checkpoint as before. Of a checkpoint in an object store or HDFS copy
    the folders offsets and commits to a folder here, and offsets back.
    """
    from kqueue.spark.source.checkpoints import to_kafka

    try:
        changed = to_kafka(folder)
    except KqueueError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename} can't be read or written: {error.strerror}") from None
    if changed:
        click.echo(f"Changed {counted(changed, 'file')} of {folder}: Spark's own source reads it now.")
    else:
        click.echo(f"Nothing to change in {folder}: no offsets there have ids of topics.")
