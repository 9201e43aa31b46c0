from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kqueue.base.errors import ExtraNeeded
from kqueue.cli import demo_pipeline
from kqueue.cli.app import kqueue
from kqueue.demo.clients import DemoFailed
from kqueue.demo.pipeline import pipeline_demo
from kqueue.demo.pipeline.expected_results import expected_results
from kqueue.spark import java
from kqueue.spark.errors import PipelineFailed
from kqueue.spark.jobs.delay_results import DelayProgress
from kqueue.tests.demo.pipeline.sample_flights import sample_events, sample_flights

LISTED = """
import sys
from click.testing import CliRunner
from kqueue.cli.app import kqueue
result = CliRunner().invoke(kqueue, ["demo", "--help"])
assert result.exit_code == 0
print(result.output)
assert not {"pyspark", "matplotlib", "pyarrow", "numpy", "kafka"} & set(sys.modules)
"""


def run(*args: str) -> Result:
    return CliRunner().invoke(kqueue, ["demo", "pipeline", *args])


@pytest.fixture
def all_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Make Spark and a Java appear installed."""
    monkeypatch.setattr(demo_pipeline, "NEEDED", ())
    monkeypatch.setattr(java, "find_java", lambda: None)
    monkeypatch.chdir(tmp_path)


def test_the_demo_lists_it_and_imports_nothing_for_that() -> None:
    done = subprocess.run([sys.executable, "-c", LISTED], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "  pipeline  " in done.stdout


@pytest.mark.parametrize("missing", demo_pipeline.NEEDED)
def test_without_its_packages_it_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else object())
    result = run()
    assert result.exit_code == 1
    assert "pip install '.[demo,spark]'" in result.output


@pytest.mark.usefixtures("all_there")
def test_without_a_java_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def none() -> None:
        raise ExtraNeeded("Spark needs a Java")

    monkeypatch.setattr(java, "find_java", none)
    result = run("--folder", "data")
    assert (result.exit_code, result.output) == (1, "Error: Spark needs a Java\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("all_there")
def test_impossible_arguments_are_refused_before_the_start(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    result = run("--folder", "full")
    assert (result.exit_code, result.output) == (1, "Error: the folder full is not empty; name a new one\n")
    result = run("--picture", "nowhere/made.png")
    assert result.exit_code == 1
    assert "there is no folder" in result.output
    assert run("--speed", "0").exit_code == run("--flights", "0").exit_code == 2


@pytest.mark.usefixtures("all_there")
@pytest.mark.parametrize(
    "error", [DemoFailed("nothing has moved"), OSError(28, "No space left on device"), PipelineFailed("Spark fell")]
)
def test_a_failure_is_one_sentence(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*args: object, **how: object) -> None:
        raise error

    monkeypatch.setattr(pipeline_demo, "run", fail)
    result = run("--folder", "data")
    assert (result.exit_code, result.output) == (1, f"Error: the demo failed: {error}.\n")


@pytest.mark.usefixtures("all_there")
def test_ctrl_c_has_its_own_exit_status(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(folder: Path, *args: object, **how: object) -> None:
        (folder / "begun").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(pipeline_demo, "run", interrupted)
    result = run()
    assert (result.exit_code, result.output) == (130, "Ended before all was done.\n")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def result(monkeypatch: pytest.MonkeyPatch) -> pipeline_demo.PipelineResult:
    """Return a correct result of the demo; the chart is not drawn."""
    truth = expected_results(sample_flights(), sample_events())
    pipeline_result = pipeline_demo.PipelineResult(
        6,
        6,
        truth,
        DelayProgress(records=6, hours=2),
        list(truth.hours.values()),
        [],
        stream_s=2.0,
        total_s=3.0,
        disk_bytes=1000,
    )
    monkeypatch.setattr(pipeline_demo, "run", lambda folder, display, **how: pipeline_result)
    drawing: Any = importlib.import_module("kqueue.spark.jobs.delay_charts")
    monkeypatch.setattr(drawing, "draw", lambda file, gold, quarantined: file.touch())
    return pipeline_result


@pytest.mark.usefixtures("all_there")
def test_summary_is_printed(result: pipeline_demo.PipelineResult, tmp_path: Path) -> None:
    outcome = run("--picture", "made.png", "--folder", "data")
    assert outcome.exit_code == 0, outcome.output
    assert f"The picture is {tmp_path / 'made.png'}" in outcome.output.replace("\n", "")
    assert "All 6 flights were counted once, and the 0 late and broken ones put aside." in outcome.output
    assert "kqueue serve --set log.dirs=data/broker" in outcome.output
    rows = {what: (count, note) for what, count, note in result.rows()}
    assert rows["Events sent"][0] == "6"
    assert rows["Records read by Spark"][1].startswith("3/s")
    assert rows["Flights in gold"] == ("6", "6 reckoned in plain Python")
    assert rows["Cancelled"] == ("2", "33.3% of the flights")
    assert rows["Delayed by 15 min or more"] == ("2", "50.0% of those that left")
    assert rows["Average delay"][0] == "8.0 min"


@pytest.mark.usefixtures("all_there")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"stored": 5}, "the topic holds 5 records after 6 were sent"),
        ({"seen": DelayProgress(records=5)}, "Spark read 5 records after 6 were sent"),
        ({"seen": DelayProgress(records=6, dropped=1)}, "1 events came after their hour was done"),
        ({"gold": []}, "gold counts 0 flights, and there were 6"),
    ],
)
def test_a_difference_is_one_sentence_and_exit_status_1(
    result: pipeline_demo.PipelineResult, change: dict[str, Any], words: str
) -> None:
    for name, value in change.items():
        setattr(result, name, value)
    outcome = run()
    assert outcome.exit_code == 1
    last = outcome.output.splitlines()[-1]
    assert last.startswith("Error: this is not what should come out: ")
    assert words in last
