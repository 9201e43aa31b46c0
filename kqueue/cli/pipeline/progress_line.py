"""The progress of a job on standard error: one line on a terminal, else a line now and then."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TextIO

import click

from kqueue.base.clock import monotonic_s
from kqueue.cli.output import new_console

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PERIOD_S = 10.0
"""Between two lines where there is no terminal: short jobs print none."""


@contextlib.contextmanager
def kept_stderr() -> Iterator[TextIO]:
    """Yield standard error under a descriptor of its own.

    While Spark starts, what Java writes to descriptor 2 goes to a file; the progress must not.
    """
    try:
        number = os.dup(sys.stderr.fileno())
    except (OSError, ValueError):  # no file
        yield sys.stderr
        return
    with os.fdopen(number, "w", buffering=1, encoding=sys.stderr.encoding, errors=sys.stderr.errors) as kept:
        yield kept


class ProgressLine:
    """The progress of a job: stage, elapsed time, records, total, and rate.

    Args: output: None: standard error.
    """

    def __init__(self, output: TextIO | None = None) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        output = sys.stderr if output is None else output
        console = new_console(output)
        self._lines = None if console.is_terminal else PeriodicLines(lambda line: click.echo(line, file=output))
        self._progress: Progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[status]}", markup=False),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task: TaskID = self._progress.add_task("", total=None, status="")

    def __enter__(self) -> ProgressLine:
        if self._lines is not None:
            self._lines.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
        if self._lines is not None:
            self._lines.end()

    def say(self, sentence: str) -> None:
        """Print a sentence on standard error, above the line if there is one."""
        self._progress.console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    def clear(self) -> None:
        """Hide the line until the next update."""
        if self._lines is not None:
            self._lines.show("")
        self._progress.stop()

    def start(self, stage: str, *, has_lines: bool = True) -> None:
        """Show a new stage. has_lines: without a terminal too."""
        if self._lines is not None:
            self._lines.show(stage if has_lines else "")
        self._progress.start()
        self._progress.reset(self._task, description=stage, total=None, status="")

    def update(self, stage: str, rows: int, total: int | None) -> None:
        """Show the records that a stage has processed; `total` None: unknown."""
        task = self._progress.tasks[0]
        if task.description != stage:
            self.start(stage)
        elapsed = task.elapsed or 0
        speed = f", {rows / elapsed:,.0f}/s" if rows and elapsed > 1 else ""
        of = "" if total is None else f" of {total:,}"
        remaining = None if total is None or rows >= total else total  # later stages take time too
        counts = f"{rows:,}{of} records" if rows or total else ""
        if self._lines is not None:
            self._lines.show(stage, counts)
        self._progress.update(self._task, completed=rows, total=remaining, status=f"{counts}{speed}" if counts else "")


class PeriodicLines:
    """Prints where a job is every `PERIOD_S`, also while the job reports nothing.

    Args:
        write: prints a line.
        clock: seconds, monotonic.
    """

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = monotonic_s) -> None:
        self._write = write
        self._clock = clock
        self._began_s = clock()
        self._stage = ""
        self._counts = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self) -> None:
        """Print from now on."""
        self._thread.start()

    def end(self) -> None:
        """Print nothing more."""
        self._over.set()
        self._thread.join()

    def show(self, stage: str, counts: str = "") -> None:
        """Take what the next line says."""
        self._stage, self._counts = stage, counts

    def line(self) -> str:
        """Return ``Audit: 3 of 10 records, after 20 s``; "": nothing is known yet."""
        if not self._stage:
            return ""
        return f"{self._stage}: {self._counts}{', ' if self._counts else ''}after {self._clock() - self._began_s:.0f} s"

    def _run(self) -> None:
        while not self._over.wait(PERIOD_S):
            if line := self.line():
                self._write(line)
