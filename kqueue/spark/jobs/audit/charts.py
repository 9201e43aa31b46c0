"""The charts of an audit. No pyspark; matplotlib is imported on the first chart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kqueue.spark.charts import COLOURS, EMPTY, bars, chart, count_axis
from kqueue.spark.jobs.audit.formatting import age_text, plain
from kqueue.spark.jobs.audit.gaps import COMPACTED, DELETED, MARKER, MISSING
from kqueue.spark.jobs.audit.partition_summary import CELLS, WIDTHS_MS, Times
from kqueue.spark.jobs.audit.report import AuditReport, PartitionAudit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS_MAX = 40
STRIPS_MAX = 8
SPANS_MAX = 200
OUTSIDE_MAX = 0.01
ROW_PX, STRIP_PX, FRAME_PX = 34, 130, 180
SPANS = {
    1_000: "second",
    10_000: "10 seconds",
    60_000: "minute",
    600_000: "10 minutes",
    3_600_000: "hour",
    86_400_000: "day",
}
WHY_COLOURS = {DELETED: EMPTY, MARKER: COLOURS["sky"], COMPACTED: COLOURS["orange"], MISSING: COLOURS["red"]}
WHY_WORDS = {
    DELETED: "before the log start",
    MARKER: "ends of transactions",
    COMPACTED: "compacted",
    MISSING: "missing",
}


class Chart(NamedTuple):
    """A chart: file name, title, and how to read it."""

    file: str
    title: str
    text: str


Drawing = Callable[["Figure", AuditReport], None]


def draw(report: AuditReport, folder: Path) -> list[Chart]:
    """Draw the charts that have data, as PNG. Raises: ExtraNeeded, OSError."""
    made = []
    for one, has_any, height, drawing in _pictures(report):
        if has_any:
            with chart(folder / one.file, one.title, height_px=height) as figure:
                drawing(figure, report)
            made.append(one)
    return made


def _pictures(report: AuditReport) -> list[tuple[Chart, bool, int, Drawing]]:
    lagging = len(report.lags)
    return [
        (
            Chart("records.png", "Records over time", "By the records' own times, UTC."),
            bool(_timed(report)),
            FRAME_PX + STRIP_PX * min(len(_timed(report)), STRIPS_MAX + 1),
            _over_time,
        ),
        (
            Chart(
                "skew.png", "How evenly partitions are filled", "Records, bytes of keys and values, and different keys."
            ),
            any(row.records for row in report.partitions),
            FRAME_PX + ROW_PX * min(len(report.partitions), ROWS_MAX),
            _skew,
        ),
        (
            Chart(
                "gaps.png",
                "Where offsets have no record",
                "Each line is a partition, from offset 0 to its end.",
            ),
            any(row.deleted or row.markers or row.compacted or row.missing for row in report.partitions),
            FRAME_PX + ROW_PX * min(sum(row.end > 0 for row in report.partitions), ROWS_MAX),
            _gaps,
        ),
        (
            Chart(
                "lag.png",
                "How far groups are behind",
                "Offsets that are not committed; beside them how long the oldest has waited.",
            ),
            bool(lagging),
            FRAME_PX + ROW_PX * min(lagging, ROWS_MAX),
            _lag,
        ),
    ]


def _name(row: PartitionAudit) -> str:
    return f"{row.topic}-{row.partition}"


def _cut(what: str, count: int, which: str) -> str:
    return f"{what}: {ROWS_MAX} of {count:,} partitions, {which}" if count > ROWS_MAX else what


# --- records over time


def _over_time(figure: Figure, report: AuditReport) -> None:
    """Draw one strip per large partition, and one for the others, at one time scale."""
    rows = _timed(report)
    level = max(row.times.level for row in rows)
    shown = [(_name(row), row.times) for row in rows[:STRIPS_MAX]]
    others = _together([row.times for row in rows[STRIPS_MAX:]], level)
    if others.counts:
        shown.append((f"{len(rows) - STRIPS_MAX} others together", others))
    level, least, most, outside = _window(_together([times for _, times in shown], level))
    strips = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, times) in zip(strips, shown, strict=True):
        axes.set_title(name, fontsize=14, pad=4)
        counts = times.coarser(level).counts
        edges = [_moment(span * WIDTHS_MS[level]) for span in range(least, most + 2)]
        axes.stairs([counts.get(span, 0) for span in range(least, most + 1)], edges, fill=True, color=COLOURS["blue"])
        axes.set_ylim(bottom=0)
        if edges[0] < edges[-1]:  # else no calendar goes so far
            axes.set_xlim(edges[0], edges[-1])
        axes.grid(axis="y")
        count_axis(axes)
        axes.locator_params(axis="y", nbins=3)
    note = f"; {outside:,} with times far from these are left out" if outside else ""
    figure.supxlabel(f"records per {_span(WIDTHS_MS[level])}{note}", fontsize=14)


def _timed(report: AuditReport) -> list[PartitionAudit]:
    return sorted((row for row in report.partitions if row.times.counts), key=lambda row: -row.records)


def _together(some: Sequence[Times], level: int) -> Times:
    total = Times(level)
    for times in some:
        total = total.plus(times)
    return total


def _window(times: Times) -> tuple[int, int, int, int]:
    """Return what to show: the level, the first and last interval, and the records outside.

    All of them, unless omitting a few outliers allows a finer scale.
    """
    spans = sorted(times.counts)
    first, last, outside, most_outside = 0, len(spans) - 1, 0, sum(times.counts.values()) * OUTSIDE_MAX
    while spans[last] - spans[first] >= SPANS_MAX:
        left, right = times.counts[spans[first]], times.counts[spans[last]]
        outside += min(left, right)
        if outside > most_outside:
            return _all_of(times.level, spans[0], spans[-1])
        first, last = (first + 1, last) if left <= right else (first, last - 1)
    return times.level, spans[first], spans[last], outside


def _all_of(level: int, least: int, most: int) -> tuple[int, int, int, int]:
    while most - least >= SPANS_MAX and level + 1 < len(WIDTHS_MS):
        ratio = WIDTHS_MS[level + 1] // WIDTHS_MS[level]
        level, least, most = level + 1, least // ratio, most // ratio
    return level, least, most, 0


def _span(width: int) -> str:
    return SPANS.get(width, f"{width // 86_400_000:,} days")


def _moment(ms: int) -> datetime:
    """Return the nearest time that matplotlib can draw."""
    least, most = datetime(100, 1, 1, tzinfo=UTC), datetime(9900, 1, 1, tzinfo=UTC)  # with room for ticks
    try:
        return min(max(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms), least), most)
    except OverflowError:
        return least if ms < 0 else most


# --- skew


def most_skewed(partitions: Sequence[PartitionAudit]) -> list[PartitionAudit]:
    """Return all partitions by name; of more than `ROWS_MAX` those that are farthest from the
    average records of their topic's, the fullest first.
    """
    if len(partitions) <= ROWS_MAX:
        return list(partitions)
    topics: dict[str, list[int]] = {}
    for row in partitions:
        topics.setdefault(row.topic, []).append(row.records)
    average = {topic: sum(counts) / len(counts) for topic, counts in topics.items()}
    by_skew = sorted(partitions, key=lambda row: -abs(row.records - average[row.topic]))[:ROWS_MAX]
    return sorted(by_skew, key=lambda row: -row.records)


def _skew(figure: Figure, report: AuditReport) -> None:
    rows = most_skewed(report.partitions)
    count = len(report.partitions)
    figure.supxlabel(_cut("", count, "farthest from the average of their topic").removeprefix(": "), fontsize=14)
    sides = figure.subplots(1, 3, sharey=True)
    columns: list[tuple[str, Callable[[PartitionAudit], float], str, str]] = [
        ("Records", lambda row: row.records, "blue", ""),
        ("KB of keys and values", lambda row: row.bytes / 1000, "green", ""),
        ("Different keys", lambda row: row.keys, "orange", ""),
    ]
    for axes, (title, value, colour, unit) in zip(sides, columns, strict=True):
        bars(axes, {_name(row): value(row) for row in rows}, colour=COLOURS[colour], unit=unit)
        axes.set_title(title)
    sides[0].set_ylim(len(rows) - 0.4, -0.6)  # shared: each `bars` has turned it round


# --- gaps


def most_gaps(partitions: Sequence[PartitionAudit]) -> list[PartitionAudit]:
    """Return the partitions that have offsets, by name; of more than `ROWS_MAX` those with most
    missing offsets, then with most of other gaps, then the longest.
    """
    there = [row for row in partitions if row.end > 0]
    if len(there) <= ROWS_MAX:
        return there
    return sorted(there, key=lambda row: (-row.missing, -row.markers - row.compacted - row.deleted, -row.end))[
        :ROWS_MAX
    ]


def _gaps(figure: Figure, report: AuditReport) -> None:
    """Draw deleted offsets grey, records blue, and gaps at least wide enough to be visible."""
    from matplotlib.patches import Patch

    rows = most_gaps(report.partitions)
    axes = figure.subplots()
    for number, row in enumerate(rows):
        axes.broken_barh([(0, row.end)], (number - 0.35, 0.7), color=EMPTY)
        axes.broken_barh(_filled(row), (number - 0.35, 0.7), color=COLOURS["blue"])
    longest = max(row.end for row in rows)
    for why in (MARKER, COMPACTED, MISSING):
        for number, row in enumerate(rows):
            marks = [(gap.first, max(gap.end - gap.first, longest / 800)) for gap in row.holes if gap.why == why]
            axes.broken_barh(marks, (number - 0.35, 0.7), color=WHY_COLOURS[why])
    axes.set_yticks(range(len(rows)), [_name(row) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, longest)
    axes.set_xlabel(_cut("offset", sum(row.end > 0 for row in report.partitions), "those with most gaps first"))
    axes.tick_params(left=False)
    axes.spines["left"].set_visible(False)
    count_axis(axes, "x")
    reasons = {gap.why for row in rows for gap in row.holes} | ({DELETED} if any(row.start for row in rows) else set())
    patches = [Patch(color=COLOURS["blue"], label="records")]
    patches += [Patch(color=colour, label=WHY_WORDS[why]) for why, colour in WHY_COLOURS.items() if why in reasons]
    axes.legend(handles=patches, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(patches))


def _filled(row: PartitionAudit) -> list[tuple[float, float]]:
    """Return the ranges with records, from `cells`, which account for all gaps."""
    if not row.records:
        return []
    width = (row.end - row.start) / CELLS
    if width < 1 or not row.cells:  # cells are finer than offsets: the gaps say it all
        return [(row.start, row.end - row.start)]
    filled: list[tuple[float, float]] = []
    for number, count in enumerate(row.cells):
        if count:
            filled.append((row.start + number * width, width))
    return filled


# --- lag


def _lag(figure: Figure, report: AuditReport) -> None:
    lags = sorted(report.lags, key=lambda lag: -lag.lag)
    rows = lags[:ROWS_MAX]
    axes = figure.subplots()
    names = [f"{_short(plain(lag.group))}  {lag.topic}-{lag.partition}" for lag in rows]
    made = axes.barh(range(len(rows)), [lag.lag for lag in rows], color=COLOURS["blue"], height=0.7)
    ages = [lag.age_ms(report.taken_ms) for lag in rows]
    labels = [
        f"{lag.lag:,}" + (f"   oldest waits {age_text(age)}" if age is not None else "")
        for lag, age in zip(rows, ages, strict=True)
    ]
    axes.bar_label(made, labels=labels, padding=6)
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.margins(x=0.35)
    axes.set_xlim(left=0)
    axes.set_title(_cut("Offsets to read", len(lags), "with most"))
    axes.spines["bottom"].set_visible(False)
    axes.spines["left"].set_visible(False)
    axes.tick_params(left=False, bottom=False, labelbottom=False)


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
