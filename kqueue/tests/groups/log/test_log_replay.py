"""The content of a partition of the log, with transactions in it."""

from __future__ import annotations

from kqueue.base.sliced_task import run_to_end
from kqueue.groups.log.group_log import EndMarker, TransactionalRecord
from kqueue.groups.log.log_replay import replay


def test_the_last_version_of_a_key_counts_in_the_order_of_the_log() -> None:
    replayed = run_to_end(replay([(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", None)]))
    assert list(replayed.latest.items()) == [(b"b", b"1"), (b"a", b"2"), (b"c", None)]
    assert replayed.pending == []


def test_a_committed_transaction_counts_from_its_marker_on() -> None:
    replayed = run_to_end(
        replay([TransactionalRecord(7, b"a", b"1"), (b"b", b"1"), EndMarker(7, True), EndMarker(8, True)])
    )
    assert list(replayed.latest.items()) == [(b"b", b"1"), (b"a", b"1")]


def test_an_aborted_transaction_never_counts() -> None:
    replayed = run_to_end(replay([(b"a", b"1"), TransactionalRecord(7, b"a", b"2"), EndMarker(7, False)]))
    assert replayed.latest == {b"a": b"1"}
    assert replayed.pending == []


def test_a_later_record_is_not_overwritten_by_an_earlier_one_whose_marker_follows() -> None:
    replayed = run_to_end(replay([TransactionalRecord(7, b"a", b"1"), (b"a", b"2"), EndMarker(7, True)]))
    assert replayed.latest == {b"a": b"2"}


def test_a_tombstone_removes_what_is_pending() -> None:
    replayed = run_to_end(replay([TransactionalRecord(7, b"a", b"1"), (b"a", None), EndMarker(7, True)]))
    assert replayed.latest == {b"a": None}


def test_open_transactions_are_pending() -> None:
    first, second = TransactionalRecord(7, b"a", b"1"), TransactionalRecord(8, b"b", b"2")
    replayed = run_to_end(replay([first, second, (b"a", b"3")]))
    assert replayed.latest == {b"a": b"3"}
    assert replayed.pending == [(first, True), (second, False)]
