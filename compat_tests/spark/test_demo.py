"""`kqueue demo pipeline` with few flights, and its report of wrong results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from kqueue.cli.app import kqueue
from kqueue.demo.pipeline import pipeline_demo

FLIGHTS = 600


def test_demo_counts_and_reports_lost_or_duplicated_records(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[pipeline_demo.PipelineResult] = []
    run = pipeline_demo.run

    def seen(*args: Any, **how: Any) -> pipeline_demo.PipelineResult:
        results.append(run(*args, **how))
        return results[-1]

    monkeypatch.setattr(pipeline_demo, "run", seen)
    folder, picture = tmp_path / "data", tmp_path / "made.png"
    told = CliRunner().invoke(
        kqueue, ["demo", "pipeline", "--flights", str(FLIGHTS), "--folder", str(folder), "--picture", str(picture)]
    )
    assert told.exit_code == 0, told.output
    (result,) = results
    late_and_broken = len(result.quarantine)
    assert (
        f"All {FLIGHTS - late_and_broken} flights were counted once, and the {late_and_broken} late and broken ones"
        in told.output
    )
    assert picture.read_bytes().startswith(b"\x89PNG")
    _check_folder(folder, result)
    _check_differences(result)
    assert (
        spark.conf.get("spark.sql.streaming.noDataMicroBatches.enabled") == "false"
    )  # the demo restores the tests' session
    assert not spark.streams.active


def _check_folder(folder: Path, result: pipeline_demo.PipelineResult) -> None:
    gold = [row for file in (folder / "tables/gold").glob("*.parquet") for row in pq.read_table(file).to_pylist()]
    assert sum(row["flights"] for row in gold) == result.truth.flights
    assert (
        sum(pq.read_table(file).num_rows for file in (folder / "tables/quarantine").glob("*.parquet"))
        == len(result.quarantine)
        > 0
    )
    assert result.seen.records == FLIGHTS + 1
    assert result.seen.airport_hours == len(gold)
    assert result.seen.watermark_ms is not None


def _check_differences(result: pipeline_demo.PipelineResult) -> None:
    """Each wrong result is reported separately."""
    gold, quarantine = result.gold, result.quarantine
    first = gold[0]
    for changed, words in (
        ({"gold": [first._replace(flights=first.flights - 1), *gold[1:]]}, "flights, and there were"),
        ({"gold": [first._replace(flights=first.flights + 1), *gold[1:]]}, "flights, and there were"),
        ({"gold": gold[1:]}, "hours of an airport missing in gold: 1,"),
        ({"gold": [*gold, first]}, "hours of an airport in gold more than once: 1,"),
        ({"quarantine": quarantine[1:]}, "1 late or broken record missing in quarantine"),
        ({"quarantine": [*quarantine, quarantine[0]]}, "1 surplus record in quarantine"),
        (
            {"seen": result.seen._replace(records=FLIGHTS)},
            f"Spark read {FLIGHTS} records after {FLIGHTS + 1} were sent",
        ),
    ):
        kept = {name: getattr(result, name) for name in changed}
        for name, value in changed.items():
            setattr(result, name, value)
        assert any(words in difference for difference in result.differences()), words
        for name, value in kept.items():
            setattr(result, name, value)
    assert result.differences() == []
