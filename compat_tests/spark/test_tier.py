"""Queries of a tier in an object store, alone and with brokers that have the end of each log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from pyspark.sql import DataFrame, SparkSession

import kqueue
from kqueue.tests.spark.source.logs import send
from kqueue.tests.spark.source.tiers import create_tiered, local_start, tiering_broker
from kqueue.tests.spark.stores.s3_server import BUCKET, KEYS
from kqueue.tests.telemetry.scraping import scrape
from kqueue.tests.waits import eventually

SECRET = KEYS["AWS_SECRET_ACCESS_KEY"]
LOCAL_START = 75
"""Of 30 batches in segments of 5: what the broker deletes for certain."""


class Tiered:
    """A broker with a topic of one partition, most of which is in an object store only.

    url: of the tier, with what is needed to read it. end: of the log.
    """

    def __init__(self, broker: kqueue.Broker, url: str) -> None:
        self.broker = broker
        self.url = url
        self.end = 0

    def send(self, batches: int) -> None:
        for _ in range(batches):
            send(self.broker, "t", 0, 5)
            self.end += 5

    def fetches(self) -> float:
        return scrape(self.broker).get(("kqueue_requests_total", (("api", "Fetch"),)), 0)


@pytest.fixture
def tiered(s3: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tiered]:
    """30 batches of 5 records. The broker has its keys from the environment, Spark from the URL."""
    server = {"endpoint": s3["AWS_ENDPOINT_URL"], "region": s3["AWS_REGION"]}
    keys = {"access_key_id": s3["AWS_ACCESS_KEY_ID"], "secret_access_key": SECRET}
    for name, value in keys.items():
        monkeypatch.setenv(f"AWS_{name.upper()}", value)
    tier = f"s3://{BUCKET}/{tmp_path.name}?{urlencode(server)}"
    with tiering_broker(tmp_path / "data", tier) as broker:
        create_tiered(broker, "t")
        tiered = Tiered(broker, f"{tier}&{urlencode(keys)}")
        tiered.send(30)
        eventually(lambda: local_start(broker, "t") >= LOCAL_START)
        yield tiered


def read(spark: SparkSession, tiered: Tiered, *, brokers: bool = True, **options: object) -> DataFrame:
    reader = spark.read.format("kqueue").option("path", tiered.url).option("subscribe", "t")
    if brokers:
        reader = reader.option("kafka.bootstrap.servers", tiered.broker.bootstrap)
    return reader.options(**{name: str(value) for name, value in options.items()}).load()


def offsets(frame: DataFrame) -> list[int]:
    return sorted(row.offset for row in frame.select("offset").collect())


def test_query_has_each_record_once_from_tier_and_brokers(spark: SparkSession, tiered: Tiered) -> None:
    frame = read(spark, tiered, splitBytes=1)
    assert frame.rdd.getNumPartitions() == 6
    assert offsets(frame) == list(range(tiered.end))
    assert offsets(frame.where("offset % 7 = 0")) == list(range(0, tiered.end, 7))
    shown = frame._jdf.queryExecution().toString()
    assert SECRET not in shown


def test_backfill_sends_no_fetch_to_brokers(spark: SparkSession, tiered: Tiered) -> None:
    before = tiered.fetches()
    bounded = read(spark, tiered, endingOffsets=f'{{"t":{{"0":{LOCAL_START}}}}}')
    assert offsets(bounded) == list(range(LOCAL_START))
    alone = offsets(read(spark, tiered, brokers=False))
    assert alone == list(range(len(alone)))
    assert len(alone) >= LOCAL_START
    assert tiered.fetches() == before
    assert offsets(read(spark, tiered, startingOffsets=f'{{"t":{{"0":{LOCAL_START}}}}}'))[-1] == tiered.end - 1
    assert tiered.fetches() > before


def test_stream_goes_on_with_and_without_the_tier(
    spark: SparkSession, tiered: Tiered, checkpoint: str, tmp_path: Path
) -> None:
    def run(*, tier: bool, **options: object) -> list[int]:
        reader = spark.readStream.format("kqueue").option("kafka.bootstrap.servers", tiered.broker.bootstrap)
        if tier:
            reader = reader.option("path", tiered.url)
        frame = reader.options(subscribe="t", startingOffsets="earliest", **options).load()
        query = (
            frame.select("offset")
            .writeStream.format("parquet")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start(str(tmp_path / "table"))
        )
        query.awaitTermination()
        assert SECRET not in f"{query.lastProgress} {query._jsq.explainInternal(True)}"
        return offsets(spark.read.parquet(str(tmp_path / "table")))

    assert run(tier=True, maxOffsetsPerTrigger=60) == list(range(tiered.end))
    tiered.send(10)
    assert run(tier=False) == list(range(tiered.end))
    tiered.send(10)
    assert run(tier=True) == list(range(tiered.end))
