"""The pictures of docs/benchmarks.md, drawn from the kept figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.comparison import Comparison
from benchmarks.growth import FLAT, Curve, Growth
from kqueue.spark.charts import COLOURS, FAINT, chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW_PX = 44
PANEL_PX = 380
PANELS_IN_A_ROW = 2
MARKS = ("o", "s", "^", "D", "v")


def ratios(comparison: Comparison, path: Path) -> None:
    """Draw how many times better ours is in each row, with the spread of the rounds. What is
    compiled besides is in the table only.
    """
    pairs = [pair for pair in comparison.pairs() if "compiled" not in pair[0]]
    rows = [row for row in comparison.rows if any(row.ratio(*pair) for pair in pairs)]
    title = f"How many times better {comparison.build} is: to the right of 1 it is ahead"
    with chart(path, title, height_px=200 + ROW_PX * len(rows)) as figure:
        axes = figure.subplots()
        for number, (pair, colour) in enumerate(zip(pairs, COLOURS.values(), strict=False)):
            drawn = [(index, ratio) for index, row in enumerate(rows) if (ratio := row.ratio(*pair)) is not None]
            axes.errorbar(
                [ratio.median for _, ratio in drawn],
                [index + (number - len(pairs) / 2) * 0.14 for index, _ in drawn],
                xerr=[
                    [ratio.median - ratio.least for _, ratio in drawn],
                    [ratio.most - ratio.median for _, ratio in drawn],
                ],
                fmt=MARKS[number % len(MARKS)],
                color=colour,
                label=" / ".join(pair),
            )
        axes.axvline(1, color=FAINT)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_yticks(range(len(rows)), [f"{row.load}: {row.unit}" for row in rows])
        axes.invert_yaxis()
        axes.grid(axis="x")
        figure.legend(loc="outside lower center", ncols=2)


def growth(grown: Growth, path: Path) -> None:
    """Draw each curve in a panel of its own, in terms of the first size; figures that have a limit
    of their own as they are.
    """
    lines = -(-len(grown.curves) // PANELS_IN_A_ROW)
    title = "Growth: each cost in terms of that of the first size, seconds as they are; the grey line is the limit"
    with chart(path, title, height_px=120 + PANEL_PX * lines) as figure:
        for number, curve in enumerate(grown.curves, 1):
            _panel(figure.add_subplot(lines, PANELS_IN_A_ROW, number), curve)


def _panel(axes: Axes, curve: Curve) -> None:
    positions = range(len(curve.sizes))
    limit = next((line.growth_max or line.at_most for line in curve.lines if line.passed is not None), None)
    judged = [line for line in curve.lines if line.passed is not None]
    for line, colour, mark in zip(judged, COLOURS.values(), MARKS, strict=False):
        first = line.figures[0] if line.growth_max else 1
        drawn = [figure / first for figure in line.figures]
        axes.plot(positions, drawn, mark, linestyle="-", color=colour, label=f"{line.name} ({line.unit})")
    if limit is not None:
        axes.axhline(limit, color=FAINT)
    axes.set_ylim(bottom=0, top=max(2 * FLAT, axes.get_ylim()[1]))
    axes.set_xticks(positions, [f"{size:,}" for size in curve.sizes])
    axes.set_xlabel(curve.across)
    axes.grid(axis="y")
    axes.legend(loc="upper left", fontsize="small")
