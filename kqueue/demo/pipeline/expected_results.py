"""Computes the expected results in plain Python, and the differences of the actual ones."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kqueue.base.text import counted
from kqueue.demo.events import HOUR_MS, Defect, Event, EventKind
from kqueue.demo.flights import Flight
from kqueue.spark.jobs.delay_results import AirportHour, QuarantinedRecord

LATE_START_MIN = 15  # minutes from which a departure counts as delayed
MINUTE_MS = 60_000
Hour = tuple[str, int]
Record = tuple[int, bytes]

LATE_REASON = "late:"
REASONS: dict[Defect, str] = {
    Defect.CUT: "not JSON",
    Defect.EMPTIED: "not JSON",
    Defect.NO_UTF8: "not UTF-8",
    Defect.LISTED: "not an object",
    Defect.NO_ORIGIN: "origin:",
    Defect.NO_TIME: "scheduled:",
    Defect.NO_DELAY: "delay_min:",
    Defect.HUGE_DELAY: "delay_min:",
    Defect.ELSEWHERE: "origin:",
}
"""The beginning of the reason for which each broken event has to be put aside."""


@dataclass(slots=True)
class ExpectedResults:
    """The rows that the gold table and the quarantine must hold.

    hours: by airport and start of the hour, ms since 1970. aside: by time and value of a record,
        how its reasons begin, one for each record.
    """

    hours: dict[Hour, AirportHour]
    aside: dict[Record, list[str]] = field(default_factory=dict)

    @property
    def flights(self) -> int:
        """The number of flights in `hours`."""
        return sum(hour.flights for hour in self.hours.values())


def expected_results(
    flights: Iterable[Flight], sent_events: Iterable[Event], going: Callable[[], bool] = lambda: True
) -> ExpectedResults:
    """Return the expected results of `flights` sent as the events `sent_events`.

    Args:
        going: asked now and then; once it is False, the results stay incomplete.
    """
    fine: set[int] = set()
    aside: dict[Record, list[str]] = {}
    for event in sent_events:
        if event.kind is EventKind.VALID:
            fine.add(json.loads(event.value)["id"])
        else:
            reason = LATE_REASON if event.harm is None else REASONS[event.harm]
            aside.setdefault((event.send_ms, event.value), []).append(reason)
    delays: dict[Hour, list[int | None]] = {}
    for flight in flights:
        if flight.row in fine:
            hour, delay_min = _departure(json.loads(flight.value))
            delays.setdefault(hour, []).append(delay_min)
        if flight.row % 1000 == 0 and not going():
            break
    return ExpectedResults({hour: _summed(hour, delayed) for hour, delayed in delays.items()}, aside)


def _departure(row: dict[str, object]) -> tuple[Hour, int | None]:
    """Return airport and hour of the departure (or of its schedule), and the delay in minutes."""
    begun = datetime.fromisoformat(str(row["time_hour"])).astimezone(UTC)
    minutes, delay_min = row["minute"], row["dep_delay"]
    assert isinstance(minutes, int)
    assert delay_min is None or isinstance(delay_min, int)
    left_ms = round(begun.timestamp() * 1000) + (minutes + (delay_min or 0)) * MINUTE_MS
    return (str(row["origin"]), left_ms // HOUR_MS * HOUR_MS), delay_min


def _summed(hour: Hour, delays: list[int | None]) -> AirportHour:
    left = [delay_min for delay_min in delays if delay_min is not None]
    return AirportHour(
        *hour,
        flights=len(delays),
        cancelled=len(delays) - len(left),
        delayed=sum(delay_min >= LATE_START_MIN for delay_min in left),
        delay_avg_min=sum(left) / len(left) if left else None,
        delay_max_min=max(left, default=None),
    )


def differences(
    truth: ExpectedResults, gold: Iterable[AirportHour], quarantine: Iterable[QuarantinedRecord]
) -> list[str]:
    """Return every difference as half a sentence; empty if there is none."""
    return [*_about_gold(truth, list(gold)), *_about_quarantine(truth, list(quarantine))]


def _about_gold(truth: ExpectedResults, gold: list[AirportHour]) -> list[str]:
    problems: list[str] = []
    flights = sum(hour.flights for hour in gold)
    if flights != truth.flights:
        problems.append(f"gold counts {flights:,} flights, and there were {truth.flights:,}")
    rows: dict[Hour, list[AirportHour]] = {}
    for row in gold:
        rows.setdefault((row.origin, row.start_ms), []).append(row)
    missing = sorted(truth.hours.keys() - rows.keys(), key=_by_time)
    strange = sorted(rows.keys() - truth.hours.keys(), key=_by_time)
    twice = sorted((hour for hour, those in rows.items() if len(those) > 1), key=_by_time)
    wrong = sorted(
        (hour for hour in truth.hours.keys() & rows.keys() if not _same(truth.hours[hour], rows[hour][0])), key=_by_time
    )
    for hours, words in (
        (missing, "missing in gold"),
        (strange, "in gold that had no flights"),
        (twice, "in gold more than once"),
    ):
        if hours:
            problems.append(f"hours of an airport {words}: {len(hours):,}, the first of {_shown(hours[0])}")
    if wrong:
        column, has, must = _difference(truth.hours[wrong[0]], rows[wrong[0]][0])
        where = f"the first of {_shown(wrong[0])}, where {column} is {has} instead of {must}"
        problems.append(f"hours of an airport wrong in gold: {len(wrong):,}, {where}")
    return problems


def _about_quarantine(truth: ExpectedResults, quarantine: list[QuarantinedRecord]) -> list[str]:
    reasons_of: dict[Record, list[str]] = {}
    for row in quarantine:
        reasons_of.setdefault((row.time_ms, row.value or b""), []).append(row.reason)
    missing = surplus = unfitting = 0
    example = ""
    for record in reasons_of.keys() | truth.aside.keys():
        reasons, fitting = sorted(reasons_of.get(record, [])), sorted(truth.aside.get(record, []))
        missing += max(0, len(fitting) - len(reasons))
        surplus += max(0, len(reasons) - len(fitting))
        for reason, start in zip(reasons, fitting, strict=False):
            if not reason.startswith(start):
                unfitting += 1
                example = f" ({reason!r}, where it should begin with {start!r})"
    differences = (
        (missing, "late or broken record", "missing in quarantine"),
        (surplus, "surplus record", "in quarantine"),
        (unfitting, "record", f"in quarantine with a reason that does not fit{example}"),
    )
    return [f"{counted(count, noun)} {words}" for count, noun, words in differences if count]


def _same(one: AirportHour, other: AirportHour) -> bool:
    return one._replace(delay_avg_min=None) == other._replace(delay_avg_min=None) and _close(
        one.delay_avg_min, other.delay_avg_min
    )


def _close(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)


def _difference(truth: AirportHour, row: AirportHour) -> tuple[str, object, object]:
    return next((name, has, must) for name, has, must in zip(row._fields, row, truth, strict=True) if has != must)


def _by_time(hour: Hour) -> tuple[int, str]:
    return hour[1], hour[0]


def _shown(hour: Hour) -> str:
    return f"{hour[0]}, {datetime.fromtimestamp(hour[1] / 1000, UTC):%Y-%m-%d %H:%M} UTC"
