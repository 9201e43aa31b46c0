from __future__ import annotations

from kqueue.client.deadline import Deadline
from kqueue.tests.tables import for_each


def test_deadline_reports_the_remaining_time() -> None:
    deadline = Deadline(60_000)
    assert 59 < deadline.remaining_s <= 60
    assert 59_000 < deadline.remaining_ms <= 60_000
    assert 44_000 < deadline.broker_timeout_ms <= 45_000
    assert not deadline.is_expired
    over = Deadline(-1)
    assert (over.is_expired, over.remaining_s, over.remaining_ms, over.broker_timeout_ms) == (True, 0.0, 0, 0)


@for_each("outer_ms, inner_ms, found_ms", [(60_000, 10, 10), (10, 60_000, 10)])
def test_the_earlier_one_counts(outer_ms: int, inner_ms: int, found_ms: int) -> None:
    assert Deadline(outer_ms).within(inner_ms).timeout_ms == found_ms
