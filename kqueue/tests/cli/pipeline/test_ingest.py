"""Arguments and summary of `kqueue pipeline ingest`; the job runs in `compat_tests/spark`."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from rich.console import Console

from kqueue.cli.pipeline import ingest as module
from kqueue.tests.tables import for_each


class Done(NamedTuple):
    """The fields of `kqueue.spark.jobs.ingest.IngestResult`, whose module needs pyspark."""

    rows: dict[str, int]
    reasons: Counter[str]
    until: datetime | None


ROWS = {"bronze": 1_200, "silver": 1_100, "quarantine": 100, "gold": 24}


def test_the_summary_names_tables_reasons_and_the_last_window() -> None:
    done = Done(ROWS, Counter({"no id": 60, "no time": 40}), datetime(2026, 1, 31, 12, tzinfo=UTC))
    lines = module.summary(done, "tables").splitlines()
    assert ["bronze", "1,200", str(Path("tables", "bronze"))] in [line.split() for line in lines]
    assert [line.split() for line in lines if line.startswith(("60", "40"))] == [
        ["60", "no", "id"],
        ["40", "no", "time"],
    ]
    assert lines[-1] == "Gold has the windows that ended by 2026-01-31 12:00 UTC."


def test_the_summary_says_that_gold_is_empty() -> None:
    assert module.summary(Done(ROWS, Counter(), None), "tables").endswith("Gold is empty: no window is over.")


def test_lateness_replaces_that_of_the_events() -> None:
    assert module._schema("flights", "3 hours").lateness == "3 hours"
    assert module._schema("flights", None).lateness != "3 hours"


@for_each("events, lateness", [("no-such-file.toml", None), ("flights", "three hours")])
def test_bad_events_and_lateness_are_one_sentence(events: str, lateness: str | None) -> None:
    with pytest.raises(click.ClickException):
        module._schema(events, lateness)


@for_each("left, shown", [(1_200, True), (0, False)])
def test_progress_shows_the_records_left_to_read(left: int, shown: bool) -> None:
    console = Console(file=StringIO(), width=80)
    console.print(module._progress({"bronze": 5, module.BEHIND: left}, "bronze"))
    assert isinstance(console.file, StringIO)
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    assert lines[0][:3] == ["bronze", "5", "rows"]
    assert (["to", "read", "1,200", "records"] in lines) == shown
