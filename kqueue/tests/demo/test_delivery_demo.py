from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from kqueue.demo import clients, delivery_demo
from kqueue.demo.clients import GroupRead
from kqueue.demo.delivery_demo import DeliveryResult
from kqueue.demo.delivery_tracker import DeliveryTracker
from kqueue.demo.flights import Flight
from kqueue.demo.progress_display import ProgressDisplay
from kqueue.tests.tables import for_each


def good() -> DeliveryResult:
    result = DeliveryResult(
        2, stored=2, stored_after=2, before=GroupRead([1, 0], 0, 0.5), after=GroupRead([0, 1], 1, 0.5)
    )
    for row in range(2):
        flight = Flight(row, b"k", b'{"row":%d,' % row)
        result.tracker.note_sent(flight)
        result.tracker.note_read(flight.key, flight.value)
    return result


def test_complete_run_has_no_differences() -> None:
    assert good().differences() == []


@for_each(
    "change, words",
    [
        ({"flights": 3}, "2 of 3 flights were sent"),
        ({"stored": 1, "stored_after": 1}, "the topic held 1 record after 2 were sent"),
        ({"stored_after": 1}, "the topic held 1 record after the restart, 2 before"),
        ({"after": GroupRead([0, 2], 0)}, "the group went on at 0 after the restart, but had committed 1"),
        ({"tracker": DeliveryTracker()}, "0 of 2 flights were sent"),
    ],
)
def test_every_difference_is_a_complaint(change: dict[str, object], words: str) -> None:
    result = good()
    for name, value in change.items():
        setattr(result, name, value)
    assert words in "; ".join(result.differences())


def test_rows_tell_the_counts() -> None:
    rows = {what: (count, note) for what, count, note in good().rows()}
    assert rows["Records sent"][0] == rows["Records read"][0] == "2"
    assert rows["Read after the restart"][1].endswith("0 + 1")
    assert rows["Each flight read once"][0] == "yes"
    result = good()
    result.tracker.note_read(b"k", b'{"row":0,')
    rows = {what: (count, note) for what, count, note in result.rows()}
    assert rows["Each flight read once"][0] == "NO"
    assert rows["In order within each key"][0] == "NO"


def test_the_story_on_a_real_folder(tmp_path: Path) -> None:
    result = delivery_demo.run(tmp_path, ProgressDisplay(Console(file=io.StringIO())), limit=3000)
    assert result.differences() == []
    assert (result.flights, result.tracker.read, result.stored_after) == (3000, 3000, 3000)
    assert 0 < result.disk_bytes < result.tracker.sent_bytes
    assert sorted(path.name for path in tmp_path.glob(f"{clients.TOPIC}-*")) == [f"flights-{n}" for n in range(4)]
