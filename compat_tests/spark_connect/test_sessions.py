"""Source and sink in a remote session, and what such a session can't do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import kqueue
from compat_tests.spark_connect.conftest import documented, fill, values
from compat_tests.waits import look_until
from kqueue.spark.errors import OptionError, PipelineFailed
from kqueue.spark.event_schema import FLIGHTS
from kqueue.spark.executors import SERVER_HINT
from kqueue.spark.jobs.ingest import ingest
from kqueue.spark.progress import LagListener, QueryLag
from kqueue.spark.session import activate, isolated_session, prepare, session

ALL = sorted(f"order {number}" for number in range(100))
ONCE = {"txnAppId": "nightly", "txnVersion": "1"}


def of(broker: kqueue.Broker, **options: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap, **options}


def stream(spark: SparkSession, broker: kqueue.Broker) -> DataFrame:
    options = of(broker, subscribe="orders", startingOffsets="earliest")
    return spark.readStream.format("kqueue").options(**options).load()


def test_documented_program(
    server: str, spark: SparkSession, broker: kqueue.Broker, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    fill(broker)
    monkeypatch.setattr(sys, "argv", ["app.py", broker.bootstrap])
    program = documented("python")[0].replace("sc://localhost:15002", server)
    exec(compile(program, "docs/spark-connect.md", "exec"), {})
    assert capsys.readouterr().out == "records: 100\n"


def test_batches_by_wire_and_by_path(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with kqueue.Broker(folder) as broker:
        fill(broker)
        broker.create_topic("copy", 3)
        orders = spark.read.format("kqueue").options(**of(broker, subscribe="orders")).load()
        assert sorted(row.what for row in orders.selectExpr("string(value) what").collect()) == ALL
        writing = orders.select("key", "value", "partition").write.format("kqueue").mode("append")
        writing.options(**of(broker, topic="copy")).save()
        for _ in range(2):
            writing.options(**of(broker, topic="copy", delivery="transactional", **ONCE)).save()
        assert values(broker, "copy") == sorted(ALL * 2)
    options = {"path": str(folder), "subscribe": "copy", "kafka.isolation.level": "read_committed"}
    from_files = spark.read.format("kqueue").options(**options).load()
    assert sorted(row.what for row in from_files.selectExpr("string(value) what").distinct().collect()) == ALL


def test_streams_of_each_delivery_that_start_at_once(
    spark: SparkSession, broker: kqueue.Broker, tmp_path: Path
) -> None:
    """A later run goes on from its checkpoint."""
    fill(broker)
    deliveries = ("at-least-once", "exactly-once", "transactional")
    for delivery in deliveries:
        broker.create_topic(delivery, 3)
    for run in (deliveries, ("exactly-once",)):
        queries = []
        for delivery in run:
            prepare(spark, check=False)
            writer = stream(spark, broker).select("key", "value").writeStream.format("kqueue")
            writer = writer.options(**of(broker, topic=delivery, delivery=delivery))
            writer = writer.option("checkpointLocation", str(tmp_path / delivery)).trigger(availableNow=True)
            queries.append(writer.start())
        for query in queries:
            assert query.awaitTermination(240)
            assert query.exception() is None
    assert {delivery: values(broker, delivery) for delivery in deliveries} == dict.fromkeys(deliveries, ALL)


def test_upserts_by_foreach_batch(spark: SparkSession, broker: kqueue.Broker, tmp_path: Path) -> None:
    """The function runs on the server, in a session of its own."""
    fill(broker)
    broker.create_topic("counts", cleanup_policy="compact")
    options = of(broker, topic="counts", delivery="exactly-once", txnAppId="counts")

    def upsert(batch: DataFrame, number: int) -> None:
        batch.write.format("kqueue").mode("append").options(**options).option("txnVersion", str(number)).save()

    counts = stream(spark, broker).groupBy("key").count().selectExpr("key", "string(count) value")
    writer = counts.writeStream.outputMode("update").foreachBatch(upsert)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(240)
    assert query.exception() is None
    assert sorted(map(int, values(broker, "counts"))) == [14] * 5 + [15] * 2


def test_how_far_a_query_is_behind(spark: SparkSession, broker: kqueue.Broker, tmp_path: Path) -> None:
    """The listener runs in the client."""
    fill(broker)
    told: list[QueryLag] = []
    lag = LagListener(of(broker, subscribe="orders"), tell=told.append)
    spark.streams.addListener(lag)
    try:
        writer = stream(spark, broker).writeStream.format("noop").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        assert query.awaitTermination(240)
        look_until(lambda: lag.latest, lambda latest: query.id in latest, "the query", 240)
    finally:
        spark.streams.removeListener(lag)
        lag.close()
    assert lag.latest[query.id].records == 0
    assert told


def test_errors_of_the_source_are_ours(spark: SparkSession) -> None:
    with pytest.raises(Exception, match=r"OptionError: path: /no/such is no folder that is there"):
        spark.read.format("kqueue").option("path", "/no/such").option("subscribe", "orders").load().count()


def test_what_a_remote_session_can_not_do_is_one_sentence(server: str, spark: SparkSession, tmp_path: Path) -> None:
    activate(spark)
    for call in (
        lambda: isolated_session(spark, {}),
        lambda: ingest(spark, {"subscribe": "orders"}, str(tmp_path / "tables"), schema=FLIGHTS),
    ):
        with pytest.raises(PipelineFailed, match=r"^this job can't be used through Spark Connect, which gives no"):
            call()
    with pytest.raises(OptionError, match=r"^spark.archives can't be set through Spark Connect: it is a setting of"):
        session("orders", server, settings={"spark.archives": "environment.tar.gz"})
    assert not list(tmp_path.iterdir())


def test_a_server_whose_python_lacks_kqueue_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """Executors run what the session says: here a Python that hides kqueue."""
    hiding = tmp_path / "hiding" / "kqueue"
    hiding.mkdir(parents=True)
    bare = tmp_path / "python"
    shown = "import sys; sys.modules['kqueue'] = None; import runpy; "
    bare.write_text(
        f"#!/bin/sh\nshift\nexec {sys.executable} -c \"{shown}runpy.run_module('$1', run_name='__main__')\"\n"
    )
    bare.chmod(0o755)
    setting = "spark.sql.execution.pyspark.python"
    spark.conf.set(setting, str(bare))
    try:
        with pytest.raises(PipelineFailed, match="which has no kqueue: install this version of kqueue") as caught:
            prepare(spark)
    finally:
        spark.conf.unset(setting)
    assert str(caught.value).endswith(SERVER_HINT)
