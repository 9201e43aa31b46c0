"""The flights of 2013 as a stream of events: each departure is told when it happens, some much
later, some in no usable form.

An event is JSON: ``{"id": 0, "flight": "UA1545", "origin": "EWR", "dest": "IAH", "scheduled":
"2013-01-01T10:15:00Z", "departed": "2013-01-01T10:17:00Z", "delay_min": 2}``. Times are UTC. A
flight that was cancelled has null for `departed` and `delay_min`, and is told at the time at which
it should have left.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from kqueue.client.kafka_python import flush
from kqueue.demo.flights import Flight

if TYPE_CHECKING:
    from kafka import KafkaProducer

LATE_SHARE = 0.01
BROKEN_SHARE = 0.005
LATE_MIN_MS, LATE_MAX_MS = 3 * 60 * 60 * 1000, 24 * 60 * 60 * 1000
HOUR_MS = 60 * 60 * 1000
SHOW_EVERY = 1000
PAUSE_MIN_S = 0.001  # shorter ones are not worth going to sleep for


class EventKind(StrEnum):
    """What was done to an event on purpose."""

    VALID = "fine"
    LATE = "late"
    MALFORMED = "broken"


class Defect(StrEnum):
    """What was done to a broken one: one of the ways in which real senders go wrong."""

    CUT = "cut in half"
    EMPTIED = "emptied"
    NO_UTF8 = "given bytes that are no UTF-8"
    LISTED = "put into a list"
    NO_ORIGIN = "robbed of its origin"
    NO_TIME = "given a word for its time"
    NO_DELAY = "given words for its delay"
    HUGE_DELAY = "given a delay of years"
    ELSEWHERE = "given an airport that is none"


class Event(NamedTuple):
    """A record to be sent at `send_ms` (since 1970), keyed by its airport: those of an airport stay
    in order.

    `harm`: what was done to it if it is broken, else None.
    """

    send_ms: int
    key: bytes
    value: bytes
    kind: EventKind
    harm: Defect | None = None


def events(
    flights: Iterable[Flight], *, seed: int = 0, late_share: float = LATE_SHARE, broken_share: float = BROKEN_SHARE
) -> Iterator[Event]:
    """All departures in the order in which they are told; about so many late (by 3 to 24 hours),
    and so many broken.

    The same `seed` gives the same events. All are held in memory until the last is given: some 700
    bytes each.
    """
    if not (0 <= late_share <= 1 and 0 <= broken_share <= 1):
        raise ValueError("a share is a number from 0 to 1")
    rng = random.Random(seed)
    made = [_event(flight, rng, late_share, broken_share) for flight in flights]
    made.sort(key=lambda event: event.send_ms)
    return iter(made)


def replay(
    producer: KafkaProducer,
    topic: str,
    told: Iterable[Event],
    *,
    hours_per_s: float | None = None,
    progress: Callable[[int], None] = lambda sent: None,
    sleep: Callable[[float], None] = time.sleep,
    now_s: Callable[[], float] = time.monotonic,
) -> dict[EventKind, int]:
    """Send events, each with the time at which it is told; returns how many of each kind the broker
    has confirmed.

    hours_per_s: how many hours of 2013 pass in a second; None: as fast as it goes. Raises
    KafkaError: one was not taken.
    """
    counts = dict.fromkeys(EventKind, 0)
    pace = _Pace(hours_per_s, sleep, now_s)
    failures: list[BaseException] = []
    for number, event in enumerate(told, start=1):
        pace.until(event.send_ms)
        producer.send(topic, event.value, event.key, timestamp_ms=event.send_ms).add_errback(failures.append)
        counts[event.kind] += 1
        if number % SHOW_EVERY == 0:
            progress(number)
        if failures:
            break
    flush(producer)
    if failures:
        raise failures[0]
    progress(sum(counts.values()))
    return counts


class _Pace:
    """Waits so that the time of the events goes by in step with ours, from the first event on."""

    def __init__(self, hours_per_s: float | None, sleep: Callable[[float], None], now_s: Callable[[], float]) -> None:
        self._ms_per_s = None if hours_per_s is None else hours_per_s * HOUR_MS
        self._sleep = sleep
        self._now_s = now_s
        self._began: tuple[int, float] | None = None

    def until(self, send_ms: int) -> None:
        if self._ms_per_s is None:
            return
        if self._began is None:
            self._began = send_ms, self._now_s()
        first_ms, began_s = self._began
        left_s = began_s + (send_ms - first_ms) / self._ms_per_s - self._now_s()
        if left_s >= PAUSE_MIN_S:
            self._sleep(left_s)


def _event(flight: Flight, rng: random.Random, late_share: float, broken_share: float) -> Event:
    row = json.loads(flight.value)
    scheduled = datetime.fromisoformat(row["time_hour"]).replace(minute=row["minute"])
    delay_min: int | None = row["dep_delay"]
    departed = None if delay_min is None else scheduled + timedelta(minutes=delay_min)
    content = {
        "id": flight.row,
        "flight": flight.key.decode(),
        "origin": row["origin"],
        "dest": row["dest"],
        "scheduled": _text(scheduled),
        "departed": None if departed is None else _text(departed),
        "delay_min": delay_min,
    }
    send_ms = round((departed or scheduled).timestamp() * 1000)
    late, broken, lag = rng.random() < late_share, rng.random() < broken_share, rng.randint(LATE_MIN_MS, LATE_MAX_MS)
    key = row["origin"].encode()
    if broken:
        harm = rng.choice(tuple(_WAYS))
        return Event(send_ms, key, _WAYS[harm](content), EventKind.MALFORMED, harm)
    value = json.dumps(content, separators=(",", ":")).encode()
    return Event(send_ms + lag, key, value, EventKind.LATE) if late else Event(send_ms, key, value, EventKind.VALID)


def _cut(content: dict[str, Any]) -> bytes:
    text = json.dumps(content).encode()
    return text[: len(text) // 2]


_WAYS: dict[Defect, Callable[[dict[str, Any]], bytes]] = {
    Defect.CUT: _cut,
    Defect.EMPTIED: lambda content: b"",
    Defect.NO_UTF8: lambda content: b"\xff\xfe" + json.dumps(content).encode(),
    Defect.LISTED: lambda content: json.dumps([content]).encode(),
    Defect.NO_ORIGIN: lambda content: json.dumps(
        {name: value for name, value in content.items() if name != "origin"}
    ).encode(),
    Defect.NO_TIME: lambda content: json.dumps({**content, "scheduled": "yesterday"}).encode(),
    Defect.NO_DELAY: lambda content: json.dumps(
        {**content, "delay_min": "a while", "departed": content["scheduled"]}
    ).encode(),
    Defect.HUGE_DELAY: lambda content: json.dumps(
        {**content, "delay_min": 1_000_000, "departed": content["scheduled"]}
    ).encode(),
    Defect.ELSEWHERE: lambda content: json.dumps({**content, "origin": "Newark"}).encode(),
}


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
