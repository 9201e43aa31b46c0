"""S3.4: index entries against batches, in one pass."""

from __future__ import annotations

from kqueue.log.formats.offset_index import ENTRY as INDEX_ENTRY
from kqueue.log.formats.time_index import ENTRY as TIME_ENTRY
from kqueue.log_tools.verify.indexes import OffsetIndexVerifier, TimeIndexVerifier

BATCHES = [
    (0, 100, 109, 1000),
    (50, 110, 119, 1005),
    (90, 120, 129, 1003),
    (140, 130, 139, 1010),
]  # position, offsets, greatest time


def index_findings(
    *entries: tuple[int, int], tail: bytes = b"", skip: int | None = None
) -> tuple[list[str], list[str]]:
    hard: list[str] = []
    loose: list[str] = []
    data = b"".join(INDEX_ENTRY.pack(*entry) for entry in entries) + tail
    check = OffsetIndexVerifier(
        memoryview(data),
        100,
        lambda at, expected, found: hard.append(found),
        lambda at, expected, found: loose.append(found),
    )
    for number, (position, _, last, _) in enumerate(BATCHES):
        if number == skip:
            check.skip(BATCHES[number + 1][0])
        else:
            check.batch(position, last)
    check.close(200)
    return hard, loose


def test_entries_that_are_right() -> None:
    assert index_findings() == ([], [])
    assert index_findings((19, 50), (39, 140)) == ([], [])


def test_the_last_offset_of_several_batches_that_came_at_once() -> None:
    """Followers and old formats: one entry, with the first position and the last offset of all."""
    assert index_findings((39, 50)) == ([], [])
    assert index_findings((25, 50)) == ([], ["125"])


def test_the_last_offset_that_compaction_kept() -> None:
    assert index_findings((15, 50)) == ([], ["115"])


def test_entries_that_point_to_the_wrong_batch_are_reported() -> None:
    assert index_findings((9, 50)) == (["109"], [])
    assert index_findings((19, 51)) == (["51, where none begins"], [])
    assert index_findings((90, 140)) == (["190"], [])
    assert index_findings((39, 150)) == (["150"], [])


def test_entries_into_damaged_bytes_are_not_judged() -> None:
    assert index_findings((19, 60), (29, 90), skip=1) == ([], [])


def test_zeros_at_the_end_are_padding() -> None:
    problems: list[str] = []
    data = INDEX_ENTRY.pack(19, 50) + bytes(8 * 5000)
    check = OffsetIndexVerifier(
        memoryview(data), 100, lambda at, expected, what: problems.append(what), lambda at, expected, what: None
    )
    assert (check.padded, problems) == (5000, [])


def time_findings(*entries: tuple[int, int], sealed: bool = True, skip: int | None = None) -> list[str]:
    hard: list[str] = []
    data = b"".join(TIME_ENTRY.pack(*entry) for entry in entries)
    check = TimeIndexVerifier(memoryview(data), 100, lambda at, expected, found: hard.append(found))
    for number, (_, first, last, timestamp) in enumerate(BATCHES):
        if number == skip:
            check.skip()
        else:
            check.batch(first, last, timestamp)
    check.close(139, sealed=sealed)
    return hard


def test_times_that_are_right() -> None:
    assert time_findings((1005, 19), (1010, 39)) == []
    assert time_findings((1005, 12), (1010, 33)) == [], "the offset of the record itself, as Kafka 3.6 wrote"
    assert time_findings((1005, 29), (1010, 39)) == [], "the last of several batches that came at once"
    assert time_findings((1005, 19), sealed=False) == []


def test_times_that_are_wrong() -> None:
    assert time_findings((1004, 19), (1010, 39)) == ["1004"]
    assert time_findings((1005, 9), (1010, 39)) == ["1005"]
    assert time_findings((1005, 19), (1010, 45)) == ["145"]
    assert time_findings((1005, 19)) == ["one for 1005"]
    assert time_findings() == ["one for -1"]


def test_times_of_damaged_batches_are_not_judged() -> None:
    assert time_findings((1005, 19), (1010, 39), skip=1) == []
    assert time_findings((1005, 19), (1010, 39), skip=3) == []
