"""TLS and SASL in source, sink and jobs: by Spark's names, and by ``--command-config``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import kqueue
from kqueue.cli.app import kqueue as command
from kqueue.client import Client, ClientOptions
from kqueue.security.jaas import SCRAM_MODULE
from kqueue.spark.errors import error_summary
from kqueue.spark.options import security_of

SECRET, GUESSED = "hunter2word", "hunter2guess"
WRONG = "user ann is not authenticated: Authentication failed: invalid credentials"
PEM = re.compile(r"-----BEGIN (?P<kind>[A-Z ]+)-----.*?-----END (?P=kind)-----", re.DOTALL)
EVENT = {"id": "1", "flight": "UA1", "origin": "EWR", "dest": "ORD", "scheduled": "2024-05-01T10:00:00Z"}


@pytest.fixture(scope="module")
def secure() -> Iterator[kqueue.Broker]:
    settings = {"auto.create.topics.enable": "false", "connection.failed.authentication.delay.ms": "0"}
    with kqueue.Broker(tls=True, users={"ann": SECRET}, settings=settings) as running:
        for topic in ("orders", "copy"):
            running.create_topic(topic, 2, retention_ms=-1)
        for number in range(10):
            running.topics["orders"].produce(json.dumps({**EVENT, "id": str(number)}), partition=number % 2)
        yield running


@pytest.fixture(scope="module")
def connection(secure: kqueue.Broker) -> dict[str, str]:
    """Return the options of the source and the sink, with the authority as text."""
    authority = Path(secure.client_config("confluent-kafka", user="ann")["ssl.ca.location"]).read_text()
    return {
        "kafka.bootstrap.servers": secure.bootstrap,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": authority,
        "kafka.ssl.key.password": SECRET,
        "kafka.ssl.endpoint.identification.algorithm": "https",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{SCRAM_MODULE} required username="ann" password="{SECRET}";',
    }


def guessing(connection: Mapping[str, str]) -> dict[str, str]:
    return {name: value.replace(SECRET, GUESSED) for name, value in connection.items()}


def rows(broker: kqueue.Broker, connection: Mapping[str, str], topic: str) -> int:
    options = ClientOptions(bootstrap=broker.bootstrap, security=security_of(connection))
    with Client(options) as client:
        partitions = client.metadata([topic]).topics[topic].topic_partitions
        return sum(offset.offset or 0 for offset in client.offsets(dict.fromkeys(partitions, -1)).values())


def files_with_secret(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]


def shown_by_spark(spark: SparkSession) -> str:
    """Return what Spark keeps of each query for its user interface and its event log."""
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    kept = [executions.apply(number) for number in range(executions.size())]
    assert kept
    return "\n".join(
        f"{one.description()} {one.details()} {one.physicalPlanDescription()} {one.modifiedConfigs()}" for one in kept
    )


def explained(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().toString())


def test_source_and_sink_connect_and_no_secret_shows(
    spark: SparkSession,
    secure: kqueue.Broker,
    connection: dict[str, str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    read = spark.read.format("kqueue").options(**connection, subscribe="orders").load()
    assert read.count() == 10
    values = read.select("value")
    values.write.format("kqueue").mode("append").options(**connection, topic="copy").save()
    assert rows(secure, connection, "copy") == 10
    once = {"delivery": "exactly-once", "txnAppId": "secure", "txnVersion": "1"}
    values.write.format("kqueue").mode("append").options(**connection, **once, topic="copy").save()
    assert rows(secure, connection, "copy") == 20
    stream = spark.readStream.format("kqueue").options(**connection, subscribe="orders", startingOffsets="earliest")
    writer = stream.load().select("value").writeStream.format("kqueue").options(**connection, topic="copy")
    writer = writer.option("delivery", "exactly-once").option("checkpointLocation", str(tmp_path))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(240)
    assert rows(secure, connection, "copy") == 30
    query.explain(True)
    inline = {**connection, "kafka.ssl.keystore.key": f"BEGIN {SECRET}"}
    named = ", ".join(f"`{name}` '{value}'" for name, value in inline.items() if "jaas" not in name)
    spark.sql(f"create or replace temporary view secured using kqueue options ({named}, subscribe 'orders')")
    assert not files_with_secret(tmp_path)
    progress = query.lastProgress
    assert progress is not None
    for text in (explained(read), progress.json, str(query.exception()), shown_by_spark(spark), *capfd.readouterr()):
        assert "hunter2" not in text


def test_wrong_credentials_are_one_sentence_after_one_attempt(
    spark: SparkSession, secure: kqueue.Broker, connection: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    wrong = guessing(connection)
    source = {**wrong, "subscribe": "orders"}
    frame = spark.range(4, numPartitions=2).selectExpr("cast(id as string) value")

    def read() -> None:
        spark.read.format("kqueue").options(**source).load().count()

    def stream() -> None:
        writer = spark.readStream.format("kqueue").options(**source).load().writeStream.format("noop")
        writer.trigger(availableNow=True).start().awaitTermination(240)

    def write() -> None:
        frame.write.format("kqueue").mode("append").options(**wrong, topic="copy").save()

    for attempt in (read, stream, write):
        caplog.clear()
        with pytest.raises(PySparkException) as raised:
            attempt()
        sentence = error_summary(raised.value)
        assert sentence.startswith(f"{secure.bootstrap}: {WRONG}"), attempt
        assert "check sasl.mechanism" in sentence
        assert "hunter2" not in str(raised.value)
        assert sum("invalid credentials" in message for message in caplog.messages) == 1, attempt


def test_certificate_identifies_the_reader(spark: SparkSession) -> None:
    """The private key is text among the options, so it comes to the workers without a file."""
    with kqueue.Broker(tls=True, acls=["User:CN=ann allow read topic:orders"]) as broker:
        broker.create_topic("orders")
        broker.topics["orders"].produce("x")
        files = broker.client_config("kafka-python", user="ann")
        pem = Path(files["ssl_keyfile"]).read_text()
        parts = {match["kind"]: match[0] for match in PEM.finditer(pem)}
        anonymous = {
            "kafka.bootstrap.servers": broker.bootstrap,
            "kafka.security.protocol": "SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": files["ssl_cafile"],
        }
        ann = {
            **anonymous,
            "kafka.ssl.keystore.type": "PEM",
            "kafka.ssl.keystore.certificate.chain": parts["CERTIFICATE"],
            "kafka.ssl.keystore.key": parts["PRIVATE KEY"],
        }
        reader = spark.read.format("kqueue").option("subscribe", "orders")
        assert [row.value for row in reader.options(**ann).load().collect()] == [b"x"]
        assert parts["PRIVATE KEY"][40:-40] not in shown_by_spark(spark)
        other = spark.read.format("kqueue").option("subscribe", "orders").options(**anonymous)
        with pytest.raises(PySparkException) as raised:
            other.load().collect()
        assert "TOPIC_AUTHORIZATION_FAILED" in error_summary(raised.value)


class TestJobs:
    @pytest.fixture
    def properties(self, connection: dict[str, str], tmp_path: Path) -> Path:
        path = tmp_path / "client.properties"
        given = {name.removeprefix("kafka."): value for name, value in connection.items() if "servers" not in name}
        path.write_text("".join(f"{name}={value.replace(chr(10), chr(92) + 'n')}\n" for name, value in given.items()))
        return path

    def run(self, secure: kqueue.Broker, properties: Path, *arguments: str, **environment: str) -> Result:
        given = ["pipeline", *arguments, "--command-config", str(properties)]
        return CliRunner().invoke(command, given, env={"KQUEUE_BOOTSTRAP": secure.bootstrap, **environment})

    def test_jobs_connect_by_command_config(
        self,
        spark: SparkSession,
        secure: kqueue.Broker,
        properties: Path,
        connection: dict[str, str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "ca.pem").write_text(connection["kafka.ssl.truststore.certificates"])
        lines = [line for line in properties.read_text().splitlines() if "truststore.certificates" not in line]
        properties.write_text("\n".join([*lines, "ssl.truststore.location=ca.pem"]))
        kept, tables, report = (str(tmp_path / "out" / name) for name in ("kept", "tables", "report"))
        events = ("--topic", "orders")
        again = ("--topic", "again", "--create", "--delivery", "exactly-once")
        for arguments, told in (
            (("archive", kept, *events), "Archived 10 records"),
            (("replay", kept, *again), "Sent 10 records to again"),
            (("ingest", tables, *events, "--events", "flights"), "bronze"),
            (("audit", "--topic", "again", "--report", report), "10 records"),
            (("sweep",), "replay-"),
        ):
            result = self.run(secure, properties, *arguments)
            assert result.exit_code == 0, result.output
            assert told in result.stdout
        assert rows(secure, connection, "again") == 10
        assert not files_with_secret(tmp_path / "out")
        assert "hunter2" not in shown_by_spark(spark)

    def test_wrong_credentials_are_reported_before_spark_starts(
        self, secure: kqueue.Broker, properties: Path, tmp_path: Path
    ) -> None:
        properties.write_text(properties.read_text().replace(SECRET, GUESSED))
        folder = str(tmp_path / "out")
        for arguments, code in (
            (("archive", folder, "--topic", "orders"), 1),
            (("replay", folder, "--topic", "again"), 1),
            (("ingest", folder, "--topic", "orders", "--events", "flights"), 1),
            (("audit",), 1),
            (("sweep",), 1),
        ):
            result = self.run(secure, properties, *arguments)
            assert result.exit_code == code, result.output
            assert result.output.startswith(f"Error: {secure.bootstrap}: {WRONG}")
            assert result.output.count("\n") == 1
            assert "hunter2" not in result.output
        assert not (tmp_path / "out").exists()
