from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kqueue.cli.demo.flights import Flight
from kqueue.cli.demo.ledger import Ledger


def flight(row: int, keys: int = 3) -> Flight:
    return Flight(row, b"k%d" % (row % keys), b'{"row":%d,"x":"y"}' % row)


def sent(count: int) -> Ledger:
    ledger = Ledger()
    for row in range(count):
        ledger.note_sent(flight(row))
    return ledger


def read(ledger: Ledger, *rows: int) -> None:
    for row in rows:
        ledger.note_read(flight(row).key, flight(row).value)


def test_all_is_well() -> None:
    ledger = sent(6)
    read(ledger, 0, 3, 1, 4, 2, 5)  # each key in order
    assert ledger.complaints() == []
    assert ledger.complete
    assert (ledger.sent, ledger.read, ledger.keys, ledger.missing) == (6, 6, 3, 0)


def test_missing_and_twice() -> None:
    ledger = sent(4)
    read(ledger, 0, 1, 1)
    assert ledger.complaints() == ["2 flights were not read", "1 flights were read more than once"]
    assert not ledger.complete


def test_order_within_a_key_only() -> None:
    ledger = sent(6)
    read(ledger, 5, 4, 3, 0, 1, 2)
    assert ledger.complaints() == ["3 flights came out of order within their key"]
    assert ledger.complete


def test_changed_keys_and_values_are_found() -> None:
    ledger = sent(2)
    ledger.note_read(b"k0", b'{"row":0,"x":"z"}')
    ledger.note_read(b"k9", flight(1).value)
    assert ledger.complaints() == ["2 flights came back changed"]


def test_foreign_records_are_counted_apart() -> None:
    ledger = sent(1)
    read(ledger, 0, 1)
    ledger.note_read(None, flight(0).value)
    ledger.note_read(b"k0", None)
    ledger.note_read(b"k0", b"hello")
    assert ledger.complaints() == ["4 records are no flights"]
    assert not ledger.complete


@given(st.lists(st.integers(0, 19), max_size=60))
def test_against_a_plain_list(rows: list[int]) -> None:
    ledger = sent(20)
    read(ledger, *rows)
    assert ledger.missing == 20 - len(set(rows))
    assert ledger.twice == len(rows) - len(set(rows))
    last: dict[int, int] = {}
    disordered = 0
    for row in rows:
        disordered += last.get(row % 3, -1) > row
        last[row % 3] = row
    assert ledger.disordered == disordered
