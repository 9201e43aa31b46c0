"""Runs the programs of docs/spark.md in order, in one namespace."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

TEXT = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
FOLDERS = re.compile(r'"(orders-data|orders-table|counts-table|(?:\w+-)?checkpoint)"')
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.timeout(300)
def test_every_program(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)  # keep the tests' session running
    known: dict[str, object] = {}
    assert len(PROGRAMS) > 5
    for program in PROGRAMS:
        placed = FOLDERS.sub(
            lambda match: repr(str(tmp_path / match[1])), program
        )  # Spark keeps the working directory that it was started in
        exec(compile(placed, "docs/spark.md", "exec"), known)
