"""Sends the events in a thread through kafka-python, and computes the expected results."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from kqueue.client.kafka_python import closed_at_end
from kqueue.demo.clients import new_producer
from kqueue.demo.events import HOUR_MS, Event, EventKind, events, replay
from kqueue.demo.flights import Flight, Flights
from kqueue.demo.pipeline.expected_results import ExpectedResults, expected_results
from kqueue.spark.jobs.delay_results import LATENESS_MS

TOPIC = "flights"
BATCH_BYTES = 128 * 1024
LINGER_MS = 20
JOIN_S = 10.0


class EventSender:
    """Sends while it is entered as a context manager; `start` begins.

    Thread: the attributes are set by the sender's thread and may be read by others at any time.

    count: events to send, with the closing one. sent: events given to the client. confirmed: all
        were confirmed. now_ms: send time of the last event (ms since 1970). closing_ms: that of the
        closing event. truth: the expected results. error: why the sender ended early.
    """

    def __init__(self, flights: Flights, limit: int | None, hours_per_s: float | None) -> None:
        self.count = (flights.count if limit is None else min(limit, flights.count)) + 1
        self.sent = 0
        self.now_ms: int | None = None
        self.closing_ms: int | None = None
        self.confirmed = False
        self.truth: ExpectedResults | None = None
        self.error: Exception | None = None
        self._flights = flights
        self._hours_per_s = hours_per_s
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, bootstrap: str) -> None:
        """Begin to send."""
        self._thread = threading.Thread(target=self._run, args=(bootstrap,), name="kqueue-demo-sender", daemon=True)
        self._thread.start()

    def __enter__(self) -> EventSender:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(JOIN_S)

    def _run(self, bootstrap: str) -> None:
        try:
            sent_events = list(events(self._going(self._taken())))
            closing = closing_event(sent_events)
            self.closing_ms = closing.send_ms
            self._send(bootstrap, [*sent_events, closing])
            self.truth = expected_results(self._taken(), sent_events, lambda: not self._stopping.is_set())
        except Exception as error:  # raised by the thread that watches the sender
            self.error = error

    def _send(self, bootstrap: str, sent_events: Iterable[Event]) -> None:
        producer = new_producer(bootstrap, batch_bytes=BATCH_BYTES, linger_ms=LINGER_MS)
        with closed_at_end(producer, JOIN_S):
            replay(producer, TOPIC, self._noted(sent_events), hours_per_s=self._hours_per_s, sleep=self._sleep)
            self.confirmed = True

    def _taken(self) -> Iterator[Flight]:
        return itertools.islice(self._flights, self.count - 1)

    def _going(self, flights: Iterable[Flight]) -> Iterator[Flight]:
        return itertools.takewhile(lambda flight: not self._stopping.is_set(), flights)

    def _noted(self, sent_events: Iterable[Event]) -> Iterator[Event]:
        for event in sent_events:
            if self._stopping.is_set():
                return
            yield event
            self.sent += 1
            self.now_ms = event.send_ms

    def _sleep(self, seconds: float) -> None:
        self._stopping.wait(seconds)


def closing_event(sent_events: Iterable[Event]) -> Event:
    """Return a last event that is late enough to close every hour of the others.

    The time of a stream advances by its events only: without this event the last hours would stay
    open. Its own hour is never closed.
    """
    last_ms = max((event.send_ms for event in sent_events), default=0)
    send_ms = (last_ms // HOUR_MS + 1) * HOUR_MS + LATENESS_MS
    time = datetime.fromtimestamp(send_ms / 1000, UTC)
    content = {
        "id": -1,
        "flight": "none",
        "origin": "EWR",
        "dest": "EWR",
        "scheduled": f"{time:%Y-%m-%dT%H:%M:%SZ}",
        "departed": None,
        "delay_min": None,
    }
    return Event(send_ms, b"EWR", json.dumps(content).encode(), EventKind.VALID)
