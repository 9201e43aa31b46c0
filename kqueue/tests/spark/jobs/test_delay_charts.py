from __future__ import annotations

from datetime import date, datetime
from importlib.util import find_spec
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from kqueue.spark.jobs import delay_charts as module
from kqueue.spark.jobs.delay_charts import draw
from kqueue.spark.jobs.delay_results import AirportHour

if find_spec("matplotlib") is None:
    pytest.skip("matplotlib comes with kqueue[spark]", allow_module_level=True)
HOUR_MS = 3_600_000


def row(origin: str, text: str, delay_min: float | None = 10.0) -> AirportHour:
    start_ms = round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo("America/New_York")).timestamp() * 1000)
    return AirportHour(origin, start_ms, 4, 0 if delay_min is not None else 4, 1, delay_min, 30)


@pytest.mark.parametrize(
    "gold",
    [
        [],
        [row("JFK", "2013-01-01T05:00", None)],
        [row("EWR", "2013-01-01T05:00"), row("JFK", "2013-03-10T01:00", 500.0), row("LGA", "2013-12-31T23:00", -3.0)],
    ],
)  # fmt: skip
def test_chart_is_drawn_from_any_results(tmp_path: Path, gold: list[AirportHour]) -> None:
    file = tmp_path / "made.png"
    draw(file, gold, {f"reason {number}": number for number in range(1, 12 * len(gold))})
    assert file.read_bytes().startswith(b"\x89PNG")


def test_departure_after_midnight_belongs_to_the_day_before() -> None:
    assert module._local(row("JFK", "2013-01-01T23:00")) == (date(2013, 1, 1), 23)
    assert module._local(row("JFK", "2013-01-02T01:00")) == (date(2013, 1, 1), 25)
    assert module._local(row("JFK", "2013-01-02T04:00")) == (date(2013, 1, 2), 4)


def test_every_hour_of_the_year_has_its_cell() -> None:
    whole = [
        AirportHour("EWR", 1_357_000_000_000 // HOUR_MS * HOUR_MS + hour * HOUR_MS, 1, 0, 0, 0.0, 0)
        for hour in range(366 * 24)
    ]
    days = module._days(whole)
    cells = [((day - days[0]).days, hour - module.DAY_BEGINS) for day, hour in map(module._local, whole)]
    assert all(0 <= number < len(days) and 0 <= line < 24 for number, line in cells)


def test_few_days_are_named_and_many_by_their_months() -> None:
    days = [date.fromordinal(date(2013, 1, 1).toordinal() + number) for number in range(365)]
    assert module._marks(days[:3]) == [(0, "1 Jan"), (1, "2 Jan"), (2, "3 Jan")]
    assert len(module._marks(days[:91])) <= 11
    assert module._marks(days)[1] == (31, "Feb")
    assert len(module._marks(days)) == 12
    assert module._span(days) == "1 January to 31 December 2013"
    assert module._span(days[:1]) == "1 January 2013"
