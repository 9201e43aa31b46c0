from __future__ import annotations

import pytest

from kqueue.broker.replicas.high_watermark import HighWatermark


def test_each_higher_value_is_reported_once_after_it_is_in_force() -> None:
    seen: list[tuple[int, int]] = []
    watermark = HighWatermark(3, lambda offset: seen.append((offset, watermark.value)))
    for offset in (3, 5, 5, 6):
        watermark.advance(offset)
    assert seen == [(5, 5), (6, 6)]


def test_a_lower_value_is_an_error_and_not_taken_over() -> None:
    watermark = HighWatermark(3, lambda offset: None)
    with pytest.raises(AssertionError, match="would go back from 3 to 2"):
        watermark.advance(2)
    assert watermark.value == 3
