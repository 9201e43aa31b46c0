"""`kqueue serve`: runs a broker as a process."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kqueue.base.errors import FolderInUse, InvalidTopic, KqueueError, ListenFailed, SettingError, TopicAlreadyExists
from kqueue.base.names import check_topic
from kqueue.base.settings import INT_MAX
from kqueue.cli.signals import stop_on_signal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kqueue.app import Server
    from kqueue.base.settings import Config

REMEDIES: dict[type[Exception], str] = {
    FolderInUse: "Stop the broker that uses it, or name another folder: kqueue serve --set log.dirs=FOLDER",
    ListenFailed: "Choose another address: kqueue serve --set listeners=PLAINTEXT://127.0.0.1:PORT (port 0 takes a "
    "free one)",
}
LOG_FORMAT = "%(asctime)s %(levelname)-7s %(message)s"


class BadSetting(click.ClickException):
    """A setting is invalid: one sentence, without click's usage line."""

    exit_code = 2


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting; overrides file and environment; may be repeated.",
)
@click.option("--as-version", metavar="VERSION", help="Serve only the API versions of this Kafka: 2.8, 3.9 or 4.3.")
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="NAME[:PARTITIONS]",
    help="Create this topic unless it exists; may be repeated.",
)
@click.pass_context
def serve(
    ctx: click.Context, file: Path | None, pairs: tuple[str, ...], as_version: str | None, topics: tuple[str, ...]
) -> None:
    """Run a broker until Ctrl-C or TERM stops it cleanly.

    \b
      kqueue serve
      kqueue serve server.properties
      kqueue serve --topic orders:3 --topic payments
      kqueue serve --set log.dirs=/var/lib/kqueue --set num.partitions=4
      KQUEUE_LISTENERS=PLAINTEXT://127.0.0.1:9093 kqueue serve

    Settings have Kafka's names, and FILE has the form of its server.properties. Environment
    variables override the file (log.dirs is KQUEUE_LOG_DIRS), --set overrides both. By default the
    broker listens on 127.0.0.1:9092 and keeps its data in ./kqueue-data.
    """
    partitions_by_topic = dict(map(parse_topic, topics))
    _log_to_stderr(verbose=bool(ctx.find_root().params.get("verbose")))
    try:
        from kqueue.config.properties import read_config

        if as_version is not None:
            pairs = (*pairs, f"kqueue.as.version={as_version}")
        config = read_config(file, os.environ, pairs)
        with asyncio.Runner(
            loop_factory=asyncio.SelectorEventLoop
        ) as runner:  # Windows' default loop has no add_reader
            runner.run(_serve(config, partitions_by_topic))
    except SettingError as error:
        raise BadSetting(str(error)) from None
    except (KqueueError, OSError) as error:
        remedy = REMEDIES.get(type(error))
        raise click.ClickException(f"{error}. {remedy}" if remedy else str(error)) from None


def parse_topic(text: str) -> tuple[str, int | None]:
    """Parse ``orders`` or ``orders:3``; partitions None: num.partitions. Raises BadParameter."""
    name, colon, count = text.partition(":")
    if colon and not (count.isdecimal() and 0 < int(count) <= INT_MAX):
        raise click.BadParameter(
            f"{text!r}: write NAME or NAME:PARTITIONS, with 1 partition or more", param_hint="--topic"
        )
    try:
        return check_topic(name), int(count) if colon else None
    except InvalidTopic as error:
        raise click.BadParameter(str(error), param_hint="--topic") from None


async def _create(server: Server, topics: Mapping[str, int | None]) -> None:
    """Create the missing topics. Raises KqueueError: a topic cannot be created."""
    from kqueue.broker.topics import NO_COUNT, NewTopic

    if topics and not server.broker.cluster.is_alone:
        await server.ready()  # until then it is fenced, and may be the only broker
    for name, count in topics.items():
        try:
            await server.result(server.broker.topics.create(NewTopic(name, NO_COUNT if count is None else count)))
        except TopicAlreadyExists:
            continue
        logging.getLogger("kqueue.server").info("created topic %s", name)


async def _serve(config: Config, topics: Mapping[str, int | None]) -> None:
    from kqueue.app import Server
    from kqueue.workers.process_setup import raise_open_files_limit, tune_garbage_collector

    raise_open_files_limit()
    server = Server(config)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    with stop_on_signal(lambda: loop.call_soon_threadsafe(stop.set)):
        await server.start()
        tune_garbage_collector()
        try:
            await _create(server, topics)
            await stop.wait()
        finally:
            await server.stop()


def _log_to_stderr(*, verbose: bool) -> None:
    logging.basicConfig(format=LOG_FORMAT, level=logging.DEBUG if verbose else logging.INFO, force=True)
