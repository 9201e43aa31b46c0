"""`line_chart` and `sparkline`: lines over time as SVG.

The SVG is made as a tree of elements, so that names of topics and groups, which are others' text,
can't be markup. A gap in the values is a gap in the line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, tostring

from markupsafe import Markup

from kqueue.base.terminal import escaped
from kqueue.console.charts.units import Unit, axis_text, time_text, time_ticks, value_text, value_ticks
from kqueue.console.history.series import Point

WIDTH, HEIGHT = 480, 190
LEFT, RIGHT, TOP, BOTTOM = 58, 22, 10, 28
SPARK_WIDTH, SPARK_HEIGHT = 120, 24
SERIES_MAX = 6
"""Lines of one chart: more colors can't be told apart."""
BANDS_MAX = 60
"""Regions of a chart that show their values under the mouse, and rows of its table."""
NAME_CHARACTERS_MAX = 120
VALUE_MAX = 1e300
"""The highest tick is above the highest value, and must be a number too."""


class ChartSeries(NamedTuple):
    """One line: its name in the legend, and its values, the oldest first."""

    name: str
    points: Sequence[Point]


class LegendEntry(NamedTuple):
    """A line's entry. `color`: its number, from 1; `latest`, `highest`: of its values as text."""

    color: int
    name: str
    latest: str
    highest: str


class TableRow(NamedTuple):
    """A row of the table of values. `time`: of day, in UTC; `values`: of each line, as text."""

    time: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LineChart:
    """A chart for a template.

    Attributes:
        id: of its element in the page. title: its heading. unit: the text beside its axis.
        svg: the picture, with a title and a description for screen readers; None: no values.
        legend: in the order of the lines.
        rows: of the table of values, the newest first; of several slots the highest value counts.
    """

    id: str
    title: str
    unit: str
    svg: Markup | None
    legend: tuple[LegendEntry, ...]
    rows: tuple[TableRow, ...]


def line_chart(id: str, title: str, series: Sequence[ChartSeries], unit: Unit) -> LineChart:
    """Return a chart of up to `SERIES_MAX` lines; of more the first ones.

    Args:
        id: of letters, digits and dashes, unique in its page.
        series: whose points have the same times. Those without points are left out.
    """
    lines = [ChartSeries(_shown(name), _finite(points)) for name, points in series if points][:SERIES_MAX]
    values = [point.value for line in lines for point in line.points if point.value is not None]
    legend = tuple(_legend_entry(index, line, unit) for index, line in enumerate(lines, 1))
    if not values:
        return LineChart(id, title, unit.value, None, legend, ())
    bands = list(_bands(lines))
    rows = tuple(
        TableRow(_band_time(band), tuple(value_text(value, unit) for value in band.values)) for band in reversed(bands)
    )
    return LineChart(id, title, unit.value, _svg(id, title, lines, max(values), unit, bands), legend, rows)


def sparkline(points: Sequence[Point], label: str) -> Markup:
    """Return one line without axes, from its first value on; an empty picture: no values.

    Args:
        label: what a screen reader says of it.
    """
    points = _finite(points)
    values = [point.value for point in points if point.value is not None]
    root = Element(
        "svg",
        {"class": "spark", "viewBox": f"0 0 {SPARK_WIDTH} {SPARK_HEIGHT}", "role": "img", "aria-label": _shown(label)},
    )
    if values:
        points = points[next(index for index, point in enumerate(points) if point.value is not None) :]
        scale = _Scale(
            points[0].time_ms, points[-1].time_ms, max(*values, 0.0), 2, SPARK_WIDTH - 2, 2, SPARK_HEIGHT - 2
        )
        SubElement(root, "path", {"class": "line line-1", "d": _path(points, scale)})
    return _markup(root)


class _Scale(NamedTuple):
    """Where times and values are in the picture."""

    first_ms: int
    last_ms: int
    highest: float
    left: float
    right: float
    top: float
    bottom: float

    def x(self, time_ms: float) -> float:
        return self.left + (self.right - self.left) * (time_ms - self.first_ms) / max(1, self.last_ms - self.first_ms)

    def y(self, value: float) -> float:
        share = value / self.highest if self.highest > 0 else 0.0
        return self.bottom - (self.bottom - self.top) * min(max(share, 0.0), 1.0)


class _Band(NamedTuple):
    """Neighboring slots, and the highest value of each line in them."""

    first_ms: int
    last_ms: int
    values: tuple[float | None, ...]


def _svg(id: str, title: str, lines: list[ChartSeries], highest: float, unit: Unit, bands: list[_Band]) -> Markup:
    times = [point.time_ms for point in lines[0].points]
    ticks = value_ticks(highest, unit)
    scale = _Scale(times[0], times[-1], ticks[-1], LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM)
    root = Element(
        "svg",
        {
            "class": "chart",
            "viewBox": f"0 0 {WIDTH} {HEIGHT}",
            "role": "img",
            "aria-labelledby": f"{id}-title {id}-desc",
        },
    )
    SubElement(root, "title", {"id": f"{id}-title"}).text = f"{_shown(title)} ({unit.value})"
    SubElement(root, "desc", {"id": f"{id}-desc"}).text = _description(lines, unit)
    _draw_axes(root, scale, ticks, unit)
    for index, line in enumerate(lines, 1):
        SubElement(root, "path", {"class": f"line line-{index}", "d": _path(line.points, scale)})
    _draw_bands(root, scale, lines, bands, unit)
    return _markup(root)


def _draw_axes(root: Element, scale: _Scale, ticks: list[float], unit: Unit) -> None:
    axes = SubElement(root, "g", {"class": "axes", "aria-hidden": "true"})
    for tick in ticks:
        y = _number(scale.y(tick))
        SubElement(axes, "line", {"x1": str(LEFT), "x2": str(WIDTH - RIGHT), "y1": y, "y2": y})
        text = SubElement(axes, "text", {"x": str(LEFT - 8), "y": y, "dy": "4", "text-anchor": "end"})
        text.text = axis_text(tick, unit)
    shows_seconds = scale.last_ms - scale.first_ms < 300_000
    for time_ms in time_ticks(scale.first_ms, scale.last_ms):
        x = _number(scale.x(time_ms))
        SubElement(
            axes,
            "line",
            {"class": "tick", "x1": x, "x2": x, "y1": str(HEIGHT - BOTTOM), "y2": str(HEIGHT - BOTTOM + 5)},
        )
        text = SubElement(axes, "text", {"x": x, "y": str(HEIGHT - BOTTOM + 20), "text-anchor": "middle"})
        text.text = time_text(time_ms, seconds=shows_seconds)


def _draw_bands(root: Element, scale: _Scale, lines: list[ChartSeries], bands: list[_Band], unit: Unit) -> None:
    """Add invisible regions whose titles are shown under the mouse: the values without a script."""
    group = SubElement(root, "g", {"class": "bands", "aria-hidden": "true"})
    half_ms = _step_ms(lines[0].points) / 2
    for band in bands:
        left = max(LEFT, scale.x(band.first_ms - half_ms))
        right = min(WIDTH - RIGHT, scale.x(band.last_ms + half_ms))
        place = {"x": _number(left), "y": str(TOP), "width": _number(max(0.0, right - left))}
        rect = SubElement(group, "rect", {**place, "height": str(HEIGHT - TOP - BOTTOM)})
        texts = [f"{line.name}: {value_text(value, unit)}" for line, value in zip(lines, band.values, strict=True)]
        SubElement(rect, "title").text = "\n".join([f"{_band_time(band)} UTC", *texts])


def _path(points: Sequence[Point], scale: _Scale) -> str:
    """Return the line as a path. A value between two gaps is a dot: a line without length."""
    parts = []
    for run in _runs(points):
        (x, y), *others = [(_number(scale.x(point.time_ms)), _number(scale.y(point.value or 0.0))) for point in run]
        parts.append(f"M{x} {y}" + ("".join(f"L{x} {y}" for x, y in others) or "h0"))
    return "".join(parts)


def _runs(points: Sequence[Point]) -> Iterator[list[Point]]:
    run: list[Point] = []
    for point in points:
        if point.value is not None:
            run.append(point)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _bands(lines: list[ChartSeries]) -> Iterator[_Band]:
    """Yield the slots of all lines, at most `BANDS_MAX` together, from the first value on."""
    rows = list(zip(*(line.points for line in lines), strict=False))
    first = next((index for index, row in enumerate(rows) if any(point.value is not None for point in row)), 0)
    width = max(1, -(-len(rows) // BANDS_MAX))
    for start in range(first - first % width, len(rows), width):
        part = rows[start : start + width]
        highest = tuple(
            max((row[index].value for row in part if row[index].value is not None), default=None)
            for index in range(len(lines))
        )
        yield _Band(part[0][0].time_ms, part[-1][0].time_ms, highest)


def _band_time(band: _Band) -> str:
    first, last = time_text(band.first_ms, seconds=True), time_text(band.last_ms, seconds=True)
    return first if first == last else f"{first}–{last}"


def _description(lines: list[ChartSeries], unit: Unit) -> str:
    times = [point.time_ms for point in lines[0].points]
    parts = [f"From {time_text(times[0])} to {time_text(times[-1])} UTC."]
    for line in lines:
        entry = _legend_entry(0, line, unit)
        parts.append(f"{line.name}: latest {entry.latest}, highest {entry.highest}.")
    return " ".join(parts)


def _legend_entry(color: int, line: ChartSeries, unit: Unit) -> LegendEntry:
    known = [point.value for point in line.points if point.value is not None]
    latest = line.points[-1].value if line.points else None
    return LegendEntry(color, line.name, value_text(latest, unit), value_text(max(known, default=None), unit))


def _step_ms(points: Sequence[Point]) -> float:
    return points[1].time_ms - points[0].time_ms if len(points) > 1 else 1.0


def _finite(points: Sequence[Point]) -> list[Point]:
    """Return the points; one that can't be drawn is a gap."""
    return [
        point if point.value is None or abs(point.value) <= VALUE_MAX else Point(point.time_ms, None)
        for point in points
    ]


def _shown(text: str) -> str:
    text = escaped(text)
    return text if len(text) <= NAME_CHARACTERS_MAX else f"{text[: NAME_CHARACTERS_MAX - 1]}…"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _markup(root: Element) -> Markup:
    return Markup(tostring(root, encoding="unicode"))
