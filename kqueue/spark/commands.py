"""`kqueue pipeline`: the jobs on Spark, as commands. pyspark is imported when one runs."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kqueue.base.errors import KqueueError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_BOOTSTRAP = "localhost:9092"
WORDS_MAX = 1000

_bootstrap = click.option(
    "-b", "--bootstrap-server", "bootstrap", metavar="HOST:PORT[,…]", default=DEFAULT_BOOTSTRAP, envvar="KQUEUE_BOOTSTRAP",
    show_default=True, show_envvar=True, help="The broker to talk to; of a cluster, any of its brokers.",
)  # fmt: skip
_master = click.option("--master", default="local[*]", show_default=True, help="Where Spark runs: local[*], local[2], spark://HOST:PORT, …")
_path = click.option("--path", metavar="FOLDER", help="Read a data folder of kqueue or Kafka, without a broker.")
_topics = click.option("-t", "--topic", "topics", multiple=True, required=True, help="The topic; may be repeated.")


@click.group()
def pipeline() -> None:
    """Jobs on Spark: from topics to tables, archives and reports.

    \b
      kqueue pipeline audit --topic orders
      kqueue pipeline archive kept --topic orders
      kqueue pipeline replay kept --topic orders-again

    They need pip install 'kqueue[spark]' and a Java 17 (kqueue[spark-jdk] brings one).
    """


@pipeline.command()
@click.argument("folder")
@_topics
@click.option("--lateness", default="2 hours", show_default=True, help="How late an event may be told.")
@_path
@_bootstrap
@_master
def ingest(folder: str, topics: tuple[str, ...], lateness: str, path: str | None, bootstrap: str, master: str) -> None:
    """Take in what has come to topics of flight events, as Parquet in FOLDER.

    \b
      kqueue pipeline ingest tables --topic flights

    bronze has all records as they came, silver the events that can be used, quarantine the others with the reason, gold the
    delays per airport and hour. It ends when all is taken in; started again, it takes in what has come since.
    """
    with _session(master) as spark:
        from kqueue.spark import jobs

        done = jobs.ingest(spark, _source(topics, path, bootstrap), _absolute(folder), lateness=lateness, tell=_tell)
    click.echo(f"Took in {done['bronze']:,} records.")


@pipeline.command()
@click.argument("folder")
@_topics
@_path
@_bootstrap
@_master
def archive(folder: str, topics: tuple[str, ...], path: str | None, bootstrap: str, master: str) -> None:
    """Write the records of topics to Parquet in FOLDER, by topic and day.

    \b
      kqueue pipeline archive kept --topic orders --path kqueue-data
    """
    with _session(master) as spark:
        from kqueue.spark import jobs

        count = jobs.archive(spark, _source(topics, path, bootstrap), _absolute(folder), tell=_tell)
    click.echo(f"Archived {count:,} records.")


@pipeline.command()
@click.argument("folder")
@click.option("-t", "--topic", help="Send all to this topic; else each goes to the one that it was in.")
@_bootstrap
@_master
def replay(folder: str, topic: str | None, bootstrap: str, master: str) -> None:
    """Send the archive in FOLDER to a broker: same partitions, same order, same times.

    \b
      kqueue pipeline replay kept --topic orders-again
    """
    with _session(master) as spark:
        from kqueue.spark import jobs

        count = jobs.replay(spark, _absolute(folder), bootstrap, topic=topic)
    click.echo(f"Sent {count:,} records.")


@pipeline.command()
@_topics
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each partition.")
@_path
@_bootstrap
@_master
def audit(topics: tuple[str, ...], as_json: bool, path: str | None, bootstrap: str, master: str) -> None:
    """Count the records of topics, and what is missing or repeated among them.

    \b
      kqueue pipeline audit --topic orders
      kqueue pipeline audit --topic orders --path kqueue-data --json
    """
    with _session(master) as spark:
        from kqueue.spark import jobs

        found = jobs.audit(spark, _source(topics, path, bootstrap))
    if as_json:
        for row in found:
            click.echo(json.dumps(row._asdict()))
        return
    lines = [("TOPIC", "PARTITION", "RECORDS", "FIRST", "LAST", "GAPS", "REPEATED")]
    lines += [tuple(map(str, row[:7])) for row in found]  # type: ignore[misc]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _source(topics: tuple[str, ...], path: str | None, bootstrap: str) -> dict[str, str]:
    place = {"kafka.bootstrap.servers": bootstrap} if path is None else {"path": _absolute(path)}
    return {**place, "subscribe": ",".join(topics)}


def _absolute(folder: str) -> str:
    """The folder as seen from here: Spark's processes may stand elsewhere. What is in no file system of this machine stays as it is."""
    return folder if "://" in folder else str(Path(folder).absolute())


def _tell(stage: str, rows: int) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{stage}: {rows:,} rows", err=True, nl=False)


@contextlib.contextmanager
def _session(master: str) -> Iterator[SparkSession]:
    """A session for one command; one that runs in this process already is taken, and left running. Errors become one sentence."""
    from kqueue.spark.session import session

    try:
        running = _running()
        spark = session("kqueue pipeline", master)
    except KqueueError as error:
        raise click.ClickException(str(error)) from None
    from pyspark.errors import PySparkException

    try:
        yield spark
    except (PySparkException, KqueueError) as error:
        raise click.ClickException(" ".join(str(error).partition("JVM stacktrace")[0].split())[:WORDS_MAX]) from None
    finally:
        if sys.stderr.isatty():
            click.echo("\r\x1b[K", err=True, nl=False)
        if not running:
            spark.stop()


def _running() -> bool:
    """Whether there is a session already; without pyspark there is none."""
    sql = sys.modules.get("pyspark.sql")
    return sql is not None and sql.SparkSession.getActiveSession() is not None
