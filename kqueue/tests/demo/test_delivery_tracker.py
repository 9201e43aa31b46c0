from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kqueue.demo.delivery_tracker import DeliveryTracker
from kqueue.demo.flights import Flight


def flight(row: int, keys: int = 3) -> Flight:
    return Flight(row, b"k%d" % (row % keys), b'{"row":%d,"x":"y"}' % row)


def sent(count: int) -> DeliveryTracker:
    tracker = DeliveryTracker()
    for row in range(count):
        tracker.note_sent(flight(row))
    return tracker


def read(tracker: DeliveryTracker, *rows: int) -> None:
    for row in rows:
        tracker.note_read(flight(row).key, flight(row).value)


def test_all_is_well() -> None:
    tracker = sent(6)
    read(tracker, 0, 3, 1, 4, 2, 5)  # each key in order
    assert tracker.differences() == []
    assert tracker.complete
    assert (tracker.sent, tracker.read, tracker.keys, tracker.missing) == (6, 6, 3, 0)


def test_missing_and_twice() -> None:
    tracker = sent(4)
    read(tracker, 0, 1, 1)
    assert tracker.differences() == ["2 flights were not read", "1 flights were read more than once"]
    assert not tracker.complete


def test_order_within_a_key_only() -> None:
    tracker = sent(6)
    read(tracker, 5, 4, 3, 0, 1, 2)
    assert tracker.differences() == ["3 flights came out of order within their key"]
    assert tracker.complete


def test_changed_keys_and_values_are_found() -> None:
    tracker = sent(2)
    tracker.note_read(b"k0", b'{"row":0,"x":"z"}')
    tracker.note_read(b"k9", flight(1).value)
    assert tracker.differences() == ["2 flights came back changed"]


def test_foreign_records_are_counted_apart() -> None:
    tracker = sent(1)
    read(tracker, 0, 1)
    tracker.note_read(None, flight(0).value)
    tracker.note_read(b"k0", None)
    tracker.note_read(b"k0", b"hello")
    assert tracker.differences() == ["4 records are no flights"]
    assert not tracker.complete


@given(st.lists(st.integers(0, 19), max_size=60))
def test_against_a_plain_list(rows: list[int]) -> None:
    tracker = sent(20)
    read(tracker, *rows)
    assert tracker.missing == 20 - len(set(rows))
    assert tracker.twice == len(rows) - len(set(rows))
    last: dict[int, int] = {}
    disordered = 0
    for row in rows:
        disordered += last.get(row % 3, -1) > row
        last[row % 3] = row
    assert tracker.disordered == disordered
