"""The results of the job `delays` as plain rows. No pyspark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kqueue.spark.event_schema import FLIGHTS, seconds_of

LATENESS_MS = seconds_of(FLIGHTS.lateness, "lateness") * 1000
"""The maximum delay of a record after its departure."""


class AirportHour(NamedTuple):
    """The departures of an airport in the hour from `start_ms` (since 1970), by actual departure.

    Cancelled flights count by their scheduled time. delayed: by 15 minutes or more. delay_avg_min,
    delay_max_min: minutes, negative if early; None where all were cancelled.
    """

    origin: str
    start_ms: int
    flights: int
    cancelled: int
    delayed: int
    delay_avg_min: float | None
    delay_max_min: int | None


class QuarantinedRecord(NamedTuple):
    """A quarantined record: its position, timestamp (ms since 1970), value and reason."""

    partition: int
    offset: int
    time_ms: int
    value: bytes | None
    reason: str


class DelayProgress(NamedTuple):
    """The progress of the job.

    records: records read. watermark_ms: hours that end by then are complete; None: no event yet.
    airport_hours: rows in gold. hours: different hours in them. quarantined: records by reason.
    dropped: events that gold could not count because their hour was complete.
    """

    records: int = 0
    watermark_ms: int | None = None
    airport_hours: int = 0
    hours: int = 0
    quarantined: Mapping[str, int] = {}
    dropped: int = 0
