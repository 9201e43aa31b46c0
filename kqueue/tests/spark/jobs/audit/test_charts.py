from __future__ import annotations

from pathlib import Path

import pytest

from kqueue.spark.jobs.audit.charts import ROWS_MAX, SPANS_MAX, _window, draw, most_gaps, most_skewed
from kqueue.spark.jobs.audit.partition_summary import Times
from kqueue.spark.jobs.audit.report import AuditReport, PartitionAudit
from kqueue.tests.spark.jobs.audit.sample_audits import HOUR, HOURS, partition_audit

pytest.importorskip("matplotlib")


@pytest.mark.parametrize("span", [0, -(2**43), 2**43])
def test_times_outside_the_calendar_are_charted(tmp_path: Path, span: int) -> None:
    charts = draw(AuditReport("here", 0, [partition_audit(0, Times(0, {span: 3}))], []), tmp_path)
    assert [one.file for one in charts] == ["records.png", "skew.png"]


def test_report_without_records_has_no_charts(tmp_path: Path) -> None:
    assert draw(AuditReport("here", 0, [PartitionAudit("empty", 0, 0, 0)], []), tmp_path) == []


def test_a_few_times_that_are_far_off_do_not_hide_the_others() -> None:
    near = {HOURS + number: 10 for number in range(100)}
    assert _window(Times(HOUR, near)) == (HOUR, HOURS, HOURS + 99, 0)
    assert _window(Times(HOUR, {5: 3, **near})) == (HOUR, HOURS, HOURS + 99, 3)
    assert _window(Times(HOUR, {5: 300, **near}))[3] == 0
    level, least, most, outside = _window(Times(HOUR, {HOURS + 2 * number: 10 for number in range(SPANS_MAX)}))
    assert (level, outside) == (HOUR + 1, 0)
    assert most - least < SPANS_MAX


def test_partitions_with_most_skew_are_charted() -> None:
    """Far from the average of their own topic, in both directions."""
    even = [PartitionAudit("big", number, 0, 1_000, 1_000) for number in range(ROWS_MAX)]
    skewed = [PartitionAudit("big", ROWS_MAX, 0, 10, 10), PartitionAudit("big", ROWS_MAX + 1, 0, 5_000, 5_000)]
    small = [PartitionAudit("small", number, 0, 10, 10) for number in range(5)]
    skewed_most = most_skewed([*even, *skewed, *small])
    assert len(skewed_most) == ROWS_MAX
    assert (skewed_most[0], skewed_most[-1]) == (skewed[1], skewed[0])
    assert {row.topic for row in skewed_most} == {"big"}
    assert most_skewed(even) == even


def test_partitions_with_most_gaps_are_charted() -> None:
    whole = [PartitionAudit("t", number, 0, 1_000, 1_000) for number in range(ROWS_MAX)]
    compacted = PartitionAudit("t", ROWS_MAX, 0, 1_000, 900, compacted=100)
    missing = PartitionAudit("t", ROWS_MAX + 1, 0, 10, 9, missing=1)
    with_gaps = most_gaps([*whole, compacted, missing, PartitionAudit("empty", 0, 0, 0)])
    assert (with_gaps[:2], len(with_gaps)) == ([missing, compacted], ROWS_MAX)
    assert most_gaps(whole) == whole
