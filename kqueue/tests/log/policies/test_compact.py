from __future__ import annotations

from kqueue.log.policies import Compact, LogView
from kqueue.log.policies.compact import CompactPolicy, find_log_to_clean
from kqueue.tests.log.policies.views import NOW_MS, Committed, settings, view
from kqueue.tests.tables import for_each


def plan(log: LogView, **own: str) -> Compact | None:
    return CompactPolicy().plan(log, Committed(), settings(cleanup_policy="compact", **own), NOW_MS)


@for_each(
    "first_dirty, ratio, dirty",
    [(0, "0.5", 1.0), (10, "0.66", 2 / 3), (10, "0.67", None), (20, "0.33", 1 / 3), (20, "0.5", None), (30, "0", None)],
)
def test_a_log_is_compacted_once_enough_of_it_is_dirty(first_dirty: int, ratio: str, dirty: float | None) -> None:
    """S5.2: the ratio is that of whole sealed segments."""
    planned = plan(view([100, 100, 100, 900], first_dirty=first_dirty), min_cleanable_dirty_ratio=ratio)
    assert planned == (None if dirty is None else Compact(upto_offset=30, why=f"{dirty:.0%} of it is dirty"))


def test_a_segment_that_is_dirty_in_part_is_dirty() -> None:
    log_to_clean = find_log_to_clean(view([100, 100, 100], first_dirty=15), settings(), NOW_MS)
    assert (log_to_clean.clean_bytes, log_to_clean.dirty_bytes, log_to_clean.upto, log_to_clean.ratio) == (
        100,
        100,
        20,
        0.5,
    )


def test_young_segments_wait() -> None:
    """S5.2"""
    log = view([100, 100, 100, 100], [5000, 900, 5000, 0])
    assert find_log_to_clean(log, settings(min_compaction_lag_ms="1000"), NOW_MS).upto == 10
    assert find_log_to_clean(log, settings(min_compaction_lag_ms="900"), NOW_MS).upto == 30
    assert find_log_to_clean(log, settings(), NOW_MS).upto == 30


def test_records_from_the_future_are_no_reason_to_wait() -> None:
    assert find_log_to_clean(view([100, 100], [-5000, 0]), settings(), NOW_MS).upto == 10


def test_min_lag_does_not_hold_up_clean_segments() -> None:
    assert (
        find_log_to_clean(
            view([100, 100, 100], [0, 5000, 0], first_dirty=10), settings(min_compaction_lag_ms="1000"), NOW_MS
        ).upto
        == 20
    )


@for_each("facts, upto", [({"high_watermark": 29}, 20), ({"stable_offset": 12}, 10), ({"stable_offset": 5}, 0)])
def test_unstable_records_are_not_compacted(facts: dict[str, int], upto: int) -> None:
    """S5.2: open transactions, and what lies above the high watermark"""
    assert find_log_to_clean(view([100, 100, 100, 100], **facts), settings(), NOW_MS).upto == upto


def test_after_the_greatest_lag_no_ratio_counts() -> None:
    """S5.2"""
    log = view([900, 10, 100], [9000, 2000, 0], first_dirty=10)
    assert plan(log, max_compaction_lag_ms="2000") is None
    assert plan(log, max_compaction_lag_ms="1999") == Compact(upto_offset=20, why="max.compaction.lag.ms is over")
    clean = view([900, 10, 100], [9000, 2000, 0], first_dirty=20)
    assert plan(clean, max_compaction_lag_ms="1999") is None


def test_the_active_segment_is_left_alone() -> None:
    """S5.2"""
    assert plan(view([500])) is None
    assert plan(view([500], [10**9]), max_compaction_lag_ms="1") is None
