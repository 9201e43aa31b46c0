"""S5.2: input and result of a compaction cross the border of a process."""

from __future__ import annotations

import pickle

from kqueue.log.compaction.model import (
    CleanedSegment,
    CleanerStats,
    CompactionConfig,
    CompactionResult,
    SegmentGroup,
    SegmentSource,
)


def test_pickling_preserves_equality() -> None:
    group = SegmentGroup((0, 7), CleanedSegment(0, 100, 12, 5000, True))
    stats = CleanerStats(records_read=9, records_kept=3, map_entries=3, seconds=0.5)
    for value in (
        CompactionResult((group,), 12, stats),
        SegmentSource(0, 7, 300),
        CompactionConfig(1 << 30, 1 << 20, 4096, 86_400_000, 1 << 20),
    ):
        assert pickle.loads(pickle.dumps(value)) == value


def test_a_source_needs_no_transaction_index_and_io_is_unlimited_by_default() -> None:
    assert not SegmentSource(0, 7, 300).has_txnindex
    assert CompactionConfig(1, 1, 1, 1, 1).io_bytes_per_second == float("inf")
