"""What the commands share: options, the session, and how progress is told."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kqueue.base.errors import KqueueError
from kqueue.cli.signals import interrupting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.progress import Progress, TaskID

DEFAULT_BOOTSTRAP = "localhost:9092"
INTERRUPTED = 130
NOISE_SHOWN = 2_000

bootstrap_option = click.option(
    "-b", "--bootstrap-server", "bootstrap", metavar="HOST:PORT[,…]", default=DEFAULT_BOOTSTRAP, envvar="KQUEUE_BOOTSTRAP",
    show_default=True, show_envvar=True, help="The broker to talk to; of a cluster, any of its brokers.",
)  # fmt: skip
master_option = click.option(
    "--master", default="local[*]", show_default=True, help="Where Spark runs: local[*], local[2], spark://HOST:PORT, …"
)
path_option = click.option("--path", metavar="FOLDER", help="Read a data folder of kqueue or Kafka, without a broker.")
topics_option = click.option(
    "-t", "--topic", "topics", multiple=True, required=True, help="The topic; may be repeated."
)
some_topics_option = click.option("-t", "--topic", "topics", multiple=True, help="A topic; may be repeated.")
pattern_option = click.option("--pattern", metavar="REGEX", help="Topics whose whole names match.")


def location_options(path: str | None, bootstrap: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": bootstrap} if path is None else {"path": absolute(path)}


def source_options(
    topics: tuple[str, ...], path: str | None, bootstrap: str, pattern: str | None = None
) -> dict[str, str]:
    """Options of the source. Raises UsageError: topics are named in two ways; with neither, nothing
    is said of topics.
    """
    if topics and pattern is not None:
        raise click.UsageError("--topic and --pattern contradict each other: give one of them")
    chosen = {"subscribe": ",".join(topics)} if topics else {}
    return {**location_options(path, bootstrap), **chosen, **({} if pattern is None else {"subscribePattern": pattern})}


def absolute(folder: str) -> str:
    """The folder as seen from here: Spark's processes may stand elsewhere. What is in no file
    system of this machine stays as it is.
    """
    return folder if "://" in folder else str(Path(folder).absolute())


# --- progress


class ProgressLine:
    """A line on standard error while a command works: what it does, for how long, how many records,
    of how many, how quickly.
    """

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        self._progress: Progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[told]}", markup=False),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task: TaskID = self._progress.add_task("", total=None, told="")

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Show nothing until there is something to say."""
        self._progress.stop()

    def say(self, what: str) -> None:
        self._progress.start()
        self._progress.reset(self._task, description=what, total=None, told="")

    def tell(self, stage: str, rows: int, total: int | None) -> None:
        task = self._progress.tasks[0]
        if task.description != stage:
            self.say(stage)
        elapsed = task.elapsed or 0
        speed = f", {rows / elapsed:,.0f}/s" if rows and elapsed > 1 else ""
        of = "" if total is None else f" of {total:,}"
        left = None if total is None or rows >= total else total  # what comes after reading takes time too
        self._progress.update(
            self._task, completed=rows, total=left, told=f"{rows:,}{of} records{speed}" if rows or total else ""
        )


_screen: ProgressLine | None = None


def tell(stage: str, rows: int, total: int | None = None, /) -> None:
    """Show how far the command is that runs in a `session`; nothing where there is no terminal."""
    if _screen is not None:
        _screen.tell(stage.capitalize(), rows, total)


def hide_progress() -> None:
    """Take the line off the screen, for a command that shows more than a line."""
    if _screen is not None:
        _screen.__exit__()


# --- the session


@contextlib.contextmanager
def session(master: str, *, exit_code: int = 1) -> Iterator[SparkSession]:
    """A session for one command, with progress. Errors become one sentence and this exit status;
    Ctrl-C and TERM end it with 130.
    """
    global _screen
    from kqueue.spark.session import job_session

    try:
        with interrupting() as take_back, ProgressLine() as screen, contextlib.ExitStack() as stack:
            _screen = screen
            screen.say("Starting Spark")
            with _java_output_hidden():
                spark = stack.enter_context(job_session("kqueue pipeline", master))
            from kqueue.spark.console_output import query_errors_silenced

            stack.enter_context(query_errors_silenced())
            take_back()
            screen.clear()
            yield spark
    except KqueueError as error:
        click.echo(f"Error: {error}", err=True)
        raise click.exceptions.Exit(exit_code) from None
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    finally:
        _screen = None


@contextlib.contextmanager
def _java_output_hidden() -> Iterator[None]:
    """Java's own words, which it writes to standard error as long as it lives, go to a file; they
    are shown if it can't start.
    """
    from kqueue.spark.console_output import stderr_to

    with tempfile.NamedTemporaryFile() as noise:
        try:
            with stderr_to(Path(noise.name)):
                yield
        except Exception:
            click.echo(noise.read(NOISE_SHOWN), err=True, nl=False)
            raise
