"""The output of `kqueue pipeline audit`; the audit itself runs in `compat_tests/spark`."""

from __future__ import annotations

import json

import pytest

from kqueue.cli.pipeline.audit import json_lines, show
from kqueue.spark.jobs.audit.group_lag import GroupLag
from kqueue.spark.jobs.audit.report import AuditReport, PartitionAudit

FULL = PartitionAudit(
    "orders", 0, 2, 10, records=5, first=2, last=9, deleted=2, missing=3, key_bytes=50, value_bytes=950
)
EMPTY = PartitionAudit("orders", 1, 0, 0)
LAG = GroupLag("mail", "orders", 0, 4, 10, 6, 1, 0, 1_000)
REPORT = AuditReport("localhost:9092", 61_000, [FULL, EMPTY], [LAG], note="One more thing.")


def test_json_has_a_line_per_partition_and_per_lag() -> None:
    rows = [json.loads(line) for line in json_lines(REPORT)]
    assert [row["kind"] for row in rows] == ["partition", "partition", "lag"]
    assert [(row["partition"], row["records"], row["missing"]) for row in rows[:2]] == [(0, 5, 3), (1, 0, 0)]
    assert (rows[2]["group"], rows[2]["lag"], rows[2]["deleted"], rows[2]["age_ms"]) == ("mail", 6, 1, 60_000)


def test_the_text_has_tables_findings_and_totals(capsys: pytest.CaptureFixture[str]) -> None:
    show(REPORT)
    lines = capsys.readouterr().out.splitlines()
    cells = [line.split() for line in lines]
    assert ["orders", "0", "2", "10", "5", "2", "0", "0", "3", "0"] in cells
    assert ["orders", "1", "0", "0", "0", "0", "0", "0", "0", "0"] in cells
    assert any(row[:6] == ["mail", "orders", "0", "4", "10", "6"] for row in cells)
    assert "One more thing." in lines
    assert lines[-1] == "5 records, 1.0 kB of keys and values, in 2 partitions."


def test_an_unknown_lag_is_named_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    show(AuditReport("data", 0, [EMPTY], [], lag_unknown="a folder has no groups"))
    output = capsys.readouterr().out
    assert "a folder has no groups" in output
    assert "COMMITTED" not in output
