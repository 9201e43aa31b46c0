"""Archives and tables in an object store, written and read by executors."""

from __future__ import annotations

import json
import os
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

import kqueue
from compat_tests.spark_cluster.conftest import Filled
from compat_tests.spark_cluster.environments import environment_without
from kqueue.cli.app import kqueue as command
from kqueue.spark.errors import PipelineFailed
from kqueue.spark.executors import check_executors
from kqueue.spark.stores import Location
from kqueue.tests.spark.stores.s3_server import KEYS, s3_server


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Run a server, whose keys this process has from now on."""
    kept = dict(os.environ)
    with s3_server() as settings:
        os.environ |= KEYS
        yield settings["AWS_ENDPOINT_URL"]
    for name in KEYS:
        os.environ.pop(name)
        os.environ |= {name: kept[name] for name in KEYS if name in kept}


def job(broker: kqueue.Broker, endpoint: str, *words: str | Path) -> Result:
    arguments = ["pipeline", *map(str, words), "--s3-endpoint", endpoint, "-b", broker.bootstrap]
    return CliRunner().invoke(command, arguments)


def test_archive_and_replay(spark: SparkSession, broker: kqueue.Broker, filled: Filled, endpoint: str) -> None:
    """Executors have no keys: they get those of the driver with their tasks."""

    def keys(_: int) -> list[str]:
        import os

        return [name for name in os.environ if name.startswith("AWS_")]

    assert spark.sparkContext.parallelize(range(4), 4).map(keys).collect() == [[]] * 4
    topic = filled(200)
    done = job(broker, endpoint, "archive", "s3://bucket/kept", "--topic", topic)
    assert done.exit_code == 0, done.output
    done = job(broker, endpoint, "replay", "s3://bucket/kept", "--topic", "again", "--create")
    assert done.exit_code == 0, done.output
    first, second = (Counter(one.value for one in broker.topics[name].records()) for name in (topic, "again"))
    assert first == second


def test_ingest_to_iceberg(spark: SparkSession, broker: kqueue.Broker, endpoint: str, tmp_path: Path) -> None:
    broker.create_topic("events", 2, retention_ms=-1)
    (tmp_path / "orders.toml").write_text('id = "n"\ntime = "at"\n[fields]\nn = "int"\nat = "timestamp_ms"\n')
    for number in range(50):
        at = 1_700_000_000_000 + number * 1000
        broker.topics["events"].produce(json.dumps({"n": number, "at": at}), timestamp=at)
    events = ("--topic", "events", "--events", tmp_path / "orders.toml", "--format", "iceberg")
    done = job(
        broker, endpoint, "ingest", "s3://bucket/tables", *events, "--checkpoint", tmp_path / "progress", "--json"
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"]["silver"] == 50
    catalog = SqlCatalog(
        "kqueue", uri=f"sqlite:///{tmp_path / 'progress' / 'catalog.db'}",
        **{"s3.endpoint": endpoint, "s3.access-key-id": KEYS["AWS_ACCESS_KEY_ID"],
           "s3.secret-access-key": KEYS["AWS_SECRET_ACCESS_KEY"], "s3.region": KEYS["AWS_REGION"]},
    )  # fmt: skip
    try:
        assert catalog.load_table("kqueue.silver").scan().to_arrow().num_rows == 50
    finally:
        catalog.close()


def test_what_executors_lack_is_named(
    spark: SparkSession, broker: kqueue.Broker, filled: Filled, endpoint: str, tmp_path: Path
) -> None:
    topic = filled(1)
    archive = ("archive", "s3://bucket/none", "--topic", topic)
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed = f"127.0.0.1:{free.getsockname()[1]}"
    done = job(broker, f"http://{closed}", *archive)
    assert (done.exit_code, done.output.count("\n")) == (1, 1), done.output
    assert f"the object store at {closed} does not answer (Connection refused): start it, or name" in done.stderr
    with pytest.raises(PipelineFailed) as caught:
        check_executors(spark, place=Location("s3://bucket/none", {"AWS_ENDPOINT_URL": f"http://{closed}"}))
    assert f"does not reach the object store at {closed} (Connection refused): name it by" in str(caught.value)
    context = spark.sparkContext
    kept, context.pythonExec = context.pythonExec, str(environment_without(tmp_path / "without", "obstore"))
    try:
        done = job(broker, endpoint, *archive)
    finally:
        context.pythonExec = kept
    assert (done.exit_code, done.output.count("\n")) == (1, 1), done.output
    assert "which has no obstore: make an archive of this environment with `kqueue pipeline pack`" in done.stderr
