from __future__ import annotations

import pytest

from kqueue.log_tools.dump import Problems


def test_only_real_mismatches_count_as_wrong() -> None:
    told: list[str] = []
    problems = Problems(told.append)
    problems.gap("a", 3, 9)
    problems.index_mismatch("b", 7, 5, harmless=True)
    problems.index_mismatch("b", 9, 8, harmless=True)
    problems.time_offset_not_found("c", 7, 9, harmless=True)
    assert not problems.wrong
    problems.time_mismatch("c", 100, 99)
    assert problems.wrong
    problems.time_out_of_order("c", 5, 6)
    assert list(problems.summary()) == [
        "Mismatches in :b",
        "  Index offset: 9, log offset: 8",
        "  Index offset: 7, log offset: 5",
        "Found timestamp mismatch in :c",
        "  Index timestamp: 100, log timestamp: 99",
        "Found out of order timestamp in :c",
        "  Index timestamp: 5, Previously indexed timestamp: 6",
        "The following indexed offsets are not found in :c",
        "Indexed offset: 7, found log offset: 9",
        "Non-consecutive offsets in a",
        "  3 is followed by 9",
    ]
    assert told == []


def test_a_sentence_is_told_at_once_and_means_damage() -> None:
    told: list[str] = []
    problems = Problems(told.append)
    problems.complain("x is broken")
    assert told == ["x is broken"]
    assert problems.wrong
    assert list(problems.summary()) == []


def test_lists_at_the_end_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kqueue.log_tools.dump.problems.PAIRS_MAX", 2)
    problems = Problems(lambda sentence: None)
    for number in range(5):
        problems.gap("a", 10 * number, 10 * number + 2)
    assert list(problems.summary()) == [
        "Non-consecutive offsets in a",
        "  0 is followed by 2",
        "  10 is followed by 12",
        "  and 3 more",
    ]
    assert not problems.wrong
    problems.gap("a", 7, 7)
    assert problems.wrong, "offsets must rise"
