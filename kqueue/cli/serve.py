"""`kqueue serve`: runs a broker as a process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kqueue.base import events
from kqueue.base.errors import FolderInUse, InvalidTopic, KqueueError, ListenFailed, SettingError
from kqueue.base.log_event import LOG_FORMAT
from kqueue.base.names import check_topic
from kqueue.base.settings import INT_MAX
from kqueue.cli.completion import complete_settings
from kqueue.cli.console_process import ConsoleChoice, console_beside, console_options
from kqueue.cli.exit_status import INTERRUPTED
from kqueue.cli.schema_registry_process import RegistryChoice, schema_registry_beside, schema_registry_options
from kqueue.cli.signals import stop_on_signal
from kqueue.network.event_loop import BrokerEventLoop
from kqueue.supervisor.logs import given_form, log_to_stderr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kqueue.base.config import Config
    from kqueue.config.properties import SourcedValue

REMEDIES = {
    FolderInUse.__name__: "Stop the broker that uses it, or name another folder: kqueue serve --set log.dirs=FOLDER",
    ListenFailed.__name__: "Choose another address: kqueue serve --port PORT (0 takes a free one)",
}
WORKERS_MAX = 100
LOOPBACK = "127.0.0.1"
logger = logging.getLogger("kqueue.server")


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
    shell_complete=complete_settings("broker", suffix="="),
    help="A setting; overrides file and environment; may be repeated.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Listen on this port of the loopback address, in place of `listeners`; 0 takes a free one.",
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
@click.option(
    "--workers",
    metavar="N",
    type=click.IntRange(1, WORKERS_MAX),
    help="Serve with N brokers, each in a process of its own and with a part of the partitions.",
)
@console_options
@schema_registry_options
@click.option(
    "--check",
    is_flag=True,
    help="Print which listeners are open to whom, with what access, and start nothing.",
)
@click.pass_context
def serve(
    ctx: click.Context,
    file: Path | None,
    pairs: tuple[str, ...],
    port: int | None,
    as_version: str | None,
    topics: tuple[str, ...],
    workers: int | None,
    console: ConsoleChoice | None,
    registry: RegistryChoice | None,
    check: bool,
) -> None:
    """Run a broker until Ctrl-C or TERM stops it cleanly.

    \b
      kqueue serve
      kqueue serve server.properties
      kqueue serve --port 9093
      kqueue serve --topic orders:3 --topic payments
      kqueue serve --set log.dirs=/var/lib/kqueue --set num.partitions=4
      KQUEUE_LISTENERS=PLAINTEXT://127.0.0.1:9093 kqueue serve
      kqueue serve --workers 4 --topic orders:8

    Settings have Kafka's names, and FILE has the form of its server.properties. Environment
    variables override the file (log.dirs is KQUEUE_LOG_DIRS), --set overrides both. By default the
    broker listens on localhost:9092 and keeps its data in ./kqueue-data.

    With --workers N new partitions are spread over N brokers of this machine, one per core say.
    Clients connect to the same address; the workers' own ports are the N after it (9093, 9094,
    ...). Worker 0 has the data folder itself, with the topics of a single broker, the others have
    folders in it. A worker that dies is started again. Serve the folder with as many workers, or
    more, from then on: `kqueue cluster reassign` moves partitions.

    --console serves pages in a browser at http://127.0.0.1:8080/: see `kqueue console --help`;
    --schema-registry a registry at http://127.0.0.1:8081: see `kqueue schema-registry --help`.

    --check reads settings, key stores, users and ACLs and says who could do what. Its exit status
    is 1 if other machines reach something that is not secured, 2 if the broker would not start.
    """
    partitions_by_topic, verbose = dict(map(parse_topic, topics)), bool(ctx.find_root().params.get("verbose"))
    log = log_to_stderr(verbose=verbose, label=None if workers is None else "supervisor")
    try:
        from kqueue.config.properties import make_config

        given = _given_values(file, pairs, port, as_version)
        log.use(given_form(given))
        if check:
            from kqueue.cli.exposure_report import report_exposure

            ctx.exit(report_exposure(make_config(given)))
        if workers is not None:
            from kqueue.supervisor.supervisor import serve_workers

            with _companions(console, registry, lambda: make_config(given), workers):
                if serve_workers(given, workers, partitions_by_topic, verbose=verbose) == signal.SIGINT:
                    ctx.exit(INTERRUPTED)
            return
        config = make_config(given)
        log.use(config[LOG_FORMAT])  # a config provider may have resolved it
        with _companions(console, registry, lambda: config), asyncio.Runner(loop_factory=BrokerEventLoop) as runner:
            runner.run(_serve(config, partitions_by_topic))
    except BrokenPipeError:  # the reader of the output has ended
        raise
    except (KqueueError, OSError) as error:
        failure = _failure(error)
        if log.is_json:  # each line is one object
            events.BROKER_FAILED.log(logger, "%s", error=failure.message)
            ctx.exit(failure.exit_code)
        log.use(None)
        raise failure from None


@contextlib.contextmanager
def _companions(
    console: ConsoleChoice | None, registry: RegistryChoice | None, config: Callable[[], Config], workers: int = 1
) -> Iterator[None]:
    with console_beside(console, config, workers), schema_registry_beside(registry, config):
        yield


def _failure(error: KqueueError | OSError) -> click.ClickException:
    """Return why the broker ends, with what to do."""
    kind = getattr(error, "kind", "") or type(error).__name__  # of a worker's error, or its own
    remedy = REMEDIES.get(kind)
    text = f"{error}. {remedy}" if remedy else str(error)
    return BadSetting(text) if kind == SettingError.__name__ else click.ClickException(text)


def _given_values(
    file: Path | None, pairs: tuple[str, ...], port: int | None, as_version: str | None
) -> dict[str, SourcedValue]:
    """Return the settings of file, environment and command line. Raises: SettingError."""
    from kqueue.config.properties import read_values

    if port is not None:
        pairs = (*pairs, f"listeners=PLAINTEXT://{LOOPBACK}:{_checked_port(port, pairs)}")
    if as_version is not None:
        pairs = (*pairs, f"kqueue.as.version={as_version}")
    return read_values(file, os.environ, pairs)


def _checked_port(port: int, pairs: Iterable[str]) -> int:
    """Return `port`. Raises UsageError: `listeners` are given too."""
    if any(pair.partition("=")[0].strip() == "listeners" for pair in pairs):
        raise click.UsageError("--port and --set listeners=... exclude each other: the port is part of listeners")
    return port


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


async def _serve(config: Config, topics: Mapping[str, int | None]) -> None:
    from kqueue.app import Server
    from kqueue.supervisor.initial_topics import create_topics
    from kqueue.supervisor.service_manager import ServiceManager
    from kqueue.workers.process_setup import raise_open_files_limit, tune_garbage_collector

    raise_open_files_limit()
    server = Server(config)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    manager = ServiceManager()
    with stop_on_signal(lambda: loop.call_soon_threadsafe(stop.set)):
        await server.start()
        tune_garbage_collector()
        try:
            await create_topics(server, topics)
            with manager.serving():
                await stop.wait()
        finally:
            await server.stop()
            manager.close()
