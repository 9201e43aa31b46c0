from __future__ import annotations

from pathlib import Path

import pytest

from kqueue.spark.jobs.audit.charts import SPANS_MAX, _window, draw
from kqueue.spark.jobs.audit.partition_summary import Times
from kqueue.spark.jobs.audit.report import AuditReport, PartitionAudit
from kqueue.tests.spark.jobs.audit.sample_audits import HOUR, HOURS, partition_audit

pytest.importorskip("matplotlib")


@pytest.mark.parametrize("span", [0, -(2**43), 2**43])
def test_times_that_no_calendar_has(tmp_path: Path, span: int) -> None:
    charts = draw(AuditReport("here", 0, [partition_audit(0, Times(0, {span: 3}))], []), tmp_path)
    assert [one.file for one in charts] == ["records.png", "skew.png", "gaps.png"]


def test_no_records_are_no_chart(tmp_path: Path) -> None:
    assert draw(AuditReport("here", 0, [PartitionAudit("empty", 0, 0, 0)], []), tmp_path) == []


def test_a_few_times_that_are_far_off_do_not_hide_the_others() -> None:
    near = {HOURS + number: 10 for number in range(100)}
    assert _window(Times(HOUR, near)) == (HOUR, HOURS, HOURS + 99, 0)
    assert _window(Times(HOUR, {5: 3, **near})) == (HOUR, HOURS, HOURS + 99, 3)
    assert _window(Times(HOUR, {5: 300, **near}))[3] == 0
    level, least, most, outside = _window(Times(HOUR, {HOURS + 2 * number: 10 for number in range(SPANS_MAX)}))
    assert (level, outside) == (HOUR + 1, 0)
    assert most - least < SPANS_MAX
