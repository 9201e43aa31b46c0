"""docs/spark.md is true: its programs run here, one after the other, as one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

TEXT = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
FOLDERS = re.compile(r'"(orders-data|orders-table|checkpoint|copy-checkpoint)"')
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_every_program(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)  # it is the tests' session
    known: dict[str, object] = {}
    assert len(PROGRAMS) > 5
    for program in PROGRAMS:
        placed = FOLDERS.sub(
            lambda match: repr(str(tmp_path / match[1])), program
        )  # Spark stays in the folder that it was started in
        exec(compile(placed, "docs/spark.md", "exec"), known)
