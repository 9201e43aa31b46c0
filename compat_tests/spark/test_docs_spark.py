"""Runs the programs of docs/spark.md and docs/start/spark.md in order, in one namespace each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {"spark.md": 6, "start/spark.md": 2}
"""The pages, and the number of programs that each has at least."""
FOLDERS = re.compile(r'"(orders-data|orders-table|counts-table|(?:\w+-)?checkpoint)"')


@pytest.mark.parametrize("page", PAGES)
def test_documented_programs_run(
    page: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)  # keep the tests' session running
    known: dict[str, object] = {}
    programs = re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    assert len(programs) >= PAGES[page]
    for program in programs:
        placed = FOLDERS.sub(
            lambda match: repr(str(tmp_path / match[1])), program
        )  # Spark keeps the working directory that it was started in
        exec(compile(placed, page, "exec"), known)
