"""The chart of the job `delays`: delays per hour and day, per hour, and quarantine. No pyspark.

Times are New York's. A day lasts from 04:00 to 04:00, since departures after midnight were
scheduled for the evening before.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from kqueue.spark.charts import COLOURS, SEQUENCE, bars, chart
from kqueue.spark.jobs.delay_results import AirportHour

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

WIDTH_PX, HEIGHT_PX = 1600, 1500
HERE = ZoneInfo("America/New_York")
NAMES = {"EWR": "Newark (EWR)", "JFK": "John F. Kennedy (JFK)", "LGA": "LaGuardia (LGA)"}
DAY_BEGINS = 4
DELAY_SHOWN_MAX_MIN = 90
SHARE_SHOWN_MIN = 0.005  # an hour with fewer of an airport's flights says nothing about a day
MONTHS_FROM_DAYS = 92
REASONS_MAX = 8
_LINES = (COLOURS["blue"], COLOURS["red"], COLOURS["green"])


def draw(file: str | os.PathLike[str], gold: Sequence[AirportHour], quarantined: Mapping[str, int]) -> None:
    """Draw the results as PNG, replacing `file`. Raises: ExtraNeeded: no matplotlib. OSError."""
    airports = {
        origin: [row for row in gold if row.origin == origin] for origin in sorted({row.origin for row in gold})
    }
    days = _days(gold)
    with chart(
        file, f"Delays of departures from New York, {_span(days)}", width_px=WIDTH_PX, height_px=HEIGHT_PX
    ) as figure:
        halves: Any = figure.subfigures(2, 1, height_ratios=[max(1, len(airports)), 1.35])
        if days:
            _heatmaps(halves[0], airports, days)
        left, right = halves[1].subplots(1, 2, width_ratios=[1.15, 1])
        _day(left, airports)
        _aside(right, quarantined)


def _local(row: AirportHour) -> tuple[date, int]:
    """Return the day and hour of a row; hours after midnight count from 24."""
    time = datetime.fromtimestamp(row.start_ms / 1000, UTC).astimezone(HERE)
    if time.hour >= DAY_BEGINS:
        return time.date(), time.hour
    return time.date() - timedelta(days=1), time.hour + 24


def _days(gold: Iterable[AirportHour]) -> list[date]:
    """Return all days from the first to the last."""
    days = {_local(row)[0] for row in gold}
    return [min(days) + timedelta(days=number) for number in range((max(days) - min(days)).days + 1)] if days else []


def _span(days: Sequence[date]) -> str:
    if not days:
        return "none"
    first, last = days[0], days[-1]
    return f"{first.day} {first:%B %Y}" if first == last else f"{first.day} {first:%B} to {last.day} {last:%B %Y}"


def _heatmaps(figure: Any, airports: Mapping[str, Iterable[AirportHour]], days: Sequence[date]) -> None:
    all_axes = figure.subplots(len(airports), 1, sharex=True, squeeze=False)[:, 0]
    images = [
        _heatmap(axes, rows, days, NAMES.get(origin, origin))
        for axes, (origin, rows) in zip(all_axes, airports.items(), strict=True)
    ]
    bar = figure.colorbar(images[0], ax=all_axes, extend="max", pad=0.01, aspect=40)
    bar.set_label("average delay at departure, minutes")
    bar.outline.set_visible(False)


def _heatmap(axes: Axes, rows: Iterable[AirportHour], days: Sequence[date], name: str) -> AxesImage:
    """Draw days from left to right and hours downwards; hours without flights are white."""
    cells = [[float("nan")] * len(days) for hour in range(24)]
    for row in rows:
        day, hour = _local(row)
        if row.delay_avg_min is not None:
            cells[hour - DAY_BEGINS][(day - days[0]).days] = row.delay_avg_min
    extent = (0, len(days), DAY_BEGINS + 24, DAY_BEGINS)
    image = axes.imshow(
        cells, aspect="auto", interpolation="nearest", cmap=SEQUENCE, vmin=0, vmax=DELAY_SHOWN_MAX_MIN, extent=extent
    )
    axes.set_yticks([6, 12, 18, 24], ["06:00", "12:00", "18:00", "24:00"])
    marks = _marks(days)
    axes.set_xticks([number for number, text in marks], [text for number, text in marks], horizontalalignment="left")
    axes.set_title(name)
    axes.spines["left"].set_visible(False)
    return image


def _marks(days: Sequence[date]) -> list[tuple[int, str]]:
    """Return the tick positions and labels: months, or days if there are few."""
    if len(days) >= MONTHS_FROM_DAYS:
        return [(number, f"{day:%b}") for number, day in enumerate(days) if day.day == 1]
    step = len(days) // 10 + 1
    return [(number, f"{day.day} {day:%b}") for number, day in enumerate(days) if number % step == 0]


def _day(axes: Axes, airports: Mapping[str, Iterable[AirportHour]]) -> None:
    """Draw the average delay by hour over all days."""
    for (origin, rows), colour in zip(airports.items(), _LINES, strict=False):
        minutes: Counter[int] = Counter()
        flights: Counter[int] = Counter()
        for row in rows:
            left, hour = row.flights - row.cancelled, _local(row)[1]
            minutes[hour] += round(left * (row.delay_avg_min or 0.0))
            flights[hour] += left
        hours = sorted(hour for hour in flights if flights[hour] >= SHARE_SHOWN_MIN * flights.total() > 0)
        axes.plot(
            [hour + 0.5 for hour in hours],
            [minutes[hour] / flights[hour] for hour in hours],
            color=colour,
            label=origin,
            marker="o",
        )
    axes.set_title("Delay by the hour of departure, all days together")
    axes.set_ylabel("average delay, minutes")
    axes.set_xticks([6, 9, 12, 15, 18, 21, 24], ["06:00", "09:00", "12:00", "15:00", "18:00", "21:00", "24:00"])
    axes.grid(axis="y")
    if airports:
        axes.legend(loc="upper left")


def _aside(axes: Axes, quarantined: Mapping[str, int]) -> None:
    ordered = sorted(quarantined.items(), key=lambda item: -item[1])
    shown: dict[str, float] = {reason.partition(": told")[0]: count for reason, count in ordered[:REASONS_MAX]}
    if len(ordered) > REASONS_MAX:
        shown["others"] = sum(count for reason, count in ordered[REASONS_MAX:])
    bars(axes, shown, colour=COLOURS["orange"])
    axes.set_title(f"In quarantine, by reason ({sum(quarantined.values()):,} records)")
