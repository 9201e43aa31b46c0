"""Progress bars on standard error while much is read; nothing without a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from kqueue.cli.output import new_console


def progress_bar(title: str) -> contextlib.AbstractContextManager[Callable[[int, int], None]]:
    """Yield a function that receives the bytes that are done, and their total."""
    return _bar(title, DownloadColumn(), TransferSpeedColumn())


def count_bar(title: str) -> contextlib.AbstractContextManager[Callable[[int, int], None]]:
    """As `progress_bar`, for a number of things."""
    return _bar(title, MofNCompleteColumn())


@contextlib.contextmanager
def _bar(title: str, *figures: ProgressColumn) -> Iterator[Callable[[int, int], None]]:
    console = new_console(sys.stderr)
    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        *figures,
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
    with progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
