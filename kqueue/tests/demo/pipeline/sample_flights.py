"""Six flights whose results can be computed by hand."""

from __future__ import annotations

import json

from kqueue.demo.events import Event, events
from kqueue.demo.flights import Flight

DEPARTURES = (
    ("EWR", 10, 15, 2),
    ("EWR", 10, 50, 20),
    ("EWR", 10, 30, None),
    ("JFK", 10, 55, -5),
    ("LGA", 11, 0, None),
    ("JFK", 10, 59, 15),
)


def flight(row: int, origin: str, hour: int, minute: int, delay_min: int | None) -> Flight:
    time_hour = f"2013-01-01T{hour:02}:00:00Z"
    value = {
        "row": row,
        "origin": origin,
        "dest": "IAH",
        "time_hour": time_hour,
        "minute": minute,
        "dep_delay": delay_min,
    }
    return Flight(row, b"UA1", json.dumps(value).encode())


def sample_flights() -> list[Flight]:
    return [flight(row, *departure) for row, departure in enumerate(DEPARTURES)]


def sample_events() -> list[Event]:
    """An event for each flight; none is late or malformed."""
    return list(events(sample_flights(), late_share=0, broken_share=0))
