"""The picture of the job `delays`: which hours of which days are bad, what a day is like, and what was put aside. Needs no Spark."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from kqueue.spark.jobs.hours import AirportHour
from kqueue.spark.pictures import COLOURS, EMPTY, SEQUENCE, bars, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

WIDTH_PX, HEIGHT_PX = 1600, 1500
HERE = ZoneInfo("America/New_York")
NAMES = {"EWR": "Newark (EWR)", "JFK": "John F. Kennedy (JFK)", "LGA": "LaGuardia (LGA)"}
DELAY_SHOWN_MAX_MIN = 90
HOUR_FIRST, HOUR_LAST = 5, 23
REASONS_MAX = 8
_LINES = (COLOURS["blue"], COLOURS["red"], COLOURS["green"])


def draw(file: str | os.PathLike[str], gold: Sequence[AirportHour], quarantined: Mapping[str, int]) -> None:
    """Draw what was found as a PNG, replacing `file`. Raises ExtraNeeded: no matplotlib; OSError: it can't be written."""
    airports = {origin: [row for row in gold if row.origin == origin] for origin in sorted({row.origin for row in gold})}
    days = _days(gold)
    span = f"{days[0]:%-d %B} to {days[-1]:%-d %B %Y}" if len(days) > 1 else f"{days[0]:%-d %B %Y}"
    with picture(file, f"Delays of departures from New York, {span}", width_px=WIDTH_PX, height_px=HEIGHT_PX) as figure:
        parts = figure.add_gridspec(len(airports) + 1, 2, height_ratios=[1] * len(airports) + [1.35], width_ratios=[1.15, 1])
        image = None
        axes_of = []
        for number, (origin, rows) in enumerate(airports.items()):
            axes = figure.add_subplot(parts[number, :])
            image = _heatmap(axes, rows, days, NAMES.get(origin, origin))
            axes.tick_params(labelbottom=number == len(airports) - 1)
            axes_of.append(axes)
        if image is not None:
            bar = figure.colorbar(image, ax=axes_of, extend="max", pad=0.01, aspect=40)
            bar.set_label("average delay at departure, minutes")
            bar.outline.set_visible(False)
        _day(figure.add_subplot(parts[-1, 0]), airports)
        _aside(figure.add_subplot(parts[-1, 1]), quarantined)


def _days(gold: Iterable[AirportHour]) -> list[date]:
    found = {_local(row).date() for row in gold}
    return [min(found) + timedelta(days=number) for number in range((max(found) - min(found)).days + 1)]


def _local(row: AirportHour) -> datetime:
    return datetime.fromtimestamp(row.start_ms / 1000, UTC).astimezone(HERE)


def _heatmap(axes: Axes, rows: Iterable[AirportHour], days: Sequence[date], name: str) -> AxesImage:
    """Days from left to right, the hours of the day downwards."""
    import matplotlib
    import matplotlib.dates as dates

    cells = [[float("nan")] * len(days) for hour in range(24)]
    for row in rows:
        time = _local(row)
        if row.delay_avg_min is not None:
            cells[time.hour][(time.date() - days[0]).days] = row.delay_avg_min
    colours = matplotlib.colormaps[SEQUENCE].with_extremes(bad=EMPTY)
    left = dates.date2num(days[0])
    image = axes.imshow(
        cells, aspect="auto", interpolation="nearest", cmap=colours, vmin=0, vmax=DELAY_SHOWN_MAX_MIN, extent=(left, left + len(days), 24, 0)
    )
    axes.set_ylim(HOUR_LAST + 1, HOUR_FIRST)
    axes.set_yticks([6, 12, 18, 24], ["06:00", "12:00", "18:00", "24:00"])
    locator = dates.AutoDateLocator(minticks=2, maxticks=13)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, show_offset=False))
    axes.set_title(name)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return image


def _day(axes: Axes, airports: Mapping[str, Iterable[AirportHour]]) -> None:
    """What a day is like: the average delay over all days, by the hour."""
    for (origin, rows), colour in zip(airports.items(), _LINES, strict=False):
        minutes: dict[int, float] = defaultdict(float)
        flights: dict[int, int] = defaultdict(int)
        for row in rows:
            left = row.flights - row.cancelled
            minutes[_local(row).hour] += left * (row.delay_avg_min or 0.0)
            flights[_local(row).hour] += left
        hours = [hour for hour in range(HOUR_FIRST, HOUR_LAST + 1) if flights[hour]]
        axes.plot([hour + 0.5 for hour in hours], [minutes[hour] / flights[hour] for hour in hours], color=colour, label=origin, marker="o")
    axes.set_title("By the hour of the day, average of all days")
    axes.set_ylabel("average delay, minutes")
    axes.set_xticks([6, 9, 12, 15, 18, 21, 24], ["06:00", "09:00", "12:00", "15:00", "18:00", "21:00", "24:00"])
    axes.grid(axis="y")
    axes.legend(loc="upper left")


def _aside(axes: Axes, quarantined: Mapping[str, int]) -> None:
    total = sum(quarantined.values())
    ordered = sorted(quarantined.items(), key=lambda item: -item[1])
    shown: dict[str, float] = {reason.partition(": told")[0]: count for reason, count in ordered[:REASONS_MAX]}
    left = sum(count for reason, count in ordered[REASONS_MAX:])
    if left:
        shown["others"] = left
    bars(axes, shown, colour=COLOURS["orange"])
    axes.set_title(f"Put aside, by reason ({total:,} records)")
