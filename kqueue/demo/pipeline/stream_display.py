"""The pipeline demo's output: the bars of `kqueue demo`, and the status of the stream below them.

Without a terminal it prints plain lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from kqueue.base.clock import monotonic_s
from kqueue.demo.progress_display import ProgressDisplay
from kqueue.spark.jobs.delay_results import DelayProgress

LINE_EVERY_S = 5.0
WAIT_SHOWN_S = 5.0
REASONS_MAX = 4
VALUE_WIDTH = len("2013-01-01 00:00")


class StreamStatus(NamedTuple):
    """One moment of the stream.

    now_ms: time of the last sent event. sent: of `expected` events. sent_s, read_s: records per
        second. waited_s: for how long Spark has finished no batch.
    """

    now_ms: int | None
    sent: int
    expected: int
    sent_s: float
    read_s: float
    seen: DelayProgress
    waited_s: float = 0.0

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the rows: what, how much, a note."""
        seen = self.seen
        aside = sum(seen.quarantined.values())
        return [
            ("Time in 2013", moment(self.now_ms), f"done up to the watermark, {moment(seen.watermark_ms)}"),
            ("Events sent", f"{self.sent:,}", f"{self.sent_s:,.0f}/s, of {self.expected:,}"),
            ("Records read by Spark", f"{seen.records:,}", self._reading()),
            ("Hours done", f"{seen.hours:,}", f"{seen.airport_hours:,} of an airport"),
            ("In quarantine", f"{aside:,}", reasons_text(seen.quarantined)),
        ]

    def _reading(self) -> str:
        """Return the rate, or what the reading waits for: Spark reports a batch at its end."""
        if not self.seen.records:
            return f"Spark plans its first batch, for {self.waited_s:.0f} s"
        if not self.read_s and self.waited_s >= WAIT_SHOWN_S:
            return f"0/s, Spark works at a batch for {self.waited_s:.0f} s"
        return f"{self.read_s:,.0f}/s"

    def line(self) -> str:
        """Return the status as one line."""
        seen = self.seen
        return (
            f"{moment(self.now_ms)}: {self.sent:,} events sent, {seen.records:,} read ({self._reading()}), "
            f"watermark {moment(seen.watermark_ms)}, {seen.hours:,} hours done, "
            f"{sum(seen.quarantined.values()):,} in quarantine"
        )


class StreamDisplay(ProgressDisplay):
    """The demo's display with a status below its bars."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._facts: StreamStatus | None = None
        self._line_due_s = 0.0
        bars = self._bars
        self._bars = _Bars(self, *bars.columns, console=console, disable=bars.disable)

    def show(self, facts: StreamStatus) -> None:
        """Show this status from now on, or print it as a line every `LINE_EVERY_S` seconds."""
        self._facts = facts
        if not self.console.is_terminal and monotonic_s() >= self._line_due_s:
            self._line_due_s = monotonic_s() + LINE_EVERY_S
            self.say(facts.line())

    def below(self) -> RenderableType | None:
        """Return the table below the bars; None: there is no status yet."""
        if self._facts is None:
            return None
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True, min_width=VALUE_WIDTH)
        table.add_column(style="dim")  # only this column shrinks if there is no room
        for row in self._facts.rows():
            table.add_row(*(Text(cell, overflow="ellipsis", no_wrap=True) for cell in row))
        return Padding(table, (1, 0, 0, 2))


class _Bars(Progress):
    def __init__(self, display: StreamDisplay, *columns: object, **options: object) -> None:
        self._screen = display
        super().__init__(*columns, **options)  # type: ignore[arg-type]

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        below = self._screen.below()
        if below is not None:
            yield below


def moment(time_ms: float | None) -> str:
    """Return a time (ms since 1970) as ``2013-04-14 13:05``, UTC."""
    return "–" if time_ms is None else f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M}"


def reasons_text(quarantined: Mapping[str, int]) -> str:
    """Return the most frequent reasons in short: ``late 980, not JSON 88``."""
    ordered = sorted(quarantined.items(), key=lambda item: -item[1])
    shown = [f"{short(reason)} {count:,}" for reason, count in ordered[:REASONS_MAX]]
    left = sum(count for reason, count in ordered[REASONS_MAX:])
    return ", ".join([*shown, f"others {left:,}"] if left else shown)


def short(reason: str) -> str:
    """Return a reason without its explanation: ``late: told more than …`` becomes ``late``."""
    return "late" if reason.startswith("late:") else reason
