"""The pictures and the page, of ordinary findings and of odd ones."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kqueue.spark.jobs.audit.charts import SPANS_MAX, STRIPS_MAX, _window, draw
from kqueue.spark.jobs.audit.gaps import Gap
from kqueue.spark.jobs.audit.group_lag import GroupLag
from kqueue.spark.jobs.audit.html_report import write_report
from kqueue.spark.jobs.audit.partition_summary import CELLS, Times
from kqueue.spark.jobs.audit.report import AuditReport, PartitionAudit

pytest.importorskip("matplotlib")
HOUR, HOURS = 4, 472_222
"""Of `Times`: the level of hours, and an hour."""


def row(partition: int, times: Times, **more: object) -> PartitionAudit:
    count = sum(times.counts.values())
    found = {
        "records": count,
        "first": 0,
        "last": count - 1,
        "cells": [1] * CELLS,
        "largest": 5,
        "largest_offset": 1,
        "value_bytes": 5,
    }
    return PartitionAudit("orders", partition, 0, 2 * CELLS, times=times, **{**found, **more})  # type: ignore[arg-type]


def test_a_page_that_stands_alone(tmp_path: Path) -> None:
    gaps = [Gap(3, 5, "missing"), Gap(9, 10, "marker"), Gap(20, 100, "compacted")]
    rows = [
        row(number, Times(HOUR, {HOURS + number: 4}), gaps=gaps, holes=gaps, missing=2)
        for number in range(STRIPS_MAX + 3)
    ]
    lags = [GroupLag("<script>alert(1)</script>", "orders", 0, 2, 9, 7, 1, 0, 1_700_000_000_000)]
    page = write_report(
        AuditReport("here & there", 1_700_000_100_000, rows, lags), tmp_path / "new" / "report"
    ).read_text()
    assert {path.name for path in page_folder(tmp_path).iterdir()} == {
        "report.html",
        "records.png",
        "skew.png",
        "gaps.png",
        "lag.png",
    }
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in page_folder(tmp_path).glob("*.png"))
    assert "<script" not in page
    assert "here &amp; there" in page
    assert not re.search(r'(?:src|href)="(?!data:)', page)
    parser = HTMLParser()
    parser.feed(page)
    parser.close()


def page_folder(tmp_path: Path) -> Path:
    return tmp_path / "new" / "report"


@pytest.mark.parametrize("span", [0, -(2**43), 2**43])
def test_times_that_no_calendar_has(tmp_path: Path, span: int) -> None:
    made = draw(AuditReport("here", 0, [row(0, Times(0, {span: 3}))], []), tmp_path)
    assert [one.file for one in made] == ["records.png", "skew.png", "gaps.png"]


def test_nothing_is_no_picture(tmp_path: Path) -> None:
    assert draw(AuditReport("here", 0, [PartitionAudit("empty", 0, 0, 0)], []), tmp_path) == []
    assert write_report(AuditReport("here", 0, [], []), tmp_path).exists()


def test_a_few_times_that_are_far_off_do_not_hide_the_others() -> None:
    near = {HOURS + number: 10 for number in range(100)}
    assert _window(Times(HOUR, near)) == (HOUR, HOURS, HOURS + 99, 0)
    assert _window(Times(HOUR, {5: 3, **near})) == (HOUR, HOURS, HOURS + 99, 3)
    assert _window(Times(HOUR, {5: 300, **near}))[3] == 0
    level, least, most, outside = _window(Times(HOUR, {HOURS + 2 * number: 10 for number in range(SPANS_MAX)}))
    assert (level, outside) == (HOUR + 1, 0)
    assert most - least < SPANS_MAX
