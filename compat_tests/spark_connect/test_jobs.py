"""Jobs with ``--master sc://…``, and `spark-pipelines`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import kqueue
from compat_tests.spark_connect.conftest import documented, environment, fill, values
from kqueue.cli.app import kqueue as command
from kqueue.spark.jobs.replay import replay

STEP_S = 200


def test_documented_jobs(
    server: str, spark: SparkSession, broker: kqueue.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They leave a session of their program to it, which then replays the archive."""
    fill(broker)
    broker.create_topic("again", 3)
    monkeypatch.chdir(tmp_path)
    jobs = [line for line in documented("sh")[1].splitlines() if line.startswith("kqueue ")]
    said = ["" for _ in jobs]
    for number, line in enumerate(jobs):
        words = line.replace("sc://localhost:15002", server).split()[1:]
        done = CliRunner().invoke(command, words, env={"KQUEUE_BOOTSTRAP": broker.bootstrap})
        assert done.exit_code == 0, done.output
        said[number] = done.output
    assert "100" in said[0]
    for _ in range(2):
        target = {"kafka.bootstrap.servers": broker.bootstrap}
        replay(spark, str(tmp_path / "kept"), target, topic="again", delivery="exactly-once")
    assert values(broker, "again") == values(broker, "orders")


def test_ingest_is_refused_by_one_sentence(server: str, broker: kqueue.Broker, tmp_path: Path) -> None:
    fill(broker)
    words = ["pipeline", "ingest", str(tmp_path / "tables"), "--topic", "orders", "--events", "flights"]
    words += ["--master", server]
    done = CliRunner().invoke(command, words, env={"KQUEUE_BOOTSTRAP": broker.bootstrap})
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: this job can't be used through Spark Connect")
    assert done.stderr.count("\n") == 1


def test_documented_declarative_pipeline(
    server: str, spark: SparkSession, spark_folder: Path, broker: kqueue.Broker, tmp_path: Path
) -> None:
    fill(broker)
    broker.create_topic("shouted", 3)
    (spec,) = documented("yaml")
    (tmp_path / "spark-pipeline.yml").write_text(spec.replace("/shared", str(tmp_path)))
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "orders.py").write_text(documented("python")[1])
    line = documented("sh")[2].replace("localhost:9092", broker.bootstrap).replace("sc://localhost:15002", server)
    done = subprocess.run(
        ["bash", "-euc", line], cwd=tmp_path, env=environment(spark_folder), capture_output=True, text=True,
        timeout=STEP_S, check=False,
    )  # fmt: skip
    assert "Run is COMPLETED" in done.stdout, done.stdout[-2000:] + done.stderr[-3000:]
    assert values(broker, "shouted") == sorted(f"ORDER {number}" for number in range(100))
    counts = {row.customer: row["count"] for row in spark.read.table("customers").collect()}
    assert counts == {f"customer {number}": 15 if number < 2 else 14 for number in range(7)}
