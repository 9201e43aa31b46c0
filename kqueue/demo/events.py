"""The flights of 2013 as a stream of events in the order of departure; some late, some malformed.

An event is JSON: ``{"id": 0, "flight": "UA1545", "origin": "EWR", "dest": "IAH", "scheduled":
"2013-01-01T10:15:00Z", "departed": "2013-01-01T10:17:00Z", "delay_min": 2}``. Times are UTC. A
cancelled flight has null for `departed` and `delay_min`, and is sent at its scheduled time.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from kqueue.base.clock import monotonic_s
from kqueue.client.kafka_python import flush
from kqueue.demo.flights import Flight

if TYPE_CHECKING:
    from kafka import KafkaProducer

LATE_SHARE = 0.01
BROKEN_SHARE = 0.005
LATE_MIN_MS, LATE_MAX_MS = 3 * 60 * 60 * 1000, 24 * 60 * 60 * 1000
HOUR_MS = 60 * 60 * 1000
SHOW_EVERY = 1000
PAUSE_MIN_S = 0.001  # shorter pauses are skipped


class EventKind(StrEnum):
    """Whether an event was changed on purpose."""

    VALID = "fine"
    LATE = "late"
    MALFORMED = "broken"


class Defect(StrEnum):
    """The ways in which a malformed event was changed; each is a mistake of real senders."""

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
    """A record to send at `send_ms` (since 1970), keyed by its airport.

    `harm`: the defect of a malformed event, else None.
    """

    send_ms: int
    key: bytes
    value: bytes
    kind: EventKind
    harm: Defect | None = None


def events(
    flights: Iterable[Flight], *, seed: int = 0, late_share: float = LATE_SHARE, broken_share: float = BROKEN_SHARE
) -> Iterator[Event]:
    """Return all departures in sending order, about the given shares of them late or malformed.

    The same `seed` gives the same events. Memory: about 700 bytes for each event, until the last.

    Args:
        late_share: share of the events sent 3 to 24 hours late.
        broken_share: share of malformed events.
    """
    if not (0 <= late_share <= 1 and 0 <= broken_share <= 1):
        raise ValueError("a share is a number from 0 to 1")
    rng = random.Random(seed)
    stream = [_event(flight, rng, late_share, broken_share) for flight in flights]
    stream.sort(key=lambda event: event.send_ms)
    return iter(stream)


def replay(
    producer: KafkaProducer,
    topic: str,
    sent_events: Iterable[Event],
    *,
    hours_per_s: float | None = None,
    progress: Callable[[int], None] = lambda sent: None,
    sleep: Callable[[float], None] = time.sleep,
    now_s: Callable[[], float] = monotonic_s,
) -> dict[EventKind, int]:
    """Send events, each with its send time as timestamp; return the confirmed count of each kind.

    Args:
        hours_per_s: hours of 2013 in a second; None: as fast as possible.
    Raises: KafkaError: a record was rejected.
    """
    counts = dict.fromkeys(EventKind, 0)
    pace = _Pace(hours_per_s, sleep, now_s)
    failures: list[BaseException] = []
    for number, event in enumerate(sent_events, start=1):
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
    """Waits so that event time passes in proportion to real time, from the first event on."""

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
        harm = rng.choice(tuple(_CORRUPTIONS))
        return Event(send_ms, key, _CORRUPTIONS[harm](content), EventKind.MALFORMED, harm)
    value = json.dumps(content, separators=(",", ":")).encode()
    return Event(send_ms + lag, key, value, EventKind.LATE) if late else Event(send_ms, key, value, EventKind.VALID)


def _cut(content: dict[str, Any]) -> bytes:
    text = json.dumps(content).encode()
    return text[: len(text) // 2]


_CORRUPTIONS: dict[Defect, Callable[[dict[str, Any]], bytes]] = {
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
