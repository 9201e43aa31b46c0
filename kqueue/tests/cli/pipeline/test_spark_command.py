"""The pipeline commands before Spark starts; tests with Spark are in `compat_tests/spark`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kqueue.cli.app import kqueue
from kqueue.cli.pipeline.spark_command import ProgressLine, absolute, report_progress, source_options, whole_name

NO_PYSPARK = """
import sys
sys.modules["pyspark"] = sys.modules["pyspark.sql"] = None
from kqueue.cli import main
main()
"""


def test_source_options() -> None:
    assert source_options(("a", "b"), None, "h:1") == {"kafka.bootstrap.servers": "h:1", "subscribe": "a,b"}
    assert source_options(("a",), "data", "h:1") == {"path": str(Path("data").absolute()), "subscribe": "a"}
    assert source_options((), None, "h:1", "o.*") == {"kafka.bootstrap.servers": "h:1", "subscribePattern": "^(?:o.*)$"}
    assert absolute("s3://bucket/data") == "s3://bucket/data"


def test_topics_and_a_pattern_exclude_each_other() -> None:
    with pytest.raises(click.UsageError, match="--topic and --pattern contradict each other"):
        source_options(("a",), None, "h:1", "o.*")


def test_progress_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLine() as line:
        line.start("Reading")
        line.update("Reading", 5, 10)
    report_progress("reading", 5, 10)  # without a session: nothing to update
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("job", ["ingest", "archive", "replay", "audit"])
def test_every_job_has_help(job: str) -> None:
    result = CliRunner().invoke(kqueue, ["pipeline", job, "--help"])
    assert result.exit_code == 0
    assert f"kqueue pipeline {job}" in result.output


def test_without_pyspark_help_works_and_a_job_names_the_extra() -> None:
    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", NO_PYSPARK, *args], capture_output=True, text=True, timeout=60, check=False
        )

    assert "audit" in run("pipeline", "--help").stdout
    result = run("pipeline", "audit", "-t", "orders")
    assert result.returncode == 2  # the audit failed
    assert result.stderr.startswith("Error: jobs on Spark need pyspark")
    assert "pip install '.[spark]'" in result.stderr


@pytest.mark.parametrize(
    ("pattern", "found", "others"),
    [("orders", ["orders"], ["my-orders", "orders-2"]), ("a|b.", ["a", "bc"], ["ab", "abc"]), ("(?i)A", ["a"], ["ab"])],
)
def test_a_pattern_is_one_of_whole_names(pattern: str, found: list[str], others: list[str]) -> None:
    compiled = re.compile(whole_name(pattern))
    assert [name for name in (*found, *others) if compiled.search(name)] == found


def test_a_wrong_pattern_is_refused() -> None:
    with pytest.raises(click.UsageError, match=r"--pattern: '\(' is no regular expression"):
        whole_name("(")
