"""A broker with TLS, users and ACLs, and executors that do not have its certificates."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import kqueue
from kqueue.cli.app import kqueue as command
from kqueue.security.jaas import SCRAM_MODULE
from kqueue.spark.errors import error_summary

DOCS = (Path(__file__).parents[2] / "docs" / "spark-cluster.md").read_text()
ACLS = [
    "User:ann allow read topic:orders",
    "User:ann allow write topic:copy",
    "User:ann allow read,write,create,delete topic prefixed:_kqueue-sink-",
    "User:ann allow write transactional_id prefixed:_kqueue-sink-",
]
"""What `docs/spark.md` lists."""


@pytest.fixture(scope="module")
def secure() -> Iterator[kqueue.Broker]:
    settings = {"auto.create.topics.enable": "false", "connection.failed.authentication.delay.ms": "0"}
    with kqueue.Broker(tls=True, users={"ann": "secret", "bob": "secret"}, acls=ACLS, settings=settings) as running:
        for topic in ("orders", "copy"):
            running.create_topic(topic, 2)
        for number in range(100):
            running.topics["orders"].produce(f"order {number}")
        yield running


def options(broker: kqueue.Broker, user: str, authority: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": broker.bootstrap,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": authority,
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{SCRAM_MODULE} required username="{user}" password="secret";',
    }


def authority_of(broker: kqueue.Broker) -> Path:
    return Path(broker.client_config("confluent-kafka", user="ann")["ssl.ca.location"])


def test_source_and_sink_of_executors_without_the_file(
    spark: SparkSession, secure: kqueue.Broker, tmp_path: Path
) -> None:
    """Its path leads from the folder of Java on the driver, which is not that of an executor."""
    assert spark._jvm is not None
    here = Path(f"/proc/{spark._jvm.ProcessHandle.current().pid()}/cwd").readlink()
    relative = os.path.relpath(authority_of(secure), here)

    def is_there(_: int) -> bool:
        import pathlib

        return pathlib.Path(relative).exists()

    assert spark.sparkContext.parallelize(range(4), 4).map(is_there).collect() == [False] * 4
    ann = options(secure, "ann", relative)
    stream = spark.readStream.format("kqueue").options(**ann, subscribe="orders", startingOffsets="earliest")
    writer = stream.option("minPartitions", "4").load().select("value").writeStream.format("kqueue")
    writer = writer.options(**ann, topic="copy", delivery="transactional")
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(240)
    copied = Counter(record.value for record in secure.topics["copy"].records(read_committed=True))
    assert copied == Counter(f"order {number}".encode() for number in range(100))
    bob = options(secure, "bob", relative)
    with pytest.raises(PySparkException) as raised:
        spark.read.format("kqueue").options(**bob, subscribe="orders").load().count()
    assert "TOPIC_AUTHORIZATION_FAILED" in error_summary(raised.value)


def test_a_job_with_the_documented_file(
    spark: SparkSession, secure: kqueue.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the session that there is, in place of one on the master that is named."""
    (text,) = re.findall(r"^```properties\n(.*?)^```$", DOCS, re.MULTILINE | re.DOTALL)
    (line,) = re.findall(r"^(kqueue pipeline .* --command-config .*)$", DOCS, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ca.pem").symlink_to(authority_of(secure))
    properties = tmp_path / "client.properties"
    properties.write_text(text)

    def run(folder: str) -> Result:
        words = line.replace("/shared/kept", folder).replace("BROKER:9092", secure.bootstrap).split()
        place = words.index("--master")
        return CliRunner().invoke(command, [*words[1:place], *words[place + 4 :]])

    assert "--archives environment.tar.gz" in line
    done = run("kept")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("Archived 100 records")
    properties.write_text(text.replace("username=ann", "username=bob"))
    done = run("none")
    assert (done.exit_code, done.output.count("\n")) == (1, 1), done.output
    assert "TOPIC_AUTHORIZATION_FAILED" in done.stderr
    assert not (tmp_path / "none").exists()
