"""What the job `delays` gives, as plain rows. Nothing here needs Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kqueue.spark.event_schema import FLIGHTS, seconds_of

HOUR_MS = 60 * 60 * 1000
LATENESS_MS = seconds_of(FLIGHTS.lateness, "lateness") * 1000
"""How long after a departure it may be told."""


class AirportHour(NamedTuple):
    """The departures of an airport in the hour from `start_ms` (since 1970) on, by when they left,
    or should have if they were cancelled.

    delayed: by 15 minutes or more. delay_avg_min, delay_max_min: in minutes, below 0 if early; None
    where all were cancelled.
    """

    origin: str
    start_ms: int
    flights: int
    cancelled: int
    delayed: int
    delay_avg_min: float | None
    delay_max_min: int | None


class QuarantinedRecord(NamedTuple):
    """A record that was put aside: its place in the topic, its time (ms since 1970), its value and
    why.
    """

    partition: int
    offset: int
    time_ms: int
    value: bytes | None
    reason: str


class DelayProgress(NamedTuple):
    """How far the job is.

    records: how many it has read. watermark_ms: hours that end by then are done; None: it has seen
    no event yet. airport_hours: rows in gold. hours: different hours in them. quarantined: how many
    records, by their reasons. dropped: events that gold could not count, because the hour to which
    they belong was done already.
    """

    records: int = 0
    watermark_ms: int | None = None
    airport_hours: int = 0
    hours: int = 0
    quarantined: Mapping[str, int] = {}
    dropped: int = 0
