"""Shared by the pipeline commands: options, and the Spark session."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from kqueue.base.errors import KqueueError
from kqueue.base.patterns import compile_pattern
from kqueue.cli.completion import complete_topics
from kqueue.cli.connect import (
    BOOTSTRAP_TIMEOUT_MS,
    addresses,
    client_access,
    cluster_metadata,
    parse_name_values,
)
from kqueue.cli.exit_status import INTERRUPTED
from kqueue.cli.pipeline.progress_line import ProgressLine, kept_stderr
from kqueue.cli.signals import interrupt_on_signal
from kqueue.spark.errors import OptionError, SqlRefused
from kqueue.spark.options import KAFKA, SECURE
from kqueue.spark.pythons import is_local, named_archive
from kqueue.spark.remote import is_remote
from kqueue.spark.source.options import API_TIMEOUT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kqueue.spark.stores import Location

LOCATION = ".location"
"""The ending of properties' names that are files, which Spark's processes find by whole paths."""
NOISE_SHOWN = 100_000
NOT_STARTED = "JAVA_GATEWAY_EXITED"
"""Spark's name of the error when Java has ended before it could be spoken to."""
SETTINGS = "kqueue.spark_settings"
"""The key in a command's context of the settings of Spark that its options say."""
EXECUTOR_TIMEOUT = "kqueue.spark_executor_timeout"
"""The key of the seconds that a job without executors waits; None: without end."""
BROKER_OPTIONS = {"bootstrap": "--bootstrap-server", "command_config": "--command-config"}
"""The options that a job which reads a folder has no use for."""
F = TypeVar("F", bound=Callable[..., Any])

folder_option = click.option(
    "--path", metavar="FOLDER", help="Read a data folder of kqueue or Kafka, without a broker."
)
path_option = click.option(
    "--path", metavar="FOLDER|URL", help="Read a data folder of kqueue or Kafka, or a tier, without a broker."
)
topics_option = click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    required=True,
    shell_complete=complete_topics,
    help="The topic; may be repeated.",
)
some_topics_option = click.option(
    "-t", "--topic", "topics", multiple=True, shell_complete=complete_topics, help="A topic; may be repeated."
)
pattern_option = click.option("--pattern", metavar="REGEX", help="Topics whose whole names match.")

s3_endpoint_option = click.option(
    "--s3-endpoint",
    metavar="URL",
    help="The server of an s3:// FOLDER; keys and the region come from AWS_... variables.  [default: AWS]",
)


def location(
    folder: str, s3_endpoint: str | None, checkpoint: str | None = None, catalog: str | None = None
) -> Location:
    """Return where a job's results are.

    Raises: BadParameter: that is no place, or --s3-endpoint is for another one. ClickException: a
        package is missing.
    """
    from kqueue.spark.stores import Location, check_url, open_store
    from kqueue.spark.stores.s3 import SCHEME

    try:
        check_url(folder)
    except OptionError as error:
        raise click.BadParameter(str(error), param_hint="FOLDER") from None
    for option, given in (("--checkpoint", checkpoint), ("--catalog", catalog)):
        if given is not None and re.match(r"\w+:/", given):
            raise click.BadParameter(f"expected a mounted folder, found {given!r}", param_hint=option)
    storage = {} if s3_endpoint is None else {"AWS_ENDPOINT_URL": s3_endpoint}
    whole = None if checkpoint is None else absolute(checkpoint)
    place = Location(absolute(folder), storage, whole, None if catalog is None else absolute(catalog))
    if s3_endpoint is not None and not place.url.startswith(SCHEME):
        raise click.UsageError(f"--s3-endpoint is for a FOLDER such as {SCHEME}BUCKET/PREFIX, and this is {folder}")
    try:
        if place.url.startswith(SCHEME):
            open_store(place, None)
    except OptionError as error:
        raise click.BadParameter(str(error), param_hint="FOLDER") from None
    except KqueueError as error:
        raise click.ClickException(str(error)) from None
    return place


def _keep_settings(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> None:
    """Have `session` start Spark with the settings of an option."""
    if not given:
        return
    kept: dict[str, str] = context.meta.setdefault(SETTINGS, {})
    if parameter.name == "conf":
        kept |= parse_name_values(given, "--conf")
    elif parameter.name == "archives":
        kept["spark.archives"] = ",".join(map(named_archive, given))
    else:
        kept["spark.jars.packages"] = ",".join(given)


def _keep_timeout(context: click.Context, _parameter: click.Parameter, given: float | None) -> None:
    context.meta[EXECUTOR_TIMEOUT] = given


def master_option(command: F) -> F:
    """Add ``--master`` to a command, as its argument `master`, and ``--archives``, ``--conf``,
    ``--packages`` and ``--executor-timeout``, which `session` takes.
    """
    command = click.option(
        "--executor-timeout",
        metavar="SECONDS",
        type=click.FloatRange(min=0, min_open=True),
        expose_value=False,
        callback=_keep_timeout,
        help="Fail when a cluster has given no executor for so long.  [default: wait, and say so]",
    )(command)
    for names, metavar, words in (
        ("--packages", "MAVEN", "Packages of Maven for Spark, as spark-submit takes them; may be repeated."),
        ("--conf", "NAME=VALUE", "A setting of Spark; may be repeated."),
        ("--archives", "FILE", "What `kqueue pipeline pack` made, for workers that have no kqueue."),
    ):
        command = click.option(
            names, metavar=metavar, multiple=True, expose_value=False, callback=_keep_settings, help=words
        )(command)
    return click.option(
        "--master",
        metavar="URL",
        help="Where Spark runs: local[2], spark://HOST:PORT, k8s://…, sc://HOST:PORT (Spark Connect)  "
        "[default: as spark-submit or spark-defaults.conf say, else local[*]]",
    )(command)


def broker_options(bootstrap: str) -> dict[str, str]:
    """Return the options of source and sink that name the brokers, and how to connect to them."""
    properties = {KAFKA + name: value for name, value in client_access().properties.items()}
    security = {
        name: absolute(value) if name.endswith(LOCATION) else value
        for name, value in properties.items()
        if name.startswith(SECURE)
    }
    return {"kafka.bootstrap.servers": bootstrap, **security}


def location_options(path: str | None, bootstrap: str) -> dict[str, str]:
    """Return the options that name the brokers or the data folder.

    Raises: UsageError: the command line has both; the variable KQUEUE_BOOTSTRAP does not count.
    """
    if path is not None:
        for parameter, option in BROKER_OPTIONS.items():
            if is_given(parameter):
                raise click.UsageError(f"--path reads a folder without a broker: leave out {option}, or --path")
    return broker_options(bootstrap) if path is None else {"path": absolute(path)}


def is_given(parameter: str) -> bool:
    """Return whether the command line has a parameter of the running command."""
    context = click.get_current_context(silent=True)
    return context is not None and context.get_parameter_source(parameter) is ParameterSource.COMMANDLINE


def source_options(
    topics: tuple[str, ...], path: str | None, bootstrap: str, pattern: str | None = None
) -> dict[str, str]:
    """Return the options of the source. Raises UsageError: both --topic and --pattern are given."""
    if topics and pattern is not None:
        raise click.UsageError("--topic and --pattern contradict each other: give one of them")
    chosen = {"subscribe": ",".join(topics)} if topics else {}
    if pattern is not None:
        chosen["subscribePattern"] = whole_name(pattern)
    return {**location_options(path, bootstrap), **chosen}


def whole_name(pattern: str) -> str:
    """Return a pattern that matches whole names only, for the source, which finds it anywhere.
    Raises UsageError: not a regular expression.
    """
    try:
        compile_pattern(pattern)
    except re.error as error:
        raise click.UsageError(f"--pattern: {pattern!r} is no regular expression: {error}") from None
    flags = re.match(r"(?:\(\?[aiLmsux]+\))*", pattern)
    assert flags is not None
    return f"{flags[0]}^(?:{pattern[flags.end() :]})$"


def absolute(folder: str) -> str:
    """Return the absolute path, because Spark's processes may have another working directory.

    A URL is returned unchanged.
    """
    return folder if "://" in folder else str(Path(folder).absolute())


def report_unread(unread: str) -> None:
    """Print on standard error what a job left out of a folder in use; "": nothing."""
    if unread:
        click.echo(f"Note: {unread}.", err=True)


# --- progress

_progress_line: ProgressLine | None = None


def report_progress(stage: str, rows: int, total: int | None = None, /) -> None:
    """Show the progress of the command in a `session`; does nothing without a terminal."""
    if _progress_line is not None:
        _progress_line.update(stage.capitalize(), rows, total)


def hide_progress() -> None:
    """Remove the line, for a command that shows more than a line."""
    if _progress_line is not None:
        _progress_line.__exit__()


# --- the session


@contextlib.contextmanager
def session(
    master: str | None,
    *,
    bootstrap: str | None = None,
    folders: Iterable[str | None] = (),
    place: Location | None = None,
    is_written: bool = True,
    check: Callable[[], None] | None = None,
) -> Iterator[SparkSession]:
    """Yield a Spark session for one command, with progress.

    Errors become one sentence and exit status 1; Ctrl-C and TERM exit with 130. On a cluster the
    executors are checked first, and a job that gets none says so.

    Args:
        bootstrap: the brokers of the job. Before Spark starts, one of them has to answer, to accept
            how the command connects, and to be reached under the address that it advertises; None:
            the job needs none.
        folders: what executors have to see as the driver does; None: nothing.
        place: where the job's results are; None: on the driver. Before Spark starts, the server of
            an object store has to answer.
        is_written: the job writes there; else it only reads.
        check: called before Spark starts, which takes seconds; raises what is wrong by then.
    """
    global _progress_line
    from kqueue.spark.reachability import check_advertised
    from kqueue.spark.session import import_pyspark, job_session
    from kqueue.spark.stores.s3 import check_server

    try:
        import_pyspark()
        _check_for_master(master)
        if bootstrap is not None:
            check_advertised(_advertised(bootstrap))
        if place is not None:
            check_server(place)
        if check is not None:
            check()
        with (
            interrupt_on_signal() as reinstall_signal_handlers,
            kept_stderr() as output,
            ProgressLine(output) as progress_line,
            contextlib.ExitStack() as stack,
        ):
            _progress_line = progress_line
            progress_line.start("Starting Spark")
            with _java_output_hidden():
                spark = stack.enter_context(job_session("kqueue pipeline", master, _settings()))
            from kqueue.spark.console_output import lost_java_silenced, query_errors_silenced
            from kqueue.spark.executor_wait import executors_awaited

            stack.enter_context(query_errors_silenced())
            stack.enter_context(lost_java_silenced())
            reinstall_signal_handlers()
            stack.enter_context(executors_awaited(spark, progress_line.say, _executor_timeout()))
            if is_remote(spark) or not is_local(spark.sparkContext.master):
                # `executors_awaited` says why a job waits; behind Spark Connect it can't
                progress_line.start("Waiting for executors", has_lines=is_remote(spark))
                _check_executors(spark, bootstrap, folders, place, is_written)
            progress_line.clear()
            yield spark
    except SqlRefused as error:
        raise click.BadParameter(str(error), param_hint="--events") from None
    except KqueueError as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    finally:
        _progress_line = None


def _settings() -> dict[str, str]:
    context = click.get_current_context(silent=True)
    return {} if context is None else context.meta.get(SETTINGS, {})


def _executor_timeout() -> float | None:
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(EXECUTOR_TIMEOUT)


def _check_executors(
    spark: SparkSession,
    bootstrap: str | None,
    folders: Iterable[str | None],
    place: Location | None,
    is_written: bool,
) -> None:
    from kqueue.spark.executors import check_executors

    whole = [absolute(folder) for folder in folders if folder is not None]
    if bootstrap is None:
        check_executors(spark, folders=whole, place=place, is_written=is_written)
        return
    named, advertised = map(str, addresses(bootstrap)), _advertised(bootstrap)
    check_executors(spark, bootstrap=named, brokers=advertised, folders=whole, place=place, is_written=is_written)


def _advertised(bootstrap: str) -> list[str]:
    """Return HOST:PORT of each broker, as it advertises itself. Raises: ClickException."""
    return [f"{node.host}:{node.port}" for node in cluster_metadata(bootstrap).brokers.values()]


def for_check(source: dict[str, str]) -> dict[str, str]:
    """Return the options of the source for a look before Spark starts, which waits for seconds."""
    return {**source, API_TIMEOUT: str(BOOTSTRAP_TIMEOUT_MS)}


def _check_for_master(master: str | None) -> None:
    """Raise UsageError if an option is for a cluster, and --master says that there is none."""
    if master is None or not is_local(master):
        return
    for parameter in ("executor_timeout", "archives"):
        if is_given(parameter):
            option = parameter.replace("_", "-")
            raise click.UsageError(f"--{option} is for a cluster, and --master {master} runs Spark on this machine")


@contextlib.contextmanager
def _java_output_hidden() -> Iterator[None]:
    """Redirect Java's standard error to a file; if Java does not start, say why it says that is."""
    from kqueue.spark.console_output import stderr_to
    from kqueue.spark.errors import PipelineFailed, java_reason

    with tempfile.NamedTemporaryFile() as noise:
        try:
            with stderr_to(Path(noise.name)):
                yield
        except PipelineFailed as error:
            reason = java_reason(noise.read(NOISE_SHOWN).decode(errors="replace"))
            if NOT_STARTED not in str(error) or not reason:
                raise
            raise PipelineFailed(f"Java, in which Spark runs, did not start: {reason}") from None
