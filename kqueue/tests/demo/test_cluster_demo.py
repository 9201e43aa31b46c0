from __future__ import annotations

import io
import threading
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from kqueue.demo import cluster_demo
from kqueue.demo.clients import PARTITIONS, TOPIC
from kqueue.demo.cluster_demo import ClusterResult, Confirmations, Fault
from kqueue.demo.delivery_tracker import DeliveryTracker
from kqueue.demo.flights import Flight
from kqueue.demo.progress_display import ProgressDisplay
from kqueue.log_tools.comparison import ComparisonReport, Difference, PartitionComparison
from kqueue.tests.tables import for_each

FOLDERS = ["a", "b", "c"]


def partition(
    number: int, *, equal_to: int = 1, ends: tuple[int, ...] = (1, 1, 1), difference: Difference | None = None
) -> PartitionComparison:
    by_folder = dict(zip(FOLDERS, ends, strict=False))
    return PartitionComparison(TOPIC, number, by_folder, max(ends), equal_to, False, difference)


def good() -> ClusterResult:
    logs = ComparisonReport(FOLDERS, [partition(number) for number in range(PARTITIONS)])
    result = ClusterResult(PARTITIONS, confirmed=PARTITIONS, logs=logs, send_s=1.0, total_s=2.0)
    result.killed, result.paused = Fault(1, 2, 10.0, 1.5, 3.0), Fault(2, 1, 20.0, 1.5, 3.0)
    for row in range(PARTITIONS):
        flight = Flight(row, b"k", b'{"row":%d,' % row)
        result.tracker.note_sent(flight)
        result.tracker.note_read(flight.key, flight.value)
    return result


def with_logs(*changed: PartitionComparison) -> ComparisonReport:
    return ComparisonReport(FOLDERS, [*changed, *(partition(number) for number in range(len(changed), PARTITIONS))])


def test_complete_run_has_no_differences() -> None:
    assert good().differences() == []


@for_each(
    "change, words",
    [
        ({"confirmed": 3}, "3 of 4 flights were confirmed"),
        ({"flights": 5}, "4 of 5 flights were confirmed"),
        ({"killed": None}, "no broker was killed"),
        ({"paused": None}, "no broker was paused"),
        ({"tracker": DeliveryTracker()}, "the logs hold 4 records, 0 were sent"),
        ({"logs": with_logs(partition(0, ends=(1, 1)))}, "a replica has no log"),
        ({"logs": ComparisonReport(FOLDERS, [partition(0)])}, "a replica has no log"),
        ({"logs": with_logs(partition(0, equal_to=1, ends=(1, 2, 1)))}, "the logs of flights-0 are equal to 1 only"),
        ({"logs": with_logs(partition(0, equal_to=0, ends=(0, 0, 0)))}, "the logs hold 3 records, 4 were sent"),
        (
            {"logs": with_logs(partition(0, difference=Difference(7, ("a", "b"), ("one", "two"))))},
            "the logs of flights-0 differ: offset 7: one in a, two in b",
        ),
    ],
)
def test_every_difference_is_a_complaint(change: dict[str, object], words: str) -> None:
    result = good()
    for name, value in change.items():
        setattr(result, name, value)
    assert words in "; ".join(result.differences())


def test_the_time_without_confirmations_is_that_of_the_worst_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(cluster_demo, "monotonic_s", lambda: now[0])
    confirmations = Confirmations()
    for at_s, number in ((100, 0), (100, 1), (101, 0), (101.01, 0), (103.5, 1), (104, 1), (107, 1)):
        now[0] = at_s
        confirmations.note(number)
    assert confirmations.count == 7
    assert confirmations.longest_gap_s(102, 103) == 3.5
    assert confirmations.longest_gap_s(90, 99) == 0
    result = good()
    result.killed, result.paused = Fault(1, 2, 100.5, 1.0), Fault(2, 1, 105.0, 1.0)
    result.note_confirmations(confirmations)
    assert (result.killed.unavailable_s, result.paused.unavailable_s) == (3.5, 3.0)


def test_waiting_for_confirmations_ends_with_the_sender() -> None:
    confirmations, ended = Confirmations(), threading.Event()
    waiting = threading.Thread(target=confirmations.await_count, args=(2, ended))
    waiting.start()
    confirmations.note(0)
    confirmations.note(1)
    waiting.join(60)
    assert not waiting.is_alive()
    ended.set()
    confirmations.await_count(1_000, ended)


@for_each("width", [80, 120])
def test_each_row_of_the_table_is_one_line(width: int) -> None:
    result = good()
    result.tracker.sent = result.confirmed = result.tracker.read = 336_776
    result.total_s = 123.4
    out = io.StringIO()
    ProgressDisplay(Console(file=out, width=width)).table("Flights", result.rows())
    lines = out.getvalue().splitlines()
    assert len(lines) == len(result.rows()) + 3
    assert max(map(len, lines)) <= width
    for what, count, note in result.rows():
        assert any(what in line and count in line and note in line for line in lines)


def test_rows_tell_what_is_wrong() -> None:
    result = good()
    result.tracker.note_read(b"k", b'{"row":0,')
    result.logs = with_logs(partition(0, difference=Difference(7, ("a", "b"), ("one", "two"))))
    counts = Counter(count for _, count, _ in result.rows())
    assert counts["NO"] == 3


# kafka-python leaves the sockets open with which it can't reach the killed broker.
@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_brokers_fail_while_flights_are_sent(tmp_path: Path) -> None:
    result = cluster_demo.run(tmp_path, ProgressDisplay(Console(file=io.StringIO())), limit=40_000)
    assert result.differences() == []
    assert (result.confirmed, result.tracker.read) == (40_000, 40_000)
    assert result.killed is not None
    assert result.paused is not None
    assert result.killed.broker != result.paused.broker
    assert result.paused.unavailable_s > 0.5, "clients did not notice that a broker was paused"
    logs = {number: (tmp_path / f"broker-{number}" / "broker.log").read_text() for number in (1, 2, 3)}
    starts = {number: text.count(" serves ") for number, text in logs.items()}
    assert starts == {number: 2 if number == result.killed.broker else 1 for number in logs}
