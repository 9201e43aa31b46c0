from __future__ import annotations

import pytest

from kqueue.records.arrow.contract import BYTES_LIMIT, DATA_MAX, ChunkLimits, RecordRange
from kqueue.tests.tables import for_each


def test_record_range_takes_offsets_and_times_within_its_bounds() -> None:
    bounds = RecordRange(start_offset=3, end_offset=5, since_ms=10, until_ms=20)
    assert [offset for offset in range(8) if bounds.take(offset, 15)] == [3, 4]
    assert [time for time in (-1, 9, 10, 19, 20) if bounds.take(3, time)] == [10, 19]
    assert RecordRange().take(-5, -5)
    assert not RecordRange(until_ms=20).take(0, -1)


@for_each("beyond", [{"start_offset": 2**63}, {"until_ms": -(2**63) - 1}])
def test_bounds_have_64_bits(beyond: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="64 bits"):
        RecordRange(**beyond)


@for_each("beyond", [{"rows_max": 0}, {"rows_max": DATA_MAX + 1}, {"bytes_max": 0}, {"bytes_max": BYTES_LIMIT + 1}])
def test_chunk_limits_out_of_range_are_refused(beyond: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="is from 1 to"):
        ChunkLimits(**beyond)
