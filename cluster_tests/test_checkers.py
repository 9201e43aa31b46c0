"""Each checker passes a good history, and finds what is wrong with a bad one."""

from __future__ import annotations

import pytest

from cluster_tests import checkers
from cluster_tests.checkers import Entry, GroupEvent, LeaderSeen

LOG = [Entry(0, 0, "a:1"), Entry(0, 1, "b:1"), Entry(0, 3, "a:2"), Entry(1, 0, "a:3")]
ACKNOWLEDGED = {entry.place: entry.value for entry in LOG}


def changed(place: tuple[int, int], value: str | None) -> list[Entry]:
    """The log with another value, or none, at a place."""
    kept = [entry for entry in LOG if entry.place != place]
    return sorted([*kept, Entry(*place, value)] if value is not None else kept)


def test_nothing_is_lost() -> None:
    assert checkers.lost(ACKNOWLEDGED, ["a:3"], [*LOG, Entry(1, 1, "unknown:1")]) == []


@pytest.mark.parametrize("value", [None, "a:7"])
def test_a_lost_record_is_found(value: str | None) -> None:
    (violation,) = checkers.lost(ACKNOWLEDGED, [], changed((0, 3), value))
    assert violation == f"a:2 was acknowledged at (0, 3), where the log has {value or 'nothing'}"


def test_a_lost_record_whose_offset_is_unknown_is_found() -> None:
    assert checkers.lost(ACKNOWLEDGED, ["a:9"], LOG) == ["a:9 was acknowledged, and is nowhere"]


def test_a_repeated_record_is_found() -> None:
    assert checkers.doubled(LOG) == []
    assert checkers.doubled([*LOG, Entry(0, 9, "b:1")]) == ["b:1 is there 2 times: [(0, 1), (0, 9)]"]


def test_a_record_out_of_order_is_found() -> None:
    assert checkers.disordered(reversed(LOG)) == []
    assert checkers.disordered([*LOG, Entry(0, 4, "a:1")]) == ["a:1 comes after a:2 at (0, 4)"]


def test_reads_repeat() -> None:
    assert checkers.unrepeatable([LOG, LOG[1:], []], LOG) == []
    assert checkers.unrepeatable([LOG], LOG[2:], gone=True) == []


def test_a_reader_that_goes_back_is_found() -> None:
    (violation,) = checkers.unrepeatable([[*LOG, LOG[1]]], LOG)
    assert violation == "(0, 1) was read after offset 3"


@pytest.mark.parametrize(("value", "gone"), [(None, False), ("a:7", False), ("a:7", True)])
def test_record_read_but_missing_from_the_log_is_reported(value: str | None, gone: bool) -> None:
    (violation,) = checkers.unrepeatable([LOG], changed((0, 1), value), gone=gone)
    assert violation == f"b:1 was read at (0, 1), where the log has {value or 'nothing'}"


def test_two_leaders_of_an_epoch_are_found() -> None:
    good = [LeaderSeen(1, "t-0", 5, 1), LeaderSeen(2, "t-0", 5, 1), LeaderSeen(1, "t-0", 6, -1)]
    good += [LeaderSeen(1, "t-0", 6, 2), LeaderSeen(2, "t-0", 5, 1), LeaderSeen(1, "t-1", 5, 3)]
    assert checkers.contested(good) == []
    assert checkers.contested([*good, LeaderSeen(3, "t-0", 6, 3)]) == ["t-0 has the leaders 2 and 3 in epoch 6"]
    assert checkers.contested([*good, LeaderSeen(1, "t-0", 5, 1)]) == ["broker 1 went back from epoch 6 to 5 of t-0"]


def test_a_commit_that_is_lost_is_found() -> None:
    good = [GroupEvent("begin", 0, -1, 0, 1), GroupEvent("commit", 0, 10, 1, 2), GroupEvent("commit", 0, 20, 4, 9)]
    good += [GroupEvent("begin", 0, 10, 3, 5), GroupEvent("begin", 0, 20, 3, 5), GroupEvent("begin", 1, -1, 3, 5)]
    assert checkers.uncommitted(good) == []
    (violation,) = checkers.uncommitted([*good, GroupEvent("begin", 0, 10, 10, 11)])
    assert violation == "a member began at 10 of partition 0, 20 was committed"


def test_a_record_that_the_group_skipped_is_found() -> None:
    assert checkers.unprocessed(LOG, [*ACKNOWLEDGED, (0, 0)]) == []
    assert checkers.unprocessed(LOG, set(ACKNOWLEDGED) - {(0, 1)}) == ["b:1 at (0, 1) was not processed"]


BANK = [Entry(0, 0, "t1:alice:-5"), Entry(1, 0, "t1:bob:5"), Entry(0, 2, "t3:alice:1"), Entry(0, 3, "t3:bob:-1")]
OUTCOMES = {"t1": "committed", "t2": "aborted", "t3": "unknown", "t4": "unknown"}


def test_a_bank_without_errors() -> None:
    assert checkers.unbalanced(OUTCOMES, BANK) == []


@pytest.mark.parametrize(
    ("outcomes", "entries", "words"),
    [
        (OUTCOMES, BANK[1:], ["transfer t1 is committed, and 1 of its halves are there", "sum of all accounts is 5"]),
        (OUTCOMES, BANK[2:], ["transfer t1 is committed, and 0 of its halves are there"]),
        ({**OUTCOMES, "t1": "aborted"}, BANK, ["transfer t1 is aborted, and 2 of its halves are there"]),
        (OUTCOMES, BANK[:3], ["transfer t3 is unknown, and 1 of its halves are there", "sum of all accounts is 1"]),
        (OUTCOMES, [*BANK, *BANK[:2]], ["transfer t1 is committed, and 4 of its halves are there"]),
        ({"t1": "committed"}, BANK, ["nobody made transfer t3"]),
    ],
)
def test_half_a_transfer_is_found(outcomes: dict[str, str], entries: list[Entry], words: list[str]) -> None:
    violations = checkers.unbalanced(outcomes, entries)
    assert len(violations) == len(words)
    assert all(expected in violation for expected, violation in zip(words, violations, strict=True))


def test_a_key_that_fell_back_is_found() -> None:
    assert checkers.outdated({"a": 5, "b": 1}, {"a": 6, "b": 1, "c": 1}) == []
    assert checkers.outdated({"a": 5, "b": 1}, {"a": 4}) == [
        "a ends at 4, 5 was acknowledged",
        "b ends at nothing, 1 was acknowledged",
    ]


def test_a_long_wait_is_found() -> None:
    assert checkers.slow({"kill": 1.9}, 2.0) == []
    assert checkers.slow({"kill": 2.1, "again": 1.0}, 2.0) == ["clients waited 2.10 s after: kill"]


def test_many_violations_are_counted() -> None:
    violations = checkers.lost({(0, number): "a" for number in range(100)}, [], [])
    assert len(violations) == 6
    assert violations[-1] == "... and 95 more of this kind"
