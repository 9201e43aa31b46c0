"""Decoded values: the options of the source, and of ingest."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import kqueue
from compat_tests.spark.sending import send
from kqueue.cli.app import kqueue as command
from kqueue.tests.spark.value_formats.registry_server import RegistryServer
from kqueue.tests.spark.value_formats.test_framing import framed

NewTopic = Callable[..., str]
ORDER = {
    "type": "record", "name": "Order", "fields": [
        {"name": "number", "type": "long"},
        {"name": "shop", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "items", "type": {"type": "array", "items": {
            "type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}]}}},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
    ],
}  # fmt: skip
COLUMN = (
    "struct<number:bigint,shop:string,at:timestamp,amount:decimal(10,2),items:array<struct<sku:string>>,"
    "tags:map<string,int>>"
)


def avro(row: dict[str, Any], schema: dict[str, Any] = ORDER) -> bytes:
    file = io.BytesIO()
    filled = {"shop": None, "at": 1_700_000_000_000, "amount": Decimal("1.25"), "items": [], "tags": {}} | row
    plain = json.loads(json.dumps(schema).replace(', "logicalType": "timestamp-millis"', ""))
    fastavro.schemaless_writer(file, fastavro.parse_schema(plain), filled)
    return file.getvalue()


def test_avro_is_decoded_by_a_given_schema(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, checkpoint: str
) -> None:
    topic = new_topic()
    values = [
        avro({"number": 1, "items": [{"sku": "a"}], "tags": {"x": 1}}),
        None,
        b"\x01",
        avro({"number": 2, "shop": "b"}),
    ]
    send(broker, topic, 0, values)
    options = {
        "kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "startingOffsets": "earliest",
        "includeHeaders": "true", "valueFormat": "avro", "valueSchema": json.dumps(ORDER), "valueMode": "permissive",
    }  # fmt: skip
    frame = spark.read.format("kqueue").options(**options).load()
    columns = dict(frame.dtypes)
    assert (columns["value"], list(columns)[-3:]) == (COLUMN, ["headers", "valueError", "valueBytes"])
    rows = frame.orderBy("offset").collect()
    assert [row.value and (row.value.number, row.value.shop) for row in rows] == [(1, None), None, None, (2, "b")]
    assert (rows[0].value.tags, rows[0].value["items"][0].sku, str(rows[0].value.amount)) == ({"x": 1}, "a", "1.25")
    assert [row.valueBytes for row in rows] == [None, None, b"\x01", None]
    assert rows[2].valueError.startswith("not Avro of Order: ")
    assert (rows[0].valueError, rows[1].valueError) == (None, None)
    assert frame.where("value.shop = 'b'").select("value.number").collect() == [(2,)]

    stream = spark.readStream.format("kqueue").options(**options).load().select("value.number", "offset", "valueError")
    query = stream.writeStream.format("memory").queryName("decoded").option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()
    decoded = spark.sql("select number from decoded order by offset").collect()
    assert [row.number for row in decoded] == [1, None, None, 2]

    strict = spark.read.format("kqueue").options(**options).option("valueMode", "failfast").load()
    with pytest.raises(PySparkException) as caught:
        strict.collect()
    message = str(caught.value)
    assert f"{topic}-0, offset 2: not Avro of Order: " in message
    assert "valueMode=permissive goes on" in message
    assert message.count("During handling") == 0
    assert strict.where("offset < 2").schema["value"].dataType.simpleString() == COLUMN


def test_avro_is_decoded_by_schemas_of_a_registry(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic
) -> None:
    topic = new_topic()
    older = {**ORDER, "fields": [one for one in ORDER["fields"] if one["name"] != "shop"]}
    with RegistryServer() as registry:
        first = registry.register(f"{topic}-value", json.dumps(older))
        second = registry.register(f"{topic}-value", json.dumps(ORDER))
        values = [framed(first, avro({"number": 1}, older)), framed(second, avro({"number": 2, "shop": "b"})), b"{}"]
        send(broker, topic, 0, values)
        options = {
            "kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "valueFormat": "avro",
            "valueSchemaRegistry": registry.url, "valueMode": "permissive",
        }  # fmt: skip
        frame = spark.read.format("kqueue").options(**options).load()
        rows = frame.orderBy("offset").collect()
        assert [row.value and (row.value.number, row.value.shop) for row in rows] == [(1, None), (2, "b"), None]
        assert rows[2].valueError.startswith("no frame of a schema registry")
        assert dict(frame.dtypes)["value"] == COLUMN
        assert sum("latest" in path for path in registry.asked) == 1
        secret = spark.read.format("kqueue").options(**options, valueSchemaRegistryToken="hidden-1").load()
        assert "hidden-1" not in str(secret._jdf.queryExecution())
    with pytest.raises(PySparkException, match="the schema registry .* gives no schema: ") as caught:
        frame.collect()
    assert str(caught.value).count("gives no schema") == 1
    assert str(caught.value).count("During handling") == 0


def test_json_and_protobuf_are_decoded_by_a_given_schema(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    send(broker, topic, 0, [b'{"id": 1, "at": "2024-05-01T12:00:00Z"}', b'{"id": "1"}', b"\x08\x01\x10\x02"])
    (tmp_path / "sale.proto").write_text('syntax = "proto3"; message Sale { int64 id = 1; repeated sint32 n = 2; }')
    properties = {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}}
    given = {
        "json-schema": (json.dumps({"properties": properties}), "struct<id:bigint,at:timestamp>", [1, None, None]),
        "protobuf": (str(tmp_path / "sale.proto"), "struct<id:bigint,n:array<int>>", [None, None, 1]),
    }
    reader = spark.read.format("kqueue").option("kafka.bootstrap.servers", broker.bootstrap).option("subscribe", topic)
    for name, (schema, column, ids) in given.items():
        frame = (
            reader.option("valueFormat", name).option("valueSchema", schema).option("valueMode", "permissive").load()
        )
        assert dict(frame.dtypes)["value"] == column
        rows = frame.orderBy("offset").collect()
        assert [row.value and row.value.id for row in rows] == ids
        assert [row.valueError is None for row in rows] == [one is not None for one in ids]


EVENTS = """
id = "number"
time = "at"
by = "shop"
[fields]
number = "bigint"
shop = "string"
at = "timestamp"
amount = "decimal(10,2)"
[rules]
"amount: dear" = "amount < 100"
[gold]
amount = "sum(amount)"
"""


def test_ingest_quarantines_wrong_values(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1, retention_ms=-1)
    rows: list[dict[str, Any]] = [
        {"number": 1, "shop": "a"}, {"number": 2}, {"number": 3, "shop": "a", "amount": Decimal(100)},
        {"number": 4, "shop": "a", "amount": Decimal("0.75")}, {"number": 5, "shop": "a", "at": 2**60},
    ]  # fmt: skip
    send(broker, topic, 0, [*map(avro, rows), b"{}", None])
    (tmp_path / "events.toml").write_text(EVENTS)
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    folder, topic_of = tmp_path / "tables", ["-t", topic, "-b", broker.bootstrap]
    arguments = ["pipeline", "ingest", str(folder), *topic_of, "--finish", "--json", "--lateness", "2000 days"]
    arguments += ["--events", str(tmp_path / "events.toml"), "--value-format", "avro"]
    result = CliRunner().invoke(command, [*arguments, "--value-schema", str(tmp_path / "order.avsc")])
    assert result.exit_code == 0, result.output

    def read(name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pq.read_table(folder / name).to_pylist()
        return sorted(rows, key=lambda row: row.get("offset", 0))

    assert [(row["number"], str(row["amount"])) for row in read("silver")] == [(1, "1.25"), (4, "0.75")]
    assert {row["at"].isoformat() for row in read("silver")} == {"2023-11-14T22:13:20+00:00"}
    wrong = read("quarantine")
    assert [row["offset"] for row in wrong] == [1, 2, 4, 5, 6]
    assert [row["reason"] for row in wrong[:2]] == ["shop: not a text", "amount: dear"]
    assert wrong[3]["reason"].startswith("can't be decoded: not Avro of Order: ")
    assert json.loads(result.stdout)["quarantined"]["can't be decoded"] == 2
    assert (wrong[3]["value"], wrong[4]["reason"]) == (b"{}", "no value")
    assert [bytes(row["value"]) for row in read("bronze")[:5]] == [avro(row) for row in rows]
    assert [str(row["amount"]) for row in read("gold")] == ["2.00"]
    (tmp_path / "other.avsc").write_text(json.dumps({**ORDER, "fields": ORDER["fields"][1:]}))
    other = CliRunner().invoke(command, [*arguments, "--value-schema", str(tmp_path / "other.avsc")])
    assert other.stderr == "Error: events need number, and the schema of values has no such field\n"
    with_typo = CliRunner().invoke(command, [*arguments, "--value-schema", "none.avsc"])
    assert (with_typo.exit_code, len(with_typo.stderr.splitlines())) == (1, 1)
    assert "'none.avsc' is no schema, and as a file" in with_typo.stderr


MISTAKES: list[tuple[dict[str, str], str]] = [
    ({"valueFormat": "xml"}, "valueFormat: expected none"),
    ({"valueSchema": "{}"}, "valueSchema needs valueFormat"),
    ({"valueFormat": "avro"}, "valueFormat needs valueSchema"),
    ({"valueFormat": "avro", "valueSchema": "none.avsc"}, "'none.avsc' is no schema, and as a file: No such file"),
    ({"valueFormat": "avro", "valueSchema": "{}"}, "the Avro schema can't be used: "),
]


def test_wrong_value_options_are_refused_on_the_driver(spark: SparkSession) -> None:
    topic = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "orders"}
    for options, words in MISTAKES:
        with pytest.raises(PySparkException) as caught:
            spark.read.format("kqueue").options(**topic, **options).load()
        assert words in str(caught.value)
        assert str(caught.value).count("\n") < 14
