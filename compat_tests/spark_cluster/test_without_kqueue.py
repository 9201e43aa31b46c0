"""Queries of users where executors have no kqueue: one sentence, with the remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import kqueue
from compat_tests.spark_cluster.conftest import Filled
from compat_tests.spark_cluster.environments import environment_without
from compat_tests.spark_cluster.standalone import Standalone
from kqueue.spark.errors import PipelineFailed
from kqueue.spark.pythons import EXECUTORS
from kqueue.spark.session import prepare

REMEDY = "make an archive of this environment with `kqueue pipeline pack`, and give it to Spark: --archives"


@pytest.fixture(scope="module")
def without_kqueue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an environment that has what Spark needs, and no kqueue; return its Python."""
    return environment_without(tmp_path_factory.mktemp("without") / "kqueue", "kqueue")


@pytest.fixture
def lacking(spark: SparkSession, without_kqueue: Path) -> SparkSession:
    """Return a session whose executors run that Python."""
    own = spark.newSession()
    own.conf.set(EXECUTORS, str(without_kqueue))
    prepare(own)
    return own


def test_queries_fail_with_one_sentence(
    lacking: SparkSession, without_kqueue: Path, broker: kqueue.Broker, filled: Filled
) -> None:
    connection = {"kafka.bootstrap.servers": broker.bootstrap}
    source = {**connection, "subscribe": filled(10), "startingOffsets": "earliest"}

    def read() -> None:
        lacking.read.format("kqueue").options(**source).load().count()

    def stream() -> None:
        writer = lacking.readStream.format("kqueue").options(**source).load().writeStream.format("noop")
        writer.trigger(availableNow=True).start().awaitTermination(240)

    def write() -> None:
        broker.create_topic("copy", 2)
        frame = lacking.range(4).selectExpr("cast(id as string) value")
        frame.write.format("kqueue").mode("append").options(**connection, topic="copy").save()

    queries: tuple[Callable[[], None], ...] = (read, stream, write)
    for query in queries:
        with pytest.raises(PySparkException) as raised:
            query()
        text = str(raised.value)
        assert text.count(f"runs {without_kqueue}, which has no kqueue: {REMEDY}") == 1, query
        assert "Traceback" not in text, query
    assert not broker.topics["copy"].records()


def test_a_session_is_checked_when_it_is_prepared(spark: SparkSession, cluster: Standalone) -> None:
    """Without pyarrow Spark fails before it comes to what is ours."""
    context = spark.sparkContext
    kept, context.pythonExec = context.pythonExec, str(cluster.python)
    try:
        with pytest.raises(
            PipelineFailed, match=f"runs {cluster.python}, which has no kqueue, pyarrow, pandas: {REMEDY}"
        ):
            prepare(spark)
        prepare(spark, check=False)
    finally:
        context.pythonExec = kept
    prepare(spark)
