"""Ranges are split where a part changes, and joined where they are alike."""

from __future__ import annotations

from kqueue.share.in_flight import InFlightRange, InFlightRanges
from kqueue.share.record_state import RecordEvent, RecordState

AVAILABLE, ACKNOWLEDGED = RecordState.AVAILABLE, RecordState.ACKNOWLEDGED


def ranges(*sizes: int, start: int = 10) -> InFlightRanges:
    made = InFlightRanges(start)
    for size in sizes:
        made.append(InFlightRange(made.end, made.end + size - 1, AVAILABLE, 0))
    return made


def shown(made: InFlightRanges) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in made]


def test_cutting() -> None:
    made = ranges(5, 5)
    assert [(each.first, each.last) for each in made.cut(12, 16)] == [(12, 14), (15, 16)]
    assert shown(made) == [(10, 11), (12, 14), (15, 16), (17, 19)]
    assert made.cut(0, 9) == made.cut(20, 30) == made.cut(15, 14) == []
    assert [(each.first, each.last) for each in made.cut(0, 10)] == [(10, 10)]


def test_overlapping() -> None:
    made = ranges(2, 2, 2)
    assert [each.first for each in made.overlapping(11, 12)] == [10, 12]
    assert made.overlapping(16, 20) == []
    assert InFlightRanges(0).overlapping(0, 5) == []


def test_joining() -> None:
    made = ranges(2, 2, 2)
    made.cut(12, 12)[0].event = RecordEvent.SKIP
    made.coalesce(10, 15)
    assert shown(made) == [(10, 11), (12, 12), (13, 15)]


def test_the_start_moves_over_what_is_done() -> None:
    made = ranges(2, 2, 2)
    for each in made.cut(10, 12):
        each.acquire("m", 1)
        each.end(RecordEvent.ACCEPT)
    made.advance()
    assert (made.start, shown(made)) == (13, [(13, 13), (14, 15)])
    made.drop_before(15)
    assert (made.start, shown(made)) == (15, [(15, 15)])
    made.drop_before(40)
    assert (made.start, made.end, len(made)) == (40, 40, 0)
