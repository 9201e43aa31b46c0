"""The figures of several brokers under the same loads: ratios with their spread, tables, JSON.

Each broker has a sample of a row from each round. A ratio says how many times better ours is, for
rates and for costs alike: 2 is twice the rate, or half the cost. It is taken round by round, so
that what slows the machine for minutes slows both.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Column, Table

from benchmarks.results import Conditions, short


class Ratio(NamedTuple):
    """The median of the rounds, the least and the most."""

    median: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.least:.2f}-{self.most:.2f})"


class Measure(NamedTuple):
    """What a load yields a figure of."""

    unit: str
    more_is_better: bool


@dataclass
class ComparedRow:
    """One figure of a load: the samples of each broker, round by round."""

    load: str
    unit: str
    more_is_better: bool
    samples: dict[str, list[float]] = field(default_factory=dict)

    def ratio(self, ours: str, theirs: str) -> Ratio | None:
        """Return how many times better `ours` is than `theirs`; None: one has no samples."""
        pairs = list(zip(self.samples.get(ours, []), self.samples.get(theirs, []), strict=False))
        if not pairs:
            return None
        each = [our / their if self.more_is_better else their / our for our, their in pairs]
        return Ratio(statistics.median(each), min(each), max(each))

    def middle(self, column: str) -> str:
        """Return the median of a broker's samples; empty: there are none."""
        samples = self.samples.get(column)
        return short(statistics.median(samples)) if samples else ""


@dataclass
class Comparison:
    """A whole run.

    `build`: of kqueue. `compared`: the columns that each of ours is compared with. `skipped`: peers
    that can't be run, and `failed`: loads that a broker failed, each with the reason.
    """

    started_at: str
    build: str
    rounds: int
    conditions: Conditions
    compared: dict[str, list[str]]
    columns: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    rows: list[ComparedRow] = field(default_factory=list)

    def add(self, column: str, load: str, measures: Sequence[Measure], figures: Sequence[float]) -> None:
        """Add the figures of one round."""
        for measure, figure in zip(measures, figures, strict=True):
            row = next((row for row in self.rows if (row.load, row.unit) == (load, measure.unit)), None)
            if row is None:
                row = ComparedRow(load, *measure)
                self.rows.append(row)
            row.samples.setdefault(column, []).append(figure)

    def fail(self, column: str, load: str, reason: str) -> None:
        """Leave out a load of a broker that failed it."""
        self.failed[f"{column}: {load}"] = reason
        for row in self.rows:
            if row.load == load:
                row.samples.pop(column, None)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield ours and theirs of each ratio, of brokers that ran."""
        for ours, peers in self.compared.items():
            yield from ((ours, theirs) for theirs in peers if ours in self.columns and theirs in self.columns)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Comparison:
        """Read what `save` wrote."""
        data = json.loads(path.read_text())
        conditions = Conditions(**data.pop("conditions"))
        rows = [ComparedRow(**row) for row in data.pop("rows")]
        return cls(**data, conditions=conditions, rows=rows)


def figures_table(comparison: Comparison) -> str:
    """Return the medians as a table of Markdown."""
    return _table(
        ["", "", *comparison.columns],
        ([row.unit, *(row.middle(column) for column in comparison.columns)] for row in comparison.rows),
        [row.load for row in comparison.rows],
    )


def ratios_table(comparison: Comparison) -> str:
    """Return the ratios as a table of Markdown; a row in which ours is behind has bold figures."""
    pairs = list(comparison.pairs())
    rows = [row for row in comparison.rows if any(row.ratio(*pair) for pair in pairs)]
    return _table(
        ["", "", *(f"{ours} / {theirs}" for ours, theirs in pairs)],
        ([row.unit, *(_cell(row.ratio(*pair)) for pair in pairs)] for row in rows),
        [row.load for row in rows],
    )


def _cell(ratio: Ratio | None) -> str:
    """Return a ratio in Markdown, in bold where ours is behind."""
    if ratio is None:
        return ""
    return f"**{ratio}**" if ratio.median < 1 else str(ratio)


def show(comparison: Comparison, console: Console) -> None:
    """Print the figures, and the ratios with their spread."""
    pairs = list(comparison.pairs())
    _show(
        console,
        f"{comparison.build}: medians of {comparison.rounds} rounds",
        comparison.columns,
        [(row, [row.middle(column) for column in comparison.columns]) for row in comparison.rows],
    )
    _show(
        console,
        "how many times better: median, least and most of the rounds",
        [f"{ours} / {theirs}" for ours, theirs in pairs],
        [(row, [str(row.ratio(*pair) or "") for pair in pairs]) for row in comparison.rows],
    )
    console.print(notes(comparison.skipped, "skipped") + notes(comparison.failed, "left out"), end="")
    console.print(str(comparison.conditions))


def _show(console: Console, title: str, heads: Sequence[str], rows: Sequence[tuple[ComparedRow, list[str]]]) -> None:
    table = Table("", "", *(Column(head, justify="right") for head in heads), title=title, title_justify="left")
    for row, cells in rows:
        table.add_row(row.load, row.unit, *cells)
    console.print(table)


def notes(reasons: Mapping[str, str], what: str) -> str:
    """Return a line for each reason; empty: there is none."""
    return "".join(f"- {name}: {what}, because {reason}\n" for name, reason in reasons.items())


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], names: Sequence[str]) -> str:
    """Return a table whose first column says a name once for the rows that share it."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    last = ""
    for name, cells in zip(names, rows, strict=True):
        lines.append(f"| {name if name != last else ''} | {' | '.join(cells)} |")
        last = name
    return "\n".join(lines) + "\n"
