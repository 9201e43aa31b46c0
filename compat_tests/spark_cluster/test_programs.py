"""Programs of their own on a standalone cluster: commands, and spark-submit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import kqueue
from compat_tests.spark_cluster.conftest import KQUEUE, run
from compat_tests.spark_cluster.standalone import Standalone

Filled = Callable[[int], str]


def test_workers_without_kqueue_are_one_sentence(
    cluster: Standalone, broker: kqueue.Broker, filled: Filled, tmp_path: Path
) -> None:
    topic = filled(1)
    master = ("--master", cluster.master, "--conf", "spark.executor.memory=512m", "-b", broker.bootstrap)
    for python, words in ((cluster.python, "has no kqueue, pyarrow, pandas"), ("/no/python", "can't run /no/python")):
        done = run(
            KQUEUE, "pipeline", "archive", "kept", "-t", topic, *master, cwd=tmp_path, PYSPARK_PYTHON=str(python)
        )
        assert done.returncode == 1
        assert words in done.stderr
        assert "`kqueue pipeline pack`" in done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        assert not (tmp_path / "kept").exists()


APP = """
from pyspark.sql import SparkSession
from kqueue.spark.session import {start}
import sys
{make}
options = {{"kafka.bootstrap.servers": sys.argv[1], "subscribe": sys.argv[2]}}
orders = spark.read.format("kqueue").options(**options).load()
print("read", orders.count(), spark.sparkContext.master)
"""


@pytest.mark.parametrize(
    ("start", "make"),
    [("session", "spark = session()"), ("prepare", "spark = SparkSession.builder.getOrCreate(); prepare(spark)")],
    ids=["session", "prepare"],
)
def test_spark_submit(
    cluster: Standalone, broker: kqueue.Broker, filled: Filled, archive: Path, tmp_path: Path, start: str, make: str
) -> None:
    """By Spark's own recipe for packed environments; the command says the master."""
    topic = filled(100)
    (tmp_path / "app.py").write_text(APP.format(start=start, make=make))
    done = run(
        KQUEUE.with_name("spark-submit"), "--master", cluster.master, "--archives", f"{archive}#environment",
        "--executor-memory", "512m", "--driver-memory", "500m", "app.py", broker.bootstrap, topic,
        cwd=tmp_path, PYSPARK_DRIVER_PYTHON=str(KQUEUE.with_name("python")), PYSPARK_PYTHON="./environment/bin/python",
    )  # fmt: skip
    assert f"read 100 {cluster.master}" in done.stdout, done.stderr[-3000:]
