"""What the commands share: options, the session, and how progress is told."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kqueue.base.errors import KqueueError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_BOOTSTRAP = "localhost:9092"

bootstrap_option = click.option(
    "-b", "--bootstrap-server", "bootstrap", metavar="HOST:PORT[,…]", default=DEFAULT_BOOTSTRAP, envvar="KQUEUE_BOOTSTRAP",
    show_default=True, show_envvar=True, help="The broker to talk to; of a cluster, any of its brokers.",
)  # fmt: skip
master_option = click.option(
    "--master", default="local[*]", show_default=True, help="Where Spark runs: local[*], local[2], spark://HOST:PORT, …"
)
path_option = click.option("--path", metavar="FOLDER", help="Read a data folder of kqueue or Kafka, without a broker.")
topics_option = click.option("-t", "--topic", "topics", multiple=True, required=True, help="The topic; may be repeated.")


def source_of(topics: tuple[str, ...], path: str | None, bootstrap: str) -> dict[str, str]:
    place = {"kafka.bootstrap.servers": bootstrap} if path is None else {"path": absolute(path)}
    return {**place, "subscribe": ",".join(topics)}


def absolute(folder: str) -> str:
    """The folder as seen from here: Spark's processes may stand elsewhere. What is in no file system of this machine stays as it is."""
    return folder if "://" in folder else str(Path(folder).absolute())


def tell(stage: str, rows: int) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{stage}: {rows:,} rows", err=True, nl=False)


@contextlib.contextmanager
def session(master: str) -> Iterator[SparkSession]:
    """A session for one command. Errors become one sentence."""
    from kqueue.spark.session import lent_session

    try:
        with lent_session("kqueue pipeline", master) as spark:
            yield spark
    except KqueueError as error:
        raise click.ClickException(str(error)) from None
    finally:
        if sys.stderr.isatty():
            click.echo("\r\x1b[K", err=True, nl=False)
