from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kqueue.spark.jobs.audit.charts import STRIPS_MAX
from kqueue.spark.jobs.audit.gaps import Gap
from kqueue.spark.jobs.audit.group_lag import GroupLag
from kqueue.spark.jobs.audit.html_report import write_report
from kqueue.spark.jobs.audit.partition_summary import Times
from kqueue.spark.jobs.audit.report import AuditReport
from kqueue.tests.spark.jobs.audit.sample_audits import HOUR, HOURS, partition_audit

pytest.importorskip("matplotlib")


def test_page_refers_to_no_other_file_and_escapes_names(tmp_path: Path) -> None:
    gaps = [Gap(3, 5, "missing"), Gap(9, 10, "marker"), Gap(20, 100, "compacted")]
    rows = [
        partition_audit(number, Times(HOUR, {HOURS + number: 4}), gaps=gaps, holes=gaps, missing=2)
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
    assert page.index("<figure>") < page.index("<table>"), "pictures first: tables have a row for each partition"
    parser = HTMLParser()
    parser.feed(page)
    parser.close()


def page_folder(tmp_path: Path) -> Path:
    return tmp_path / "new" / "report"


def test_report_without_partitions_is_written_as_a_page(tmp_path: Path) -> None:
    assert write_report(AuditReport("here", 0, [], []), tmp_path).exists()
