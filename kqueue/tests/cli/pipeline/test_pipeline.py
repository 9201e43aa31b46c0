"""What the commands do before Spark is there; the rest is in `compat_tests/spark`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kqueue.cli.app import kqueue
from kqueue.cli.pipeline.spark_command import absolute, source_options

NO_PYSPARK = """
import sys
sys.modules["pyspark"] = sys.modules["pyspark.sql"] = None
from kqueue.cli import main
main()
"""


def test_where_it_is_read_from() -> None:
    assert source_options(("a", "b"), None, "h:1") == {"kafka.bootstrap.servers": "h:1", "subscribe": "a,b"}
    assert source_options(("a",), "data", "h:1") == {"path": str(Path("data").absolute()), "subscribe": "a"}
    assert absolute("s3://bucket/data") == "s3://bucket/data"


@pytest.mark.parametrize("job", ["ingest", "archive", "replay", "audit"])
def test_each_job_helps(job: str) -> None:
    result = CliRunner().invoke(kqueue, ["pipeline", job, "--help"])
    assert result.exit_code == 0
    assert f"kqueue pipeline {job}" in result.output


def test_without_pyspark_help_is_there_and_a_job_says_what_to_install() -> None:
    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", NO_PYSPARK, *args], capture_output=True, text=True, timeout=60, check=False
        )

    assert "audit" in run("pipeline", "--help").stdout
    result = run("pipeline", "audit", "-t", "orders")
    assert result.returncode == 2  # as when something can not be looked at
    assert result.stderr.startswith("Error: jobs on Spark need pyspark")
    assert "pip install '.[spark]'" in result.stderr
