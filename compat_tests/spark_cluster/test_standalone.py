"""Source, sink and jobs on a standalone cluster whose workers have no kqueue of their own."""

from __future__ import annotations

import json
import socket
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import DataFrame, SparkSession

import kqueue
from compat_tests.spark_cluster.conftest import Filled
from compat_tests.spark_cluster.standalone import Standalone
from kqueue.cli.app import kqueue as command
from kqueue.spark.errors import PipelineFailed
from kqueue.spark.executors import check_executors


def read(spark: SparkSession, **options: str) -> DataFrame:
    return (
        spark.read.format("kqueue").options(**{name.replace("_", "."): value for name, value in options.items()}).load()
    )


def values(broker: kqueue.Broker, topic: str) -> Counter[bytes | None]:
    return Counter(record.value for record in broker.topics[topic].records(read_committed=True))


def job(broker: kqueue.Broker, *words: str | Path) -> str:
    done = CliRunner().invoke(command, ["pipeline", *map(str, words)], env={"KQUEUE_BOOTSTRAP": broker.bootstrap})
    assert done.exit_code == 0, done.output
    return done.stdout


def test_workers_run_the_packed_environment(spark: SparkSession) -> None:
    def look(_: int) -> tuple[str, str]:
        import sys

        import kqueue

        return sys.executable, kqueue.__file__

    locations = spark.sparkContext.parallelize(range(8), 8).map(look).collect()
    assert all("/environment/" in word for pair in locations for word in pair), locations
    for module in ("numba", "crc32c", "pyarrow"):
        assert spark.sparkContext.parallelize([module], 1).map(lambda name: __import__(name).__name__).collect() == [
            module
        ]


def test_reading_over_the_wire_and_by_path(
    spark: SparkSession, broker: kqueue.Broker, filled: Filled, tmp_path: Path
) -> None:
    topic = filled(1000)
    wire = read(spark, kafka_bootstrap_servers=broker.bootstrap, subscribe=topic, minPartitions="8")
    assert wire.count() == 1000
    shared = read(spark, path=str(tmp_path / "data"), subscribe=topic, includeActiveSegment="true")
    assert sorted(shared.collect()) == sorted(wire.collect())


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once", "transactional"])
def test_streams_write_each_record(
    spark: SparkSession, broker: kqueue.Broker, filled: Filled, tmp_path: Path, delivery: str
) -> None:
    topic, target = filled(1000), f"copy-{delivery}"
    broker.create_topic(target, 4)
    stream = spark.readStream.format("kqueue").option("kafka.bootstrap.servers", broker.bootstrap)
    frame = stream.option("subscribe", topic).option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 500)
    writer = frame.load().select("key", "value", "partition").writeStream.format("kqueue")
    writer = writer.option("kafka.bootstrap.servers", broker.bootstrap).option("topic", target)
    writer = writer.option("delivery", delivery).option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    written, read = values(broker, target), values(broker, topic)
    if delivery == "at-least-once":  # a slow task may have had two attempts
        assert written >= read
        assert set(written) == set(read)
    else:
        assert written == read
        assert "_kqueue-sink-" not in job(broker, "sweep", "--checkpoint", tmp_path / "checkpoint")


def test_every_job(spark: SparkSession, broker: kqueue.Broker, filled: Filled, tmp_path: Path) -> None:
    topic = filled(500)
    kept = tmp_path / "kept"
    assert "Archived 500 records" in job(broker, "archive", kept, "--topic", topic)
    assert "500" in job(broker, "replay", kept, "--topic", "again", "--create", "--delivery", "exactly-once")
    assert values(broker, "again") == values(broker, topic)
    rows = [json.loads(line) for line in job(broker, "audit", "--topic", topic, "--json").splitlines()]
    assert sum(row["records"] for row in rows) == 500
    assert sum(row["missing"] for row in rows) == 0
    broker.create_topic("events", 2, retention_ms=-1)
    (tmp_path / "orders.toml").write_text('id = "n"\ntime = "at"\n[fields]\nn = "int"\nat = "timestamp_ms"\n')
    for number in range(50):
        at = 1_700_000_000_000 + number * 1000
        broker.topics["events"].produce(json.dumps({"n": number, "at": at}), timestamp=at)
    done = job(
        broker, "ingest", tmp_path / "tables", "--topic", "events", "--events", tmp_path / "orders.toml", "--json"
    )
    assert json.loads(done)["rows"]["silver"] == 50
    assert job(broker, "sweep")


def test_workers_that_lack_kqueue_or_python_are_one_sentence(
    spark: SparkSession,
    cluster: Standalone,
    broker: kqueue.Broker,
    filled: Filled,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = filled(1)
    for python, words in ((cluster.python, "has no kqueue, pyarrow, pandas"), ("/no/python", "can't run /no/python")):
        monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
        arguments = ["pipeline", "archive", str(tmp_path / "kept"), "-t", topic, "-b", broker.bootstrap]
        done = CliRunner().invoke(command, arguments)
        assert done.exit_code == 1
        assert words in done.stderr
        assert "`kqueue pipeline pack`" in done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        assert not (tmp_path / "kept").exists()


def test_a_broker_that_executors_do_not_reach_is_named(spark: SparkSession) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed = f"127.0.0.1:{free.getsockname()[1]}"
        check_executors(spark, bootstrap=[closed], brokers=[closed])
    with pytest.raises(PipelineFailed, match=rf"reaches no broker \({closed}: Connection refused\): name the broker"):
        check_executors(spark, bootstrap=[closed])
    with pytest.raises(PipelineFailed, match=rf"does not reach {closed} .* advertised.listeners"):
        check_executors(spark, brokers=[closed])
