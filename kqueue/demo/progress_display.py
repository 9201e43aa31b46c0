"""The demo's output: a bar per step and one table at the end; plain lines without a terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from kqueue.base.clock import monotonic_s


class Step:
    """One running step: `show(done)` moves its bar; `seconds` is set at its end."""

    def __init__(self, show: Callable[[int], None]) -> None:
        self.show = show
        self.seconds = 0.0


class ProgressDisplay:
    """Shows the bars while it is entered as a context manager."""

    TITLE_WIDTH = 42

    def __init__(self, console: Console) -> None:
        self.console = console
        self._bars = Progress(
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[count]}", markup=False),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> ProgressDisplay:
        self._bars.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._bars.stop()

    def say(self, text: str) -> None:
        """Print a line of text above the bars."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    @contextlib.contextmanager
    def step(self, title: str, total: int = 1) -> Iterator[Step]:
        """Show one step; its bar is full when the block ends without an error."""
        task = self._bars.add_task(title.ljust(self.TITLE_WIDTH), total=total, count="")
        step = Step(lambda done: self._show(task, min(done, total), total))
        started_s = monotonic_s()
        try:
            yield step
        finally:
            step.seconds = monotonic_s() - started_s
        self._finish(task, title, total, step.seconds)

    def _finish(self, task: TaskID, title: str, total: int, seconds: float) -> None:
        self._show(task, total, total)
        if not self.console.is_terminal:
            self.say(f"{title}: done in {seconds:.1f} s")

    def _show(self, task: TaskID, done: int, total: int) -> None:
        count = f"{done:>{len(str(total))}}/{total}" if total > 1 else ""
        self._bars.update(task, completed=done, count=count)

    def table(self, title: str, rows: list[tuple[str, str, str]]) -> None:
        """Print the results: what, how much, how fast or a note."""
        table = Table(title=title, title_justify="left", title_style="bold", show_header=False, pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(style="dim")
        for row in rows:
            table.add_row(*map(Text, row))
        self.console.print(table)
