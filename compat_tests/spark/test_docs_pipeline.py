"""Runs the commands of docs/pipeline.md in order."""

from __future__ import annotations

import io
import itertools
import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import fastavro
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from kafka import KafkaProducer
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

import kqueue
from kqueue.cli.app import kqueue as command
from kqueue.demo.events import events, replay
from kqueue.demo.flights import Flights
from kqueue.spark.batches import whole_files
from kqueue.spark.event_schema import FLIGHTS, parse
from kqueue.spark.event_schema.schema import TYPES
from kqueue.spark.jobs.ingest import BATCH_MAX
from kqueue.tests.spark.stores.s3_server import KEYS, s3_place

TEXT = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text()
(TOML,) = re.findall(r"^```toml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
COMMANDS = [
    line for block in re.findall(r"^```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL) for line in block.splitlines()
]


ENDPOINT = "http://127.0.0.1:5000"


def test_documented_commands_succeed(
    spark: SparkSession,
    broker: kqueue.Broker,
    s3: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for topic in ("flights", "again"):
        broker.create_topic(topic, 2, retention_ms=-1)
    (tmp_path / "orders.toml").write_text(TOML)
    (tmp_path / "orders-checkpoint").mkdir()
    (tmp_path / "orders-checkpoint" / "metadata").write_text(json.dumps({"id": "2b9f6d0e-0000-4000-8000-000000000000"}))
    broker.create_topic("orders", retention_ms=-1)
    for number, hour in enumerate((10, 10, 14)):
        order = {"number": number, "shop": "a", "ordered": f"2024-05-01T{hour}:00:00Z", "amount": 2.5}
        broker.topics["orders"].produce(json.dumps(order), timestamp=1714521600000 + hour * 3600000)
    broker.create_topic("sales", retention_ms=-1)
    order_schema = {"type": "record", "name": "Order", "fields": [
        {"name": "number", "type": "long"}, {"name": "shop", "type": "string"},
        {"name": "ordered", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
    ]}  # fmt: skip
    (tmp_path / "order.avsc").write_text(json.dumps(order_schema))
    encoded = io.BytesIO()
    sale = {"number": 1, "shop": "a", "ordered": datetime(2024, 5, 1, 10, tzinfo=UTC), "amount": Decimal("2.5")}
    fastavro.schemaless_writer(encoded, fastavro.parse_schema(order_schema), sale)
    for value in (encoded.getvalue(), b"no Avro"):
        broker.topics["sales"].produce(value, timestamp=1714557600000)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    replay(producer, "flights", events(itertools.islice(Flights(), 200)))
    producer.close()
    for line in COMMANDS:
        arguments = line.replace(ENDPOINT, s3["AWS_ENDPOINT_URL"]).split()[1:]
        result = CliRunner().invoke(command, arguments, env={"KQUEUE_BOOTSTRAP": broker.bootstrap, **KEYS})
        done = result.exit_code == 0 or (
            "orders-checkpoint" in line and "nothing is kept" in result.stderr
        )  # that query does not exist
        assert done, f"{line}\n{result.output}"
    topics = ("flights", "again", "from-s3")
    first, again, from_s3 = (sorted(record.value for record in broker.topics[topic].records()) for topic in topics)
    assert first == again == from_s3
    assert whole_files(s3_place(s3, "tables"), "gold")
    assert (tmp_path / "kept/records/topic=flights/date=2013-01-01").is_dir()
    (gold,) = pq.read_table(tmp_path / "tables/gold").to_pylist()
    assert (gold["shop"], gold["orders"], gold["revenue"]) == ("a", 2, 5)
    assert (tmp_path / "tables/silver/batch=0/date=2024-05-01").is_dir()
    catalog = SqlCatalog("kqueue", uri=f"sqlite:///{tmp_path}/lake/checkpoints/catalog.db")
    (lake,) = catalog.load_table("kqueue.gold").scan().to_arrow().to_pylist()
    catalog.close()
    assert (lake["shop"], lake["orders"], lake["revenue"]) == ("a", 2, 5)
    assert [row["reason"][:16] for row in pq.read_table(tmp_path / "sales-tables/quarantine").to_pylist()] == [
        "can't be decoded"
    ]
    told = re.findall(r"^\| `tables/(\w+)`", TEXT, re.MULTILINE)
    assert {path.name for path in (tmp_path / "tables").iterdir()} == {*told, "checkpoints"}


def test_documented_limits_of_transformations_are_those_of_the_code() -> None:
    assert f"the flights' is {FLIGHTS.lateness}" in TEXT
    schema = parse(TOML)
    bare = parse(re.sub(r"^(by|window|lateness).*$|^\[(rules|gold)\][^\[]*", "", TOML, flags=re.MULTILINE))
    assert (bare.window, bare.lateness) == (schema.window, schema.lateness)
    assert f'omitted: events = "{bare.gold["events"]}"' in TEXT
    assert f"{BATCH_MAX:,}" == "1,000,000"  # one million, as the page says
    for kind in TYPES:
        assert re.search(rf"\b{kind}\b", TEXT), kind
    (named,) = re.findall(r"JSON\swith\s([^.]*)\.\sA\stopic\sgives", TEXT)
    assert re.split(r",\s|\sand\s", named) == list(FLIGHTS.names)
